//! The stored form of what stands for the beginning of a journal: one line of JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::{
    EdgeBase, EdgeOutcome, EngineBase, PausesBase, Phase, StopReason, TimesBase, Timestamp,
    WorkBase, WorkId, WorkerId,
};

use super::{DecodeError, StoredKind};

/// What stands for the beginning of a run's journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunBase {
    /// The state of the engine.
    pub engine: EngineBase,
    /// When the latest attempts of the works began that run.
    pub began: Vec<(WorkId, Timestamp)>,
    /// When the works ended that have, in this order.
    pub ended: Vec<(WorkId, Timestamp)>,
}

#[derive(Serialize, Deserialize)]
struct StoredRun {
    now: u64,
    submitted: u64,
    seq: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    paused: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    paused_since: Option<u64>,
    #[serde(default)]
    paused_before: u64,
    works: Vec<StoredWork>,
    began: Vec<(u64, u64)>,
    ended: Vec<(u64, u64)>,
}

#[derive(Serialize, Deserialize)]
struct StoredWork {
    work: u64,
    phase: StoredPhase,
    #[serde(default, skip_serializing_if = "is_zero")]
    attempts: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    left: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    spent: u32,
    seq: u64,
    since: u64,
    #[serde(default, skip_serializing_if = "is_not")]
    gate_open: bool,
    #[serde(default, skip_serializing_if = "is_not")]
    unneeded: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    after: Vec<StoredEdge>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    times: Option<StoredTimes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worker: Option<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredPhase {
    Waiting,
    Gated,
    Ready,
    Paused,
    Delayed(u64),
    Running,
    Suspended,
    Resuming,
    Joining,
    /// Whether it holds its cost.
    TimedOut(bool),
    PastDeadline(bool),
    Cancelling(bool),
    Success,
    Skipped,
    Failed,
    Blocked,
    Cancelled,
}

#[derive(Serialize, Deserialize)]
struct StoredEdge {
    from: u64,
    kind: StoredKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<StoredOutcome>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredOutcome {
    Met,
    Unneeded,
    Blocks,
}

#[derive(Serialize, Deserialize)]
struct StoredTimes {
    left: u64,
    expires: Option<u64>,
    deadline: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline_left: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_not(flag: &bool) -> bool {
    !flag
}

/// Returns a span in nanoseconds.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl RunBase {
    /// Returns the stored form.
    #[must_use]
    pub fn encode(&self) -> String {
        let times = |times: &[(WorkId, Timestamp)]| {
            times.iter().map(|(work, at)| (work.get(), at.as_nanos())).collect()
        };
        let stored = StoredRun {
            now: self.engine.now.as_nanos(),
            submitted: self.engine.submitted,
            seq: self.engine.next_seq,
            paused: self.engine.pauses.works.iter().map(|work| work.get()).collect(),
            paused_since: self.engine.pauses.since.map(Timestamp::as_nanos),
            paused_before: nanos(self.engine.pauses.before),
            works: self.engine.works.iter().map(stored_work).collect(),
            began: times(&self.began),
            ended: times(&self.ended),
        };
        serde_json::to_string(&stored).expect("numbers and names are always JSON")
    }

    /// Reads the stored form.
    pub fn decode(text: &str) -> Result<Self, DecodeError> {
        let malformed = |source| DecodeError::Malformed { text: text.to_owned(), source };
        let no_work = || DecodeError::NoWork { text: text.to_owned() };
        let stored: StoredRun = serde_json::from_str(text).map_err(malformed)?;
        stored.base().ok_or_else(no_work)
    }
}

impl StoredRun {
    /// Returns the base, unless it names work 0.
    fn base(self) -> Option<RunBase> {
        let times = |times: Vec<(u64, u64)>| {
            let time = |(work, at)| Some((WorkId::new(work)?, Timestamp::from_nanos(at)));
            times.into_iter().map(time).collect::<Option<Vec<_>>>()
        };
        let engine = EngineBase {
            now: Timestamp::from_nanos(self.now),
            submitted: self.submitted,
            next_seq: self.seq,
            pauses: PausesBase {
                works: self.paused.into_iter().map(WorkId::new).collect::<Option<_>>()?,
                since: self.paused_since.map(Timestamp::from_nanos),
                before: Duration::from_nanos(self.paused_before),
            },
            works: self.works.into_iter().map(StoredWork::base).collect::<Option<_>>()?,
        };
        Some(RunBase { engine, began: times(self.began)?, ended: times(self.ended)? })
    }
}

fn stored_work(base: &WorkBase) -> StoredWork {
    let edge = |edge: &EdgeBase| StoredEdge {
        from: edge.from.get(),
        kind: edge.kind.into(),
        outcome: edge.outcome.map(|outcome| match outcome {
            EdgeOutcome::Met => StoredOutcome::Met,
            EdgeOutcome::Unneeded => StoredOutcome::Unneeded,
            EdgeOutcome::Blocks => StoredOutcome::Blocks,
        }),
    };
    let times = base.times.map(|times| StoredTimes {
        left: nanos(times.left),
        expires: times.expires.map(Timestamp::as_nanos),
        deadline: times.deadline.map(Timestamp::as_nanos),
        deadline_left: times.deadline_left.map(nanos),
    });
    StoredWork {
        work: base.work.get(),
        phase: stored_phase(base.phase),
        attempts: base.attempts,
        left: base.retries_left,
        spent: base.retries_spent,
        seq: base.seq,
        since: base.ready_since.as_nanos(),
        gate_open: base.gate_open,
        unneeded: base.unneeded,
        after: base.after.iter().map(edge).collect(),
        times,
        worker: base.worker.map(WorkerId::number),
    }
}

fn stored_phase(phase: Phase) -> StoredPhase {
    match phase {
        Phase::Waiting => StoredPhase::Waiting,
        Phase::Gated => StoredPhase::Gated,
        Phase::Ready => StoredPhase::Ready,
        Phase::Paused => StoredPhase::Paused,
        Phase::Delayed { due } => StoredPhase::Delayed(due.as_nanos()),
        Phase::Running => StoredPhase::Running,
        Phase::Suspended => StoredPhase::Suspended,
        Phase::Resuming => StoredPhase::Resuming,
        Phase::Joining => StoredPhase::Joining,
        Phase::Cancelling { why: StopReason::Timeout, holds } => StoredPhase::TimedOut(holds),
        Phase::Cancelling { why: StopReason::Deadline, holds } => StoredPhase::PastDeadline(holds),
        Phase::Cancelling { why: StopReason::Cancel, holds } => StoredPhase::Cancelling(holds),
        Phase::Success => StoredPhase::Success,
        Phase::Skipped => StoredPhase::Skipped,
        Phase::Failed => StoredPhase::Failed,
        Phase::Blocked => StoredPhase::Blocked,
        Phase::Cancelled => StoredPhase::Cancelled,
        other => unreachable!("no stored form for {other:?}"),
    }
}

impl StoredPhase {
    fn phase(self) -> Phase {
        match self {
            Self::Waiting => Phase::Waiting,
            Self::Gated => Phase::Gated,
            Self::Ready => Phase::Ready,
            Self::Paused => Phase::Paused,
            Self::Delayed(due) => Phase::Delayed { due: Timestamp::from_nanos(due) },
            Self::Running => Phase::Running,
            Self::Suspended => Phase::Suspended,
            Self::Resuming => Phase::Resuming,
            Self::Joining => Phase::Joining,
            Self::TimedOut(holds) => Phase::Cancelling { why: StopReason::Timeout, holds },
            Self::PastDeadline(holds) => Phase::Cancelling { why: StopReason::Deadline, holds },
            Self::Cancelling(holds) => Phase::Cancelling { why: StopReason::Cancel, holds },
            Self::Success => Phase::Success,
            Self::Skipped => Phase::Skipped,
            Self::Failed => Phase::Failed,
            Self::Blocked => Phase::Blocked,
            Self::Cancelled => Phase::Cancelled,
        }
    }
}

impl StoredWork {
    fn base(self) -> Option<WorkBase> {
        let time = |at: Option<u64>| at.map(Timestamp::from_nanos);
        Some(WorkBase {
            work: WorkId::new(self.work)?,
            phase: self.phase.phase(),
            attempts: self.attempts,
            retries_left: self.left,
            retries_spent: self.spent,
            seq: self.seq,
            ready_since: Timestamp::from_nanos(self.since),
            gate_open: self.gate_open,
            unneeded: self.unneeded,
            after: self.after.into_iter().map(StoredEdge::base).collect::<Option<_>>()?,
            worker: self.worker.map(WorkerId::new),
            times: self.times.map(|times| TimesBase {
                left: Duration::from_nanos(times.left),
                expires: time(times.expires),
                deadline: time(times.deadline),
                deadline_left: times.deadline_left.map(Duration::from_nanos),
            }),
        })
    }
}

impl StoredEdge {
    fn base(self) -> Option<EdgeBase> {
        let outcome = self.outcome.map(|outcome| match outcome {
            StoredOutcome::Met => EdgeOutcome::Met,
            StoredOutcome::Unneeded => EdgeOutcome::Unneeded,
            StoredOutcome::Blocks => EdgeOutcome::Blocks,
        });
        Some(EdgeBase { from: WorkId::new(self.from)?, kind: self.kind.into(), outcome })
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::EdgeKind;

    use super::*;

    #[test]
    fn a_base_comes_back_as_it_was_written() {
        let work = |number| WorkId::new(number).expect("not zero");
        let at = Timestamp::from_nanos;
        let cancelling = |why| [true, false].map(|holds| Phase::Cancelling { why, holds });
        let reasons = [StopReason::Timeout, StopReason::Deadline, StopReason::Cancel];
        let phases = [
            Phase::Waiting,
            Phase::Gated,
            Phase::Ready,
            Phase::Paused,
            Phase::Delayed { due: at(7) },
            Phase::Running,
            Phase::Suspended,
            Phase::Resuming,
            Phase::Joining,
            Phase::Success,
            Phase::Skipped,
            Phase::Failed,
            Phase::Blocked,
            Phase::Cancelled,
        ];
        let outcomes =
            [None, Some(EdgeOutcome::Met), Some(EdgeOutcome::Unneeded), Some(EdgeOutcome::Blocks)];
        let phases = phases.into_iter().chain(reasons.into_iter().flat_map(cancelling));
        let works = phases.zip(1..).map(|(phase, number)| WorkBase {
            work: work(number),
            phase,
            attempts: 1,
            retries_left: 2,
            retries_spent: 3,
            seq: 4,
            ready_since: at(5),
            gate_open: number % 2 == 0,
            unneeded: number % 3 == 0,
            after: outcomes
                .map(|outcome| EdgeBase { from: work(9), kind: EdgeKind::Done, outcome })
                .into(),
            worker: (number % 3 == 1).then(|| WorkerId::new(7)),
            times: (number % 2 == 1).then_some(TimesBase {
                left: Duration::from_nanos(1),
                expires: Some(at(2)),
                deadline: None,
                deadline_left: Some(Duration::from_nanos(3)),
            }),
        });
        let works = works.collect();
        let (since, before) = (Some(at(6)), Duration::from_nanos(8));
        let pauses = PausesBase { works: vec![work(4)], since, before };
        let engine = EngineBase { now: at(1), submitted: 99, next_seq: 100, pauses, works };
        let (began, ended) = (vec![(work(5), at(3))], vec![(work(9), at(4))]);
        let base = RunBase { engine, began, ended };
        assert_eq!(RunBase::decode(&base.encode()).expect("it was encoded"), base);
        assert!(RunBase::decode("{}").is_err());
    }
}

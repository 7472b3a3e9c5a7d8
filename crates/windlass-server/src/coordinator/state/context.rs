//! What the parts of a run's state share: the schedule, and what follows from their decisions.

use windlass_core::{
    Grant, Name, Phase, StopReason, Timestamp, Token, Transition, WorkId, WorkState,
};
use windlass_store::{AttemptEnd, AttemptRecord, RunOutcome};
use windlass_workflow::{OnFailure, format_duration};

use super::super::End;
use super::super::attempts::{Order, OrderId, StopMode};
use super::super::identity::RunIdentity;
use super::super::journal::{Record, Start};
use super::super::observer::Observer;
use super::step_attempt::StepAttempt;
use crate::schedule::{Schedule, TOO_LATE};

/// The run about which a part of its state decides.
pub(super) struct RunContext {
    pub(super) schedule: Schedule,
    pub(super) identity: RunIdentity,
    pub(super) observer: Observer,
    pub(super) effects: Effects,
    /// Why nothing starts any more.
    pub(super) stop: Option<Stop>,
    /// A user has asked for the end of the whole run.
    pub(super) cancelled: bool,
    /// When it was last decided what starts, on a clock that does not pause.
    pub(super) decided: Timestamp,
}

/// Why nothing starts any more.
#[derive(Clone, Copy)]
pub(super) enum Stop {
    Signal(i32),
    /// This process does only what it was asked to, and leaves the run to another one.
    Leave,
}

/// What follows from decisions, until the commit that they belong to has succeeded.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) records: Vec<Record>,
    pub(super) orders: Vec<Order>,
    pub(super) stops: Vec<(OrderId, StopMode)>,
}

impl RunContext {
    pub(super) fn new(schedule: Schedule, identity: RunIdentity) -> Self {
        Self {
            decided: schedule.clock().with_pauses(),
            schedule,
            identity,
            observer: Observer::default(),
            effects: Effects::default(),
            stop: None,
            cancelled: false,
        }
    }

    /// Returns the attempt of a step that is under way, or the last one.
    pub(super) fn latest(&self, work: WorkId) -> Grant {
        let attempt = self.schedule.engine().attempts(work).expect("it is one of its works");
        Grant { work, attempt }
    }

    /// Returns the outcome of a run in which everything has ended.
    pub(super) fn outcome(&self) -> End {
        match self.schedule.outcome() {
            RunOutcome::Succeeded => End::Succeeded,
            RunOutcome::TooLate => End::TooLate,
            RunOutcome::Failed if !self.cancelled => End::Failed,
            _ => End::Cancelled,
        }
    }

    /// Says why an attempt was asked to end, if it was.
    pub(super) fn why_asked(&self, work: WorkId) -> Option<String> {
        let Some(Phase::Cancelling { why, .. }) = self.schedule.engine().phase(work) else {
            return None;
        };
        Some(match (why, self.schedule.step(work).ending.timeout) {
            (StopReason::Timeout, Some(timeout)) => {
                format!("timed out after {}", format_duration(timeout))
            }
            (StopReason::Deadline, _) => TOO_LATE.to_owned(),
            _ => match self.schedule.why_stopped().filter(|_| !self.cancelled) {
                Some(why) if self.schedule.plan().on_failure == OnFailure::Cancel => why,
                _ => "by request".to_owned(),
            },
        })
    }

    /// Notes why steps have ended that the run itself ends between their attempts.
    pub(super) fn explain_ends(&mut self) {
        let new = self.observer.unexplained(&self.schedule);
        let ended = |phase: Phase| {
            let idle = |change: &&Transition| change.from == Some(WorkState::Pending);
            let ended = new.iter().filter(idle).filter(|change| change.to == phase);
            ended.map(|change| change.work).collect::<Vec<_>>()
        };
        let (failed, cancelled) = (ended(Phase::Failed), ended(Phase::Cancelled));
        if !failed.is_empty() && self.schedule.is_too_late() {
            self.explain(&failed, AttemptEnd::Failed, TOO_LATE);
        }
        if !cancelled.is_empty()
            && !self.cancelled
            && let Some(why) = self.schedule.why_stopped()
        {
            self.explain(&cancelled, AttemptEnd::Cancelled, &why);
        }
    }

    /// Gives the same reason for the ends of all these steps, except where another one is known.
    fn explain(&mut self, works: &[WorkId], end: AttemptEnd, why: &str) {
        for &work in works {
            if !self.observer.has_reason(work, self.latest(work).attempt) {
                self.record_reason(work, end, why.to_owned());
            }
        }
    }

    /// Notes and stores why a step ends between its attempts.
    pub(super) fn record_reason(&mut self, work: WorkId, end: AttemptEnd, why: String) {
        let mut never =
            StepAttempt::new(Start::plain(Grant { work, attempt: 0 }), self.schedule.now());
        never.why = Some(why.clone());
        self.record_attempt(&never, end);
        self.note_reason(work, why);
    }

    /// Notes why a step ends between its attempts.
    pub(super) fn note_reason(&mut self, work: WorkId, why: String) {
        let Grant { attempt, .. } = self.latest(work);
        self.observer.note_reason(work, attempt, why);
    }

    /// Has the next commit store how an attempt has ended and give back its names. Returns the record.
    pub(super) fn record_attempt(
        &mut self,
        attempt: &StepAttempt,
        end: AttemptEnd,
    ) -> AttemptRecord {
        let record = self.record_of(attempt, end);
        self.store_attempt(record.clone(), attempt.start.names.clone());
        record
    }

    /// Has the next commit store that the command of an attempt has ended, and what follows it. The
    /// attempt keeps its locks and semaphores meanwhile.
    pub(super) fn record_stage(&mut self, attempt: &mut StepAttempt, stage: AttemptEnd) {
        let limits = attempt.let_limits_go();
        let record = self.record_of(attempt, stage);
        self.store_attempt(record, limits);
    }

    /// Has the next commit store a record and give back `names`, which its attempt has held.
    pub(super) fn store_attempt(&mut self, record: AttemptRecord, names: Vec<(Name, Token)>) {
        let holder = self.identity.holder(Grant { work: record.work, attempt: record.attempt });
        self.effects.records.push(Record::Attempt { record, holder, names });
    }

    fn record_of(&self, attempt: &StepAttempt, end: AttemptEnd) -> AttemptRecord {
        let step = &self.schedule.step(attempt.start.grant.work).name;
        attempt.record(step, self.schedule.now(), end)
    }
}

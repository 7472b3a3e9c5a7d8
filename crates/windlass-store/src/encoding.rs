//! The stored form of a fact: one line of JSON.
//!
//! The form does not depend on core's types, so stored journals stay readable when those change.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_core::{
    Amount, EdgeKind, Ending, Fact, Happening, LevelId, ResourceId, Timestamp, WorkId, WorkerId,
};

mod base;

pub use self::base::RunBase;

/// Why a stored fact cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It is not JSON in the stored form.
    #[error("cannot read the stored fact {text}: {source}")]
    Malformed {
        /// The stored text.
        text: String,
        /// The error of the JSON parser.
        source: serde_json::Error,
    },
    /// It names work 0, which no engine uses.
    #[error("the stored fact {text} names work 0, which does not exist")]
    NoWork {
        /// The stored text.
        text: String,
    },
}

/// A fact in the stored form.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredFact {
    /// Nanoseconds on the run's clock.
    at: u64,
    #[serde(flatten)]
    what: Stored,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stored {
    Submitted {
        work: u64,
    },
    EdgeAdded {
        from: u64,
        to: u64,
        kind: StoredKind,
    },
    EdgeRemoved {
        from: u64,
        to: u64,
    },
    Started {
        work: u64,
        attempt: u32,
        /// Absent before there were workers, and where there are none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worker: Option<u32>,
    },
    Succeeded {
        work: u64,
        attempt: u32,
    },
    Failed {
        work: u64,
        attempt: u32,
    },
    Retried {
        work: u64,
        attempt: u32,
        due: u64,
    },
    Stopped {
        work: u64,
        attempt: u32,
    },
    Interrupted {
        work: u64,
        attempt: u32,
    },
    Suspended {
        work: u64,
        attempt: u32,
    },
    WaitOver {
        work: u64,
        attempt: u32,
    },
    Resumed {
        work: u64,
        attempt: u32,
    },
    Joined {
        work: u64,
        attempt: u32,
    },
    GateOpened {
        work: u64,
    },
    GateRejected {
        work: u64,
    },
    GateSkipped {
        work: u64,
    },
    Reopened {
        work: u64,
    },
    CancelAsked {
        work: u64,
    },
    Halted {
        work: u64,
        attempt: u32,
    },
    Continued {
        work: u64,
        attempt: u32,
    },
    WorkPaused {
        work: u64,
    },
    WorkUnpaused {
        work: u64,
    },
    Paused {},
    Unpaused {},
    Moved {
        work: u64,
        before: Option<u64>,
    },
    Replaced {
        work: u64,
    },
    LimitSet {
        level: u32,
        resource: u32,
        steps: u64,
    },
    Forgotten {
        work: u64,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredKind {
    Success,
    Done,
    Failed,
}

/// Encodes a fact.
///
/// ```
/// use windlass_core::{Fact, Happening, Timestamp, WorkId};
///
/// let what = Happening::Started { work: WorkId::new(2).unwrap(), attempt: 1, worker: None };
/// let fact = Fact { at: Timestamp::from_nanos(5), what };
/// let text = windlass_store::encode(&fact);
/// assert_eq!(text, r#"{"at":5,"started":{"work":2,"attempt":1}}"#);
/// assert_eq!(windlass_store::decode(&text).unwrap(), fact);
/// ```
///
/// # Panics
///
/// Panics if this version of the store has no form for the fact.
#[must_use]
pub fn encode(fact: &Fact) -> String {
    serde_json::to_string(&StoredFact::from(fact)).expect("numbers and names are always JSON")
}

impl From<&Fact> for StoredFact {
    fn from(fact: &Fact) -> Self {
        StoredFact { at: fact.at.as_nanos(), what: stored(fact.what) }
    }
}

fn stored(happening: Happening) -> Stored {
    match happening {
        Happening::Submitted { work } => Stored::Submitted { work: work.get() },
        Happening::EdgeAdded { from, to, kind } => {
            Stored::EdgeAdded { from: from.get(), to: to.get(), kind: kind.into() }
        }
        Happening::EdgeRemoved { from, to } => {
            Stored::EdgeRemoved { from: from.get(), to: to.get() }
        }
        Happening::Started { work, attempt, worker } => {
            let worker = worker.map(WorkerId::number);
            Stored::Started { work: work.get(), attempt, worker }
        }
        Happening::Ended { work, attempt, ending } => ended(work.get(), attempt, ending),
        Happening::Suspended { work, attempt } => Stored::Suspended { work: work.get(), attempt },
        Happening::WaitOver { work, attempt } => Stored::WaitOver { work: work.get(), attempt },
        Happening::Resumed { work, attempt } => Stored::Resumed { work: work.get(), attempt },
        Happening::Joined { work, attempt } => Stored::Joined { work: work.get(), attempt },
        Happening::GateOpened { work } => Stored::GateOpened { work: work.get() },
        Happening::GateRejected { work } => Stored::GateRejected { work: work.get() },
        Happening::GateSkipped { work } => Stored::GateSkipped { work: work.get() },
        Happening::Reopened { work } => Stored::Reopened { work: work.get() },
        Happening::CancelAsked { work } => Stored::CancelAsked { work: work.get() },
        Happening::Halted { work, attempt } => Stored::Halted { work: work.get(), attempt },
        Happening::Continued { work, attempt } => Stored::Continued { work: work.get(), attempt },
        Happening::WorkPaused { work } => Stored::WorkPaused { work: work.get() },
        Happening::WorkUnpaused { work } => Stored::WorkUnpaused { work: work.get() },
        Happening::Paused => Stored::Paused {},
        Happening::Unpaused => Stored::Unpaused {},
        Happening::Moved { work, before } => {
            Stored::Moved { work: work.get(), before: before.map(WorkId::get) }
        }
        Happening::Replaced { work } => Stored::Replaced { work: work.get() },
        Happening::LimitSet { level, resource, limit } => Stored::LimitSet {
            level: level.number(),
            resource: resource.number(),
            steps: limit.steps(),
        },
        Happening::Forgotten { work } => Stored::Forgotten { work: work.get() },
        other => unreachable!("no stored form for {other:?}"),
    }
}

fn ended(work: u64, attempt: u32, ending: Ending) -> Stored {
    match ending {
        Ending::Success => Stored::Succeeded { work, attempt },
        Ending::Failed => Stored::Failed { work, attempt },
        Ending::Retry { due } => Stored::Retried { work, attempt, due: due.as_nanos() },
        Ending::Cancelled => Stored::Stopped { work, attempt },
        Ending::Interrupted => Stored::Interrupted { work, attempt },
        other => unreachable!("no stored form for {other:?}"),
    }
}

/// Decodes a fact.
pub fn decode(text: &str) -> Result<Fact, DecodeError> {
    let malformed = |source| DecodeError::Malformed { text: text.to_owned(), source };
    let stored: StoredFact = serde_json::from_str(text).map_err(malformed)?;
    stored.fact().ok_or_else(|| DecodeError::NoWork { text: text.to_owned() })
}

impl StoredFact {
    /// Returns the fact, unless it names work 0.
    pub(crate) fn fact(self) -> Option<Fact> {
        Some(Fact { at: Timestamp::from_nanos(self.at), what: happening(self.what)? })
    }
}

/// Returns what happened, unless it names work 0.
fn happening(stored: Stored) -> Option<Happening> {
    let ended = |work, attempt, ending| {
        Some(Happening::Ended { work: WorkId::new(work)?, attempt, ending })
    };
    let id = WorkId::new;
    Some(match stored {
        Stored::Submitted { work } => Happening::Submitted { work: id(work)? },
        Stored::EdgeAdded { from, to, kind } => {
            Happening::EdgeAdded { from: id(from)?, to: id(to)?, kind: kind.into() }
        }
        Stored::EdgeRemoved { from, to } => Happening::EdgeRemoved { from: id(from)?, to: id(to)? },
        Stored::Started { work, attempt, worker } => {
            Happening::Started { work: id(work)?, attempt, worker: worker.map(WorkerId::new) }
        }
        Stored::Succeeded { work, attempt } => ended(work, attempt, Ending::Success)?,
        Stored::Failed { work, attempt } => ended(work, attempt, Ending::Failed)?,
        Stored::Retried { work, attempt, due } => {
            ended(work, attempt, Ending::Retry { due: Timestamp::from_nanos(due) })?
        }
        Stored::Stopped { work, attempt } => ended(work, attempt, Ending::Cancelled)?,
        Stored::Interrupted { work, attempt } => ended(work, attempt, Ending::Interrupted)?,
        Stored::Suspended { work, attempt } => Happening::Suspended { work: id(work)?, attempt },
        Stored::WaitOver { work, attempt } => Happening::WaitOver { work: id(work)?, attempt },
        Stored::Resumed { work, attempt } => Happening::Resumed { work: id(work)?, attempt },
        Stored::Joined { work, attempt } => Happening::Joined { work: id(work)?, attempt },
        Stored::GateOpened { work } => Happening::GateOpened { work: id(work)? },
        Stored::GateRejected { work } => Happening::GateRejected { work: id(work)? },
        Stored::GateSkipped { work } => Happening::GateSkipped { work: id(work)? },
        Stored::Reopened { work } => Happening::Reopened { work: id(work)? },
        Stored::CancelAsked { work } => Happening::CancelAsked { work: id(work)? },
        Stored::Halted { work, attempt } => Happening::Halted { work: id(work)?, attempt },
        Stored::Continued { work, attempt } => Happening::Continued { work: id(work)?, attempt },
        Stored::WorkPaused { work } => Happening::WorkPaused { work: id(work)? },
        Stored::WorkUnpaused { work } => Happening::WorkUnpaused { work: id(work)? },
        Stored::Paused {} => Happening::Paused,
        Stored::Unpaused {} => Happening::Unpaused,
        Stored::Moved { work, before: None } => Happening::Moved { work: id(work)?, before: None },
        Stored::Moved { work, before: Some(before) } => {
            Happening::Moved { work: id(work)?, before: Some(id(before)?) }
        }
        Stored::Replaced { work } => Happening::Replaced { work: id(work)? },
        Stored::LimitSet { level, resource, steps } => {
            let (level, resource) = (LevelId::new(level), ResourceId::new(resource));
            Happening::LimitSet { level, resource, limit: Amount::from_steps(steps) }
        }
        Stored::Forgotten { work } => Happening::Forgotten { work: id(work)? },
    })
}

impl From<EdgeKind> for StoredKind {
    fn from(kind: EdgeKind) -> Self {
        match kind {
            EdgeKind::Success => Self::Success,
            EdgeKind::Done => Self::Done,
            EdgeKind::Failed => Self::Failed,
        }
    }
}

impl From<StoredKind> for EdgeKind {
    fn from(kind: StoredKind) -> Self {
        match kind {
            StoredKind::Success => Self::Success,
            StoredKind::Done => Self::Done,
            StoredKind::Failed => Self::Failed,
        }
    }
}

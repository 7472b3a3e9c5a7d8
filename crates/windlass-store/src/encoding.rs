//! The stored form of a fact: one line of JSON that stays readable when the engine's own types
//! change.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use windlass_core::{Ending, Fact, Happening, Timestamp, WorkId};

/// Why a stored fact cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It is not in the stored form.
    #[error("a stored fact cannot be read: {text}")]
    Malformed {
        /// What is stored.
        text: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// It names work 0.
    #[error("a stored fact names work 0: {text}")]
    NoWork {
        /// What is stored.
        text: String,
    },
}

#[derive(Serialize, Deserialize)]
struct StoredFact {
    /// Nanoseconds on the run's clock.
    at: u64,
    work: u64,
    what: Stored,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Stored {
    Submitted,
    Started(u32),
    Succeeded(u32),
    Failed(u32),
    Retried { attempt: u32, due: u64 },
    Stopped(u32),
    Interrupted(u32),
    CancelAsked,
}

/// The stored form of `fact`.
///
/// ```
/// use windlass_core::{Fact, Happening, Timestamp, WorkId};
///
/// let what = Happening::Started { attempt: 1 };
/// let fact = Fact { at: Timestamp::from_nanos(5), work: WorkId::new(2).unwrap(), what };
/// let text = windlass_store::encode(&fact);
/// assert_eq!(text, r#"{"at":5,"work":2,"what":{"started":1}}"#);
/// assert_eq!(windlass_store::decode(&text).unwrap(), fact);
/// ```
///
/// # Panics
///
/// If the fact is of a kind that this version of the store has no form for.
#[must_use]
pub fn encode(fact: &Fact) -> String {
    let what = match fact.what {
        Happening::Submitted => Stored::Submitted,
        Happening::Started { attempt } => Stored::Started(attempt),
        Happening::Ended { attempt, ending } => match ending {
            Ending::Success => Stored::Succeeded(attempt),
            Ending::Failed => Stored::Failed(attempt),
            Ending::Retry { due } => Stored::Retried { attempt, due: due.as_nanos() },
            Ending::Cancelled => Stored::Stopped(attempt),
            Ending::Interrupted => Stored::Interrupted(attempt),
            other => unreachable!("no stored form for {other:?}"),
        },
        Happening::CancelAsked => Stored::CancelAsked,
        other => unreachable!("no stored form for {other:?}"),
    };
    let stored = StoredFact { at: fact.at.as_nanos(), work: fact.work.get(), what };
    serde_json::to_string(&stored).expect("numbers and names are always JSON")
}

/// The fact that is stored as `text`.
pub fn decode(text: &str) -> Result<Fact, DecodeError> {
    let malformed = |source| DecodeError::Malformed { text: text.to_owned(), source };
    let stored: StoredFact = serde_json::from_str(text).map_err(malformed)?;
    let no_work = || DecodeError::NoWork { text: text.to_owned() };
    let work = WorkId::new(stored.work).ok_or_else(no_work)?;
    let ended = |attempt, ending| Happening::Ended { attempt, ending };
    let what = match stored.what {
        Stored::Submitted => Happening::Submitted,
        Stored::Started(attempt) => Happening::Started { attempt },
        Stored::Succeeded(attempt) => ended(attempt, Ending::Success),
        Stored::Failed(attempt) => ended(attempt, Ending::Failed),
        Stored::Retried { attempt, due } => {
            ended(attempt, Ending::Retry { due: Timestamp::from_nanos(due) })
        }
        Stored::Stopped(attempt) => ended(attempt, Ending::Cancelled),
        Stored::Interrupted(attempt) => ended(attempt, Ending::Interrupted),
        Stored::CancelAsked => Happening::CancelAsked,
    };
    Ok(Fact { at: Timestamp::from_nanos(stored.at), work, what })
}

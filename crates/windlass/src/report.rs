//! The `tracing` events about works: one for each retry and one for each end.
//!
//! An event about a work that did not succeed is made while the scheduler's lock is held and emitted
//! after it is released, because a subscriber is the user's code. The runner of an attempt emits the
//! event of a success itself, inside the attempt's span.

use std::time::Duration;

use tracing::level_filters::LevelFilter;
use windlass_core::{Grant, Phase, Transition, WorkId};

use crate::entry::Entry;
use crate::name::Name;

/// An event that has yet to be emitted.
pub(crate) struct Report {
    work: Name,
    id: WorkId,
    /// The latest attempt, from 1; 0 before the first.
    attempt: u32,
    became: Became,
    error: Option<String>,
}

enum Became {
    Retried { delay: Duration },
    Failed,
    Blocked,
    Cancelled,
    Skipped,
}

impl Report {
    /// Returns the event for a transition; none if there is no event for it, or if no subscriber is
    /// interested in any.
    #[inline]
    pub(crate) fn of(transition: &Transition, entry: &Entry) -> Option<Self> {
        if LevelFilter::current() < LevelFilter::INFO { None } else { Self::new(transition, entry) }
    }

    fn new(transition: &Transition, entry: &Entry) -> Option<Self> {
        let became = match transition.to {
            Phase::Delayed { due } => Became::Retried { delay: due.since(transition.at) },
            Phase::Failed => Became::Failed,
            Phase::Blocked => Became::Blocked,
            Phase::Cancelled => Became::Cancelled,
            Phase::Skipped => Became::Skipped,
            _ => return None,
        };
        // Any error of a cancelled work is that of an earlier attempt, which was reported then.
        let has_error = !matches!(became, Became::Cancelled | Became::Skipped);
        let error = entry.last_error().filter(|_| has_error).cloned();
        let (work, id, attempt) = (entry.name.clone(), transition.work, transition.attempt);
        Some(Self { work, id, attempt, became, error })
    }

    /// Emits the event. The caller holds no lock.
    pub(crate) fn emit(self) {
        let Self { work, id, attempt, became, error } = self;
        let (work, error) = (work.as_str(), error.as_deref());
        match became {
            Became::Retried { delay } => {
                tracing::info!(work, %id, attempt, error, ?delay, "work will be retried");
            }
            Became::Failed => tracing::warn!(work, %id, attempt, error, "work failed"),
            Became::Blocked => tracing::info!(work, %id, error, "work blocked"),
            Became::Cancelled => tracing::info!(work, %id, attempt, "work cancelled"),
            Became::Skipped => tracing::debug!(work, %id, "work skipped"),
        }
    }
}

/// Emits the event of an attempt that succeeded; its span has the name of its work.
pub(crate) fn emit_success(Grant { work: id, attempt }: Grant) {
    tracing::debug!(%id, attempt, "work succeeded");
}

//! Looking who schedules and executes submitted runs.

use windlass_core::Name;
use windlass_store::{Process, Store, StoreError, Transaction};

use crate::look::run::{leader_of, live_holder};
/// A run that does not go on, as nothing leads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unled {
    /// It was submitted, and no scheduler is running.
    Queued,
    /// The process that led it has ended before it.
    Interrupted,
}

/// Returns why a run that has not ended does not go on, if that is so.
pub(super) fn unled(transaction: &Transaction<'_>, run: &str) -> Result<Option<Unled>, StoreError> {
    if transaction.runs().listing(run)?.end.is_some() {
        return Ok(None);
    }
    let (leader, unled) = match transaction.runs().find(run)?.env {
        Some(_) => (live_holder(transaction, &Name::Scheduler)?.is_some(), Unled::Queued),
        None => (leader_of(transaction, run)?.is_some(), Unled::Interrupted),
    };
    Ok((!leader).then_some(unled))
}

/// Returns the process of the scheduler that leads the runs of a store, if one is alive.
pub fn live_scheduler(store: &mut Store) -> Result<Option<Process>, StoreError> {
    store.read(|transaction| live_holder(transaction, &Name::Scheduler))
}

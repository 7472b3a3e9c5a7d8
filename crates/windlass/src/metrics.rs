//! Counters over the works of a scheduler.

use windlass_core::WorkState;

use crate::state::State;

/// Counters over all works of a scheduler that are not forgotten.
///
/// ```
/// # let scheduler = windlass::WorkScheduler::default();
/// let metrics = scheduler.metrics();
/// println!("Total: {}, Success: {}, Failed: {}, Running: {}",
///     metrics.total, metrics.success, metrics.failed, metrics.running);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkSchedulerMetrics {
    /// All works.
    pub total: usize,
    /// Works that wait.
    pub pending: usize,
    /// Works with an attempt under way.
    pub running: usize,
    /// Works that succeeded, also those that were skipped.
    pub success: usize,
    /// Works that failed.
    pub failed: usize,
    /// Works that will never run, because one they wait for did not succeed.
    pub blocked: usize,
    /// Works that were cancelled.
    pub cancelled: usize,
    /// Attempts begun, also of forgotten works.
    pub attempts: u64,
    /// How many more attempts all works that have not ended may ask for.
    pub retries_left: u64,
    /// Works that were forgotten.
    pub forgotten: u64,
    /// Events that did not fit into the channel of
    /// [`WorkSchedulerConfig::event_tx`](crate::works::WorkSchedulerConfig::event_tx).
    pub events_dropped: u64,
}

impl WorkSchedulerMetrics {
    pub(crate) fn of(state: &State) -> Self {
        let counters = state.engine.metrics();
        Self {
            total: state.len(),
            pending: counters.count(WorkState::Pending),
            running: counters.count(WorkState::Running),
            success: counters.count(WorkState::Success),
            failed: counters.count(WorkState::Failed),
            blocked: counters.count(WorkState::Blocked),
            cancelled: counters.count(WorkState::Cancelled),
            attempts: counters.attempts,
            retries_left: counters.retries_left,
            forgotten: counters.forgotten,
            events_dropped: state.publisher.events_dropped,
        }
    }
}

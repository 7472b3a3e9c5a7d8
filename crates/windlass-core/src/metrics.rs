//! Counters that an engine updates with every change, so that reading them is cheap.

use crate::phase::WorkState;

/// Counters of an engine's works and decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    states: [usize; WorkState::ALL.len()],
    /// The attempts begun.
    pub attempts: u64,
    /// The retries that all works that have not ended have left.
    pub retries_left: u64,
    /// How often a candidate did not fit.
    pub refusals: u64,
    /// How often a work started before an earlier one of the queue that did not fit.
    pub passed_over: u64,
    /// How often the engine reserved capacity for the first work of the queue.
    pub reservations: u64,
    /// The ended works that were forgotten.
    pub forgotten: u64,
}

/// The counters of the works' phases.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateCounts {
    states: [usize; WorkState::ALL.len()],
    pub(crate) attempts: u64,
    pub(crate) retries_left: u64,
    pub(crate) forgotten: u64,
}

/// The counters of the search for the next work.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdmissionCounts {
    pub(crate) refusals: u64,
    pub(crate) passed_over: u64,
    pub(crate) reservations: u64,
}

impl Metrics {
    #[inline]
    pub(crate) fn new(state: &StateCounts, admission: &AdmissionCounts) -> Self {
        let &StateCounts { states, attempts, retries_left, forgotten } = state;
        let &AdmissionCounts { refusals, passed_over, reservations } = admission;
        Self { states, attempts, retries_left, refusals, passed_over, reservations, forgotten }
    }

    /// Returns the number of works in this state.
    #[must_use]
    pub fn count(&self, state: WorkState) -> usize {
        self.states[state as usize]
    }
}

impl StateCounts {
    #[inline]
    pub(crate) fn count(&self, state: WorkState) -> usize {
        self.states[state as usize]
    }

    /// Counts a work that enters `state` with so many retries left.
    #[inline]
    pub(crate) fn enter(&mut self, state: WorkState, retries_left: u32) {
        self.states[state as usize] += 1;
        if !state.is_terminal() {
            self.retries_left += u64::from(retries_left);
        }
    }

    /// Counts a work that leaves `state`.
    #[inline]
    pub(crate) fn leave(&mut self, state: WorkState, retries_left: u32) {
        self.states[state as usize] -= 1;
        if !state.is_terminal() {
            self.retries_left -= u64::from(retries_left);
        }
    }
}

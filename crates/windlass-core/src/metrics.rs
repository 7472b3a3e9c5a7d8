//! Counters that an engine keeps as it goes, so that reading them costs nothing.

use crate::phase::WorkState;

/// Counters over an engine's works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    states: [usize; WorkState::ALL.len()],
    /// Attempts begun.
    pub attempts: u64,
    /// How many more attempts all works that have not ended may ask for.
    pub retries_left: u64,
    /// How often a work that was looked at did not fit.
    pub refusals: u64,
    /// How often a work started while one before it in the queue did not fit.
    pub passed_over: u64,
    /// How often something was reserved for the first in the queue.
    pub reservations: u64,
    /// Ended works that were forgotten.
    pub forgotten: u64,
}

/// What is counted of the works' phases.
#[derive(Clone, Debug, Default)]
pub(crate) struct StateCounts {
    states: [usize; WorkState::ALL.len()],
    pub(crate) attempts: u64,
    pub(crate) retries_left: u64,
    pub(crate) forgotten: u64,
}

/// What is counted of the search for the next work.
#[derive(Clone, Debug, Default)]
pub(crate) struct AdmissionCounts {
    pub(crate) refusals: u64,
    pub(crate) passed_over: u64,
    pub(crate) set_aside: u64,
}

impl Metrics {
    #[inline]
    pub(crate) fn new(state: &StateCounts, admission: &AdmissionCounts) -> Self {
        let &StateCounts { states, attempts, retries_left, forgotten } = state;
        let &AdmissionCounts { refusals, passed_over, set_aside: reservations } = admission;
        Self { states, attempts, retries_left, refusals, passed_over, reservations, forgotten }
    }

    /// How many works are in this state.
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

    /// Counts a work that is in `state` from now on, with the retries that it has left.
    #[inline]
    pub(crate) fn enter(&mut self, state: WorkState, retries_left: u32) {
        self.states[state as usize] += 1;
        if !state.is_terminal() {
            self.retries_left += u64::from(retries_left);
        }
    }

    /// Counts it there no longer.
    #[inline]
    pub(crate) fn leave(&mut self, state: WorkState, retries_left: u32) {
        self.states[state as usize] -= 1;
        if !state.is_terminal() {
            self.retries_left -= u64::from(retries_left);
        }
    }
}

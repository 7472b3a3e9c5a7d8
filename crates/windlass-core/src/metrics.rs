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
    /// How often a work started while one before it in line did not fit.
    pub passed_over: u64,
    /// How often something was set aside for the first in line.
    pub set_aside: u64,
    /// Ended works that were forgotten.
    pub forgotten: u64,
}

impl Metrics {
    /// How many works are in this state.
    #[must_use]
    pub fn count(&self, state: WorkState) -> usize {
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

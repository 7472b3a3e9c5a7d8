//! Conversion between the clock of the engine and that of its capacity tree, which may differ.

use crate::Timestamp;

/// Converts between the two clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TreeClock {
    /// The nanoseconds by which the clock of the tree is ahead.
    ahead: i128,
}

impl TreeClock {
    /// Creates the conversion for a tree whose clock shows `there` when the engine's shows `here`.
    pub(super) fn of(here: Timestamp, there: Timestamp) -> Self {
        Self { ahead: i128::from(there.as_nanos()) - i128::from(here.as_nanos()) }
    }

    /// Converts a time of the engine to one of the tree.
    #[inline]
    pub(super) fn there(self, here: Timestamp) -> Timestamp {
        if self.ahead == 0 { here } else { shifted(here, self.ahead) }
    }

    /// Converts a time of the tree to one of the engine.
    pub(super) fn here(self, there: Timestamp) -> Timestamp {
        if there == Timestamp::MAX { there } else { shifted(there, -self.ahead) }
    }
}

#[inline]
fn shifted(at: Timestamp, nanos: i128) -> Timestamp {
    let shifted = i128::from(at.as_nanos()) + nanos;
    Timestamp::from_nanos(u64::try_from(shifted.max(0)).unwrap_or(u64::MAX))
}

//! Why a work is not running.

use crate::capacity::Shortage;
use crate::input::Dependency;
use crate::{Timestamp, WorkId};

/// One thing that stands between a work and its start. Taking all of them away lets it start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A work that has to end first, and how.
    Dependency(Dependency),
    /// Its gate has not opened.
    Gate,
    /// Its next attempt is due at a later time.
    Retry {
        /// When.
        at: Timestamp,
    },
    /// Something outside the engine refused it: a name that somebody else holds.
    Outside,
    /// There is too little of something that it needs.
    Short {
        /// What is short, at which level, and why.
        shortage: Shortage,
        /// Works of this engine that have some of it.
        holders: Vec<WorkId>,
        /// The work of this engine that some of it is reserved for.
        reserved_for: Option<WorkId>,
    },
    /// It is in the queue.
    Queued {
        /// How many stand before it.
        ahead: usize,
        /// The first in the queue.
        first: WorkId,
    },
    /// It waits for something outside, of its own accord, and holds nothing meanwhile.
    Suspended,
    /// Its children have not all ended.
    Children {
        /// How many have not.
        open: usize,
    },
    /// Its turn has come: whoever runs it has yet to begin.
    Granted,
}

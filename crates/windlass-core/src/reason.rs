//! The reasons why a work is not running.

use crate::capacity::Shortage;
use crate::input::Dependency;
use crate::{Timestamp, WorkId};

/// One reason why a work does not start. Once all its reasons are gone, it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A dependency has not ended as required.
    Dependency(Dependency),
    /// The gate has not opened.
    Gate,
    /// The next attempt is not due yet.
    Retry {
        /// When it is due.
        at: Timestamp,
    },
    /// Something outside the engine refused the work, such as a name that another holder has.
    Outside,
    /// A resource that the work needs is short.
    Short {
        /// What is short, at which level, and why.
        shortage: Shortage,
        /// The works of this engine that hold some of it.
        holders: Vec<WorkId>,
        /// The work of this engine for which some of it is reserved.
        reserved_for: Option<WorkId>,
    },
    /// The work is queued.
    Queued {
        /// The number of works before it.
        ahead: usize,
        /// The first work of the queue.
        first: WorkId,
    },
    /// The attempt waits for an event outside the engine, and holds nothing meanwhile.
    Suspended,
    /// Some children have not ended.
    Children {
        /// The number of children that have not ended.
        open: usize,
    },
    /// The work is granted, and the driver has not begun the attempt yet.
    Granted,
}

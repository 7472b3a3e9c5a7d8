//! The reasons why a work is not running.

use crate::capacity::Shortage;
use crate::input::Dependency;
use crate::placement::WorkerKind;
use crate::{Timestamp, WorkId};

/// One reason why a work does not start. Once all its reasons are gone, it starts. `W` is what the caller
/// knows a work by.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason<W = WorkId> {
    /// A dependency has not ended as required.
    Dependency(Dependency<W>),
    /// The gate has not opened.
    Gate,
    /// A user has paused the work.
    Paused,
    /// A user has paused everything.
    AllPaused,
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
        holders: Vec<W>,
        /// The work of this engine for which some of it is reserved.
        reserved_for: Option<W>,
    },
    /// No worker has room for the work.
    Workers {
        /// What each kind of worker lacks, the kind that lacks the least first; empty if there are no
        /// workers.
        kinds: Vec<WorkerKind>,
        /// The work whose worker it has to go to.
        beside: Option<W>,
    },
    /// The work is queued.
    Queued {
        /// The number of works before it.
        ahead: usize,
        /// The first work of the queue.
        first: W,
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

impl<W> Reason<W> {
    /// Returns the same reason with other names for its works.
    pub fn map_works<V>(self, mut name: impl FnMut(W) -> V) -> Reason<V> {
        match self {
            Self::Dependency(dependency) => Reason::Dependency(dependency.map_work(name)),
            Self::Gate => Reason::Gate,
            Self::Paused => Reason::Paused,
            Self::AllPaused => Reason::AllPaused,
            Self::Retry { at } => Reason::Retry { at },
            Self::Outside => Reason::Outside,
            Self::Short { shortage, holders, reserved_for } => {
                let holders = holders.into_iter().map(&mut name).collect();
                Reason::Short { shortage, holders, reserved_for: reserved_for.map(name) }
            }
            Self::Workers { kinds, beside } => Reason::Workers { kinds, beside: beside.map(name) },
            Self::Queued { ahead, first } => Reason::Queued { ahead, first: name(first) },
            Self::Suspended => Reason::Suspended,
            Self::Children { open } => Reason::Children { open },
            Self::Granted => Reason::Granted,
        }
    }
}

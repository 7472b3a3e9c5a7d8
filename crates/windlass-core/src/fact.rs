//! What happened, what follows from it, and where both are written down.
//!
//! A fact cannot be derived and is journaled; a transition follows from facts and is reported.
//! Both are small and `Copy`; texts and specs live beside them.

use crate::capacity::CapacityTree;
use crate::dag::EdgeKind;
use crate::phase::{Phase, WorkState};
use crate::{Amount, ClientId, LevelId, ResourceId, Timestamp, WorkId};

/// Something that happened and cannot be derived from anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: Happening,
}

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// A work was submitted, as staged.
    Submitted {
        /// The new work.
        work: WorkId,
    },
    /// A work has to wait for one more.
    EdgeAdded {
        /// Whom it waits for.
        from: WorkId,
        /// Who waits.
        to: WorkId,
        /// For which end.
        kind: EdgeKind,
    },
    /// An attempt began.
    Started {
        /// The work.
        work: WorkId,
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// An attempt ended.
    Ended {
        /// The work.
        work: WorkId,
        /// Which attempt, from 1.
        attempt: u32,
        /// How.
        ending: Ending,
    },
    /// The gate of a work opened.
    GateOpened {
        /// The work.
        work: WorkId,
    },
    /// The gate of a work will never open.
    GateRejected {
        /// The work.
        work: WorkId,
    },
    /// A work is not needed, as its gate says.
    GateSkipped {
        /// The work.
        work: WorkId,
    },
    /// An attempt waits for something outside.
    Suspended {
        /// The work.
        work: WorkId,
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// What an attempt waited for is there.
    WaitOver {
        /// The work.
        work: WorkId,
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// An attempt goes on.
    Resumed {
        /// The work.
        work: WorkId,
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// A body has returned before its children.
    Joined {
        /// The work.
        work: WorkId,
        /// Which attempt, from 1.
        attempt: u32,
    },
    /// A person wants an ended work tried again.
    Reopened {
        /// The work.
        work: WorkId,
    },
    /// Someone asked for a work to be cancelled.
    CancelAsked {
        /// The work.
        work: WorkId,
    },
    /// A limit was changed.
    LimitSet {
        /// At this level.
        level: LevelId,
        /// Of this resource.
        resource: ResourceId,
        /// To this much.
        limit: Amount,
    },
    /// An ended work was forgotten.
    Forgotten {
        /// The work.
        work: WorkId,
    },
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Well.
    Success,
    /// Badly, and for good.
    Failed,
    /// Badly, with another attempt to come.
    Retry {
        /// When the next attempt may begin.
        due: Timestamp,
    },
    /// As it was asked to.
    Cancelled,
    /// Its runner was lost; the attempt does not count against the retries.
    Interrupted,
}

/// A work changed its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// When.
    pub at: Timestamp,
    /// Which work.
    pub work: WorkId,
    /// Its latest attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// The state it was in; none if it was submitted just now.
    pub from: Option<WorkState>,
    /// The phase it is in.
    pub to: Phase,
}

/// What surrounds an engine during one call: the time, the capacity, and who writes down what
/// happens.
pub struct World<'a> {
    /// The time. It never goes back: an earlier one counts as the latest seen.
    pub now: Timestamp,
    /// What the engine's works take from.
    pub capacity: &'a mut CapacityTree,
    /// Takes the facts, to be journaled.
    pub facts: Option<&'a mut Vec<Fact>>,
    /// Takes the transitions, to be shown.
    pub transitions: Option<&'a mut Vec<Transition>>,
    /// Takes the other clients of the capacity that should look again.
    pub wakes: &'a mut Vec<ClientId>,
}

const _: () = assert!(size_of::<Fact>() <= 48 && size_of::<Transition>() <= 48);

//! Facts, which are journaled, and the transitions that follow from them, which are reported.
//!
//! A fact cannot be derived from other facts. A transition can. Both are small and `Copy`; texts
//! and specifications are stored elsewhere.

use crate::capacity::CapacityTree;
use crate::dag::EdgeKind;
use crate::phase::{Phase, WorkState};
use crate::{Amount, ClientId, LevelId, ResourceId, Timestamp, WorkId, WorkerId};

/// Something that happened and cannot be derived from other facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub what: Happening,
}

/// The kinds of facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// A work was submitted, as staged.
    Submitted {
        /// The new work.
        work: WorkId,
    },
    /// A work got one more dependency.
    EdgeAdded {
        /// The dependency.
        from: WorkId,
        /// The work that waits.
        to: WorkId,
        /// The end of the dependency that counts.
        kind: EdgeKind,
    },
    /// A work got rid of its dependencies on another one.
    EdgeRemoved {
        /// The dependency, which may be forgotten.
        from: WorkId,
        /// The work that no longer waits for it.
        to: WorkId,
    },
    /// An attempt began.
    Started {
        /// The work.
        work: WorkId,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// Its worker, if attempts go to workers.
        worker: Option<WorkerId>,
    },
    /// An attempt ended.
    Ended {
        /// The work.
        work: WorkId,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// How the attempt ended.
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
    /// The gate of a work reported that the work is not needed.
    GateSkipped {
        /// The work.
        work: WorkId,
    },
    /// An attempt waits for an event outside the engine.
    Suspended {
        /// The work.
        work: WorkId,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// The event for which an attempt waited has happened.
    WaitOver {
        /// The work.
        work: WorkId,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// A suspended attempt resumed.
    Resumed {
        /// The work.
        work: WorkId,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// The body of an attempt returned before its children ended.
    Joined {
        /// The work.
        work: WorkId,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// A user asked for another attempt of an ended work.
    Reopened {
        /// The work.
        work: WorkId,
    },
    /// A caller asked to cancel a work.
    CancelAsked {
        /// The work.
        work: WorkId,
    },
    /// A user stopped an attempt, which goes on holding its cost.
    Halted {
        /// The work.
        work: WorkId,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// A user let a stopped attempt continue.
    Continued {
        /// The work.
        work: WorkId,
        /// The number of the attempt, from 1.
        attempt: u32,
    },
    /// A user paused a work: it starts no attempt.
    WorkPaused {
        /// The work.
        work: WorkId,
    },
    /// A user let a paused work continue.
    WorkUnpaused {
        /// The work.
        work: WorkId,
    },
    /// A user paused everything: no work starts an attempt, and deadlines stand still.
    Paused,
    /// A user let everything continue.
    Unpaused,
    /// A user moved a work within the queue.
    Moved {
        /// The work.
        work: WorkId,
        /// The work that follows it now; none if it is the last.
        before: Option<WorkId>,
    },
    /// What was submitted of a work that has not begun was replaced, as staged.
    Replaced {
        /// The work.
        work: WorkId,
    },
    /// A limit was changed.
    LimitSet {
        /// The level of the limit.
        level: LevelId,
        /// The resource.
        resource: ResourceId,
        /// The new limit.
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
    /// It succeeded.
    Success,
    /// It failed, and the work gets no further attempt.
    Failed,
    /// It failed, and the work gets another attempt.
    Retry {
        /// When the next attempt may begin.
        due: Timestamp,
    },
    /// It stopped because it was cancelled.
    Cancelled,
    /// Its runner was lost. The attempt does not count against the retries.
    Interrupted,
}

/// A change of a work's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// When it changed.
    pub at: Timestamp,
    /// The work that changed.
    pub work: WorkId,
    /// Its latest attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// The state before; `None` if the work was just submitted.
    pub from: Option<WorkState>,
    /// The phase after.
    pub to: Phase,
}

/// The surroundings of an engine during one call: time, capacity, and where facts, transitions and
/// wake-ups are collected.
pub struct World<'a> {
    /// The time. It never goes back: an earlier time counts as the latest one seen.
    pub now: Timestamp,
    /// The tree from which the engine's works take.
    pub capacity: &'a mut CapacityTree,
    /// Collects the facts to journal.
    pub facts: Option<&'a mut Vec<Fact>>,
    /// Collects the transitions to report.
    pub transitions: Option<&'a mut Vec<Transition>>,
    /// Collects the other clients of the capacity that should be woken.
    pub wakes: &'a mut Vec<ClientId>,
}

const _: () = assert!(size_of::<Fact>() <= 48 && size_of::<Transition>() <= 48);

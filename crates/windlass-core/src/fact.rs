//! What happened, what follows from it, and where both are written down.
//!
//! A fact cannot be derived and is journaled; a transition follows from facts and is reported.
//! Both are small and `Copy`; texts and specs live beside them.

use crate::capacity::CapacityTree;
use crate::phase::{Phase, WorkState};
use crate::{ClientId, Timestamp, WorkId};

/// Something that happened to a work and cannot be derived from anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact {
    /// When.
    pub at: Timestamp,
    /// To which work.
    pub work: WorkId,
    /// What.
    pub what: Happening,
}

/// What can happen to a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// It was submitted, as staged.
    Submitted,
    /// An attempt began.
    Started {
        /// Which one, from 1.
        attempt: u32,
    },
    /// An attempt ended.
    Ended {
        /// Which one, from 1.
        attempt: u32,
        /// How.
        ending: Ending,
    },
    /// Someone asked for it to be cancelled.
    CancelAsked,
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

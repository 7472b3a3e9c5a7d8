//! What is asked of a tree, and the answers that are not yes.

use thiserror::Error;

use crate::{Amount, LevelId, ResourceId, Timestamp};

/// Where in the queue the work is that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before every work that starts: it has begun already and goes on. Only what is reserved for
    /// others who go on and stand before it binds it, and as it is no start, neither a rate nor a
    /// quota does.
    Resuming,
    /// It goes on too, behind the client's reservation.
    ResumingLater,
    /// Before everything of this client that waits; bound by clients that stand before it.
    First,
    /// Behind the client's reservation, and so bound by what is reserved for it as well.
    Later,
}

impl Place {
    /// Whether this is no start, so that what counts starts does not matter.
    #[inline]
    pub(crate) fn is_resuming(self) -> bool {
        matches!(self, Place::Resuming | Place::ResumingLater)
    }
}

/// Everything that stood in the way of a demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What was short, from the client's level upwards; never empty.
    pub shortages: Vec<Shortage>,
}

/// One resource at one level of which there was too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The level that refused.
    pub level: LevelId,
    /// The resource that was short.
    pub resource: ResourceId,
    /// What was asked for.
    pub wanted: Amount,
    /// Why there was too little.
    pub why: Short,
}

/// Why there was too little of a resource at one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Short {
    /// Too much is in use, or reserved for works before it. In steps of 1/10 000.
    Limit {
        /// What is not in use; negative when in debt.
        free: i128,
        /// What of it is reserved for others.
        reserved: i128,
    },
    /// Too much was taken lately.
    Rate {
        /// When there is enough, also for the works before it, if no other client takes;
        /// [`Timestamp::MAX`] if they have to take theirs first.
        at: Timestamp,
    },
    /// Too much was taken in this window.
    Quota {
        /// When the window begins that has enough; [`Timestamp::MAX`] as for a rate.
        at: Timestamp,
    },
}

/// Why a cost can never be met.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CostError {
    /// No level of the chain declares this resource.
    #[error("no resource is called {name:?}{}", did_you_mean(nearest))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The declared name that is most like it, if one is.
        nearest: Option<String>,
    },
    /// More than a level has in all: its limit, the burst of its rate, or its quota.
    #[error("{wanted} of {name:?} can never be had: the limit is {limit}")]
    AboveLimit {
        /// The resource asked for.
        name: String,
        /// How much was asked for.
        wanted: Amount,
        /// The limit that it exceeds.
        limit: Amount,
        /// The level whose limit it is.
        level: LevelId,
    },
}

/// Why something cannot be given back; nothing has changed at any level.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{released} of {name:?} cannot be given back: only {held} is held")]
pub struct ReleaseError {
    /// The resource.
    pub name: String,
    /// How much was to be given back.
    pub released: Amount,
    /// How much the client holds.
    pub held: Amount,
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

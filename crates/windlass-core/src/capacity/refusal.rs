//! The position of a demand in the queue, and the refusals and errors of a tree.

use std::sync::Arc;

use thiserror::Error;

use crate::placement::Shape;
use crate::{Amount, LevelId, ResourceId, Timestamp};

/// The position of a demand in its client's queue, which decides which reservations bind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A resumed attempt, before all starts. Only reservations of earlier resumed attempts bind it.
    /// It is not a start, so rates and quotas do not bind it.
    Resuming,
    /// A resumed attempt behind the client's own reservation.
    ResumingLater,
    /// The first demand of this client. Only reservations of other clients with earlier turns bind
    /// it.
    First,
    /// A demand behind the client's own reservation, which binds it too.
    Later,
}

impl Place {
    /// Returns whether the demand is that of a resumed attempt, to which rates and quotas do not
    /// apply.
    #[inline]
    pub(crate) fn is_resuming(self) -> bool {
        matches!(self, Place::Resuming | Place::ResumingLater)
    }
}

/// The reasons for which a demand was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The shortages, from the client's level upwards; empty if only a worker is missing.
    pub shortages: Vec<Shortage>,
    /// What no worker has room for.
    pub(crate) shape: Option<Arc<Shape>>,
}

/// A resource of which one level had too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The level that refused.
    pub level: LevelId,
    /// The resource that was short.
    pub resource: ResourceId,
    /// The amount of the demand.
    pub wanted: Amount,
    /// Why there was too little.
    pub why: Short,
}

/// Why one level had too little of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Short {
    /// Too much is in use, or reserved for earlier demands. In steps of 1/10 000.
    Limit {
        /// What is not in use; negative when in debt.
        free: i128,
        /// What is reserved for earlier demands.
        reserved: i128,
    },
    /// Too much was taken recently.
    Rate {
        /// When there is enough, also for earlier demands, if no other client takes;
        /// [`Timestamp::MAX`] if those have to be served first.
        at: Timestamp,
    },
    /// Too much was taken in this window.
    Quota {
        /// When a window with enough begins; [`Timestamp::MAX`] as for a rate.
        at: Timestamp,
    },
}

/// Why a cost can never be met. `L` is what the caller knows a level by.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CostError<L: NamedLevel = LevelId> {
    /// Neither the level that was asked nor any above it declares this resource.
    #[error("unknown resource {name:?}{}", did_you_mean(nearest))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The declared name that is most like it, if one is.
        nearest: Option<String>,
    },
    /// More than a level has in all: its limit, the burst of its rate, or its quota.
    #[error("requires {wanted} of {name:?}, but the limit{} is {limit}", level.of_name())]
    AboveLimit {
        /// The resource asked for.
        name: String,
        /// How much was asked for.
        wanted: Amount,
        /// The limit that it exceeds.
        limit: Amount,
        /// The level whose limit it is.
        level: L,
    },
}

/// A level as messages name it.
pub trait NamedLevel {
    /// Returns ` of NAME`, or nothing if the name adds nothing.
    fn of_name(&self) -> String;
}

impl NamedLevel for LevelId {
    fn of_name(&self) -> String {
        String::new()
    }
}

impl<L: NamedLevel> CostError<L> {
    /// Returns the same error with another name for its level.
    pub fn map_level<M: NamedLevel>(self, level_name: impl FnOnce(L) -> M) -> CostError<M> {
        match self {
            Self::Unknown { name, nearest } => CostError::Unknown { name, nearest },
            Self::AboveLimit { name, wanted, limit, level } => {
                CostError::AboveLimit { name, wanted, limit, level: level_name(level) }
            }
        }
    }
}

/// Why something cannot be given back; nothing has changed at any level.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot release {released} of {name:?}: only {held} is held")]
pub struct ReleaseError {
    /// The resource.
    pub name: String,
    /// The amount of the release.
    pub released: Amount,
    /// How much the client holds.
    pub held: Amount,
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean {name:?}?")).unwrap_or_default()
}

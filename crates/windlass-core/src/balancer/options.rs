//! What a balancer is told, and why it may refuse.

use std::time::Duration;

use thiserror::Error;

use crate::{Amount, AmountError, LevelId, ResourceCost};

/// A level whose limits a [`HierarchicalBalancer`](crate::HierarchicalBalancer) may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerChild {
    /// The level.
    pub level: LevelId,
    /// It is never shrunk below these.
    pub min: ResourceCost,
    /// It is never grown above these; the same names as in `min`.
    pub max: ResourceCost,
}

/// When a [`HierarchicalBalancer`](crate::HierarchicalBalancer) acts, and how much at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct BalancerOptions {
    /// How often to check: for whoever drives the balancer.
    pub check_interval: Duration,
    /// How long a level has to be idle without a break before it shrinks.
    pub idle_time_threshold: Duration,
    /// How long a level has to be busy without a break before it grows.
    pub busy_time_threshold: Duration,
    /// Use below this part of each limit is idle. At most four decimals.
    pub idle_threshold: f64,
    /// Use above this part of any limit is busy. At most four decimals.
    pub busy_threshold: f64,
    /// How much a limit changes at a time; 1 of what is not named here.
    pub increment: ResourceCost,
}

impl Default for BalancerOptions {
    fn default() -> Self {
        Self {
            check_interval: Duration::from_millis(1000),
            idle_time_threshold: Duration::from_millis(5000),
            busy_time_threshold: Duration::from_millis(5000),
            idle_threshold: 0.3,
            busy_threshold: 0.85,
            increment: ResourceCost::new(),
        }
    }
}

/// Why a balancer makes no sense.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BalancerError {
    /// A threshold that is not an exact part of one.
    #[error("a threshold of {threshold} is not between 0 and 1")]
    Threshold {
        /// The threshold.
        threshold: f64,
        /// What is wrong with it, if it is not simply above one.
        source: Option<AmountError>,
    },
    /// What is idle could be busy at the same time.
    #[error("the idle threshold {idle} is not below the busy threshold {busy}")]
    Crossed {
        /// The idle threshold.
        idle: f64,
        /// The busy threshold.
        busy: f64,
    },
    /// Checking without a pause.
    #[error("a check interval of no length never ends")]
    ZeroInterval,
    /// A floor above its ceiling.
    #[error("the least of {name:?} is {min}, above the most, {max}")]
    MinAboveMax {
        /// The resource.
        name: String,
        /// Its floor.
        min: Amount,
        /// Its ceiling.
        max: Amount,
    },
    /// A resource with a floor or a ceiling, but not both.
    #[error("{name:?} needs both a least and a most")]
    OneSided {
        /// The resource.
        name: String,
    },
    /// An increment that changes nothing.
    #[error("an increment of 0 of {name:?} changes nothing")]
    ZeroIncrement {
        /// The resource.
        name: String,
    },
    /// An increment of something that no child has.
    #[error("{name:?} has an increment, but no child has a least and a most of it")]
    UnknownIncrement {
        /// The resource.
        name: String,
    },
    /// A level that is a child twice.
    #[error("a level is balanced once, not twice")]
    Twice {
        /// The level.
        level: LevelId,
    },
}

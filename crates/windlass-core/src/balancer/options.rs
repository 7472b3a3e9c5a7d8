//! The settings of a balancer, and the errors in them.

use std::time::Duration;

use thiserror::Error;

use crate::{Amount, AmountError, LevelId, ResourceCost};

/// A level whose limits a [`Balancer`](crate::Balancer) may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerChild {
    /// The level.
    pub level: LevelId,
    /// The limits below which the balancer does not shrink the level.
    pub min: ResourceCost,
    /// The limits above which the balancer does not grow the level; the same names as in `min`.
    pub max: ResourceCost,
}

/// When a [`Balancer`](crate::Balancer) acts, and by how much.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::{BalancerOptions, ResourceCost};
///
/// let options = BalancerOptions {
///     busy_time_threshold: Duration::from_secs(30),
///     increment: ResourceCost::from([("gpu", 2)]),
///     ..BalancerOptions::default()
/// };
/// assert_eq!(options.idle_threshold, 0.3);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BalancerOptions {
    /// How often the driver should call [`check`](crate::Balancer::check).
    pub check_interval: Duration,
    /// How long a level must be idle continuously before it shrinks.
    pub idle_time_threshold: Duration,
    /// How long a level must be busy continuously before it grows.
    pub busy_time_threshold: Duration,
    /// A level is idle if less than this fraction of each limit is in use. At most four decimals.
    pub idle_threshold: f64,
    /// A level is busy if more than this fraction of any limit is in use. At most four decimals.
    pub busy_threshold: f64,
    /// How much a limit changes per step; 1 for resources not named here.
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

/// Settings that a balancer cannot use.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BalancerError {
    /// A threshold is not a fraction from 0 to 1 with at most four decimals.
    #[error("a threshold of {threshold} is not between 0 and 1")]
    Threshold {
        /// The threshold.
        threshold: f64,
        /// The reason, unless the threshold is just above 1.
        source: Option<AmountError>,
    },
    /// The idle threshold is not below the busy threshold.
    #[error("the idle threshold {idle} is not below the busy threshold {busy}")]
    Crossed {
        /// The idle threshold.
        idle: f64,
        /// The busy threshold.
        busy: f64,
    },
    /// The check interval is 0.
    #[error("the check interval must be above 0")]
    ZeroInterval,
    /// A minimum is above its maximum.
    #[error("the minimum of {name:?} is {min}, above its maximum of {max}")]
    MinAboveMax {
        /// The resource.
        name: String,
        /// Its minimum.
        min: Amount,
        /// Its maximum.
        max: Amount,
    },
    /// A resource has a minimum or a maximum, but not both.
    #[error("{name:?} needs both a minimum and a maximum")]
    OneSided {
        /// The resource.
        name: String,
    },
    /// An increment is 0.
    #[error("the increment of {name:?} must be above 0")]
    ZeroIncrement {
        /// The resource.
        name: String,
    },
    /// An increment names a resource that no child has.
    #[error("{name:?} has an increment, but no child has a minimum and a maximum of it")]
    UnknownIncrement {
        /// The resource.
        name: String,
    },
    /// A level is listed twice.
    #[error("duplicate level among the children")]
    Twice {
        /// The level.
        level: LevelId,
    },
}

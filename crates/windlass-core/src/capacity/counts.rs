//! What a level has counted of all who take at it or below it.

use super::client::Client;
use super::level::Level;
use super::{CapacityTree, Short, Shortage};
use crate::LevelId;

/// What a level has counted of those at and below it.
///
/// ```
/// use windlass_core::{CapacityTree, Place, ResourceCost, Timestamp};
///
/// let mut tree = CapacityTree::new(&ResourceCost::of([("gpu", 2)])?);
/// let client = tree.add_client(CapacityTree::ROOT);
/// let both = tree.demand(CapacityTree::ROOT, &ResourceCost::of([("gpu", 2)])?)?;
/// assert!(tree.try_take(client, &both, Place::First, Timestamp::ZERO).is_ok());
/// assert!(tree.try_take(client, &both, Place::First, Timestamp::ZERO).is_err());
///
/// let counts = tree.counts(CapacityTree::ROOT);
/// assert_eq!((counts.accepted, counts.in_flight, counts.refused.limit), (1, 1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelCounts {
    /// How often somebody has taken.
    pub accepted: u64,
    /// Of these, how many have not given back. One who gives back bit by bit counts as one until
    /// nothing is left.
    pub in_flight: u64,
    /// How many stand in line.
    pub waiting: usize,
    /// How often this level itself was what refused.
    pub refused: RefusalCounts,
}

/// How often something was refused, by the reason. What several resources refuse counts for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusalCounts {
    /// Too much was in use.
    pub limit: u64,
    /// What was free was set aside for others.
    pub set_aside: u64,
    /// Too much had been taken lately.
    pub rate: u64,
    /// Too much had been taken in the window.
    pub quota: u64,
}

impl RefusalCounts {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.limit + self.set_aside + self.rate + self.quota
    }

    pub(super) fn add(&mut self, shortage: &Shortage) {
        let count = match shortage.why {
            Short::Limit { free, .. } if free >= i128::from(shortage.wanted.steps()) => {
                &mut self.set_aside
            }
            Short::Limit { .. } => &mut self.limit,
            Short::Rate { .. } => &mut self.rate,
            Short::Quota { .. } => &mut self.quota,
        };
        *count += 1;
    }
}

impl CapacityTree {
    /// What `level` has counted.
    #[must_use]
    pub fn counts(&self, level: LevelId) -> LevelCounts {
        let Level { accepted, in_flight, standing, refused, .. } = self.levels[level.index()];
        LevelCounts { accepted, in_flight, waiting: standing, refused }
    }

    /// `gone` of those that the client had taken are given back.
    pub(super) fn land(&mut self, level: LevelId, gone: u64) {
        if gone > 0 {
            self.climb(level, |level| level.in_flight -= gone);
        }
    }
}

impl Client {
    /// Something was given back; how many fewer are in flight.
    pub(super) fn land_one(&mut self) -> u64 {
        let gone = match self.in_flight {
            0 => 0,
            1 => u64::from(self.held.iter().all(|held| *held == 0)),
            _ => 1,
        };
        self.in_flight -= gone;
        gone
    }
}

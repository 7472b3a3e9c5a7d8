//! What a level has counted of all who take at it or below it.

use super::client::Client;
use super::level::Level;
use super::{CapacityTree, Short, Shortage};
use crate::{ClientId, LevelId};

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
    /// How many are in the queue.
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
    /// What was free was reserved for others.
    pub reserved: u64,
    /// Too much had been taken lately.
    pub rate: u64,
    /// Too much had been taken in the window.
    pub quota: u64,
}

impl RefusalCounts {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.limit + self.reserved + self.rate + self.quota
    }

    pub(super) fn add(&mut self, shortage: &Shortage) {
        let count = match shortage.why {
            Short::Limit { free, .. } if free >= i128::from(shortage.wanted.steps()) => {
                &mut self.reserved
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
        let Level { accepted, in_flight, reservation, refused, .. } = self.levels[level.index()];
        LevelCounts { accepted, in_flight, waiting: reservation, refused }
    }

    /// One of those that the client had taken is given back.
    #[inline]
    pub(super) fn land_one(&mut self, client: ClientId) {
        let gone = self.client(client).in_flight.min(1);
        self.land(client, gone);
    }

    /// Something of what the client had taken is given back, a part of one or several at once: it
    /// counts as one, and the last lands when nothing is left.
    pub(super) fn land_some(&mut self, client: ClientId) {
        let Client { in_flight, held, .. } = self.client(client);
        let nothing_left = held.iter().all(|held| *held == 0);
        let gone = if nothing_left { *in_flight } else { u64::from(*in_flight > 1) };
        self.land(client, gone);
    }

    #[inline]
    pub(super) fn land(&mut self, client: ClientId, gone: u64) {
        self.client_mut(client).in_flight -= gone;
        self.climb(self.level_of(client), |level| level.in_flight -= gone);
    }
}

//! The statistics that a level keeps of its clients and those below it.

use super::client::Client;
use super::level::Level;
use super::{CapacityTree, Short, Shortage};
use crate::{ClientId, LevelId};

/// The statistics of one level and all below it.
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
    /// The number of successful takes.
    pub accepted: u64,
    /// The number of these that are not released. A client that releases a take in parts counts as
    /// one until nothing is left.
    pub in_flight: u64,
    /// The number of reservations.
    pub waiting: usize,
    /// How often this level itself refused a demand.
    pub refused: RefusalCounts,
}

/// Refusals by reason. A demand that several resources refuse counts once for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusalCounts {
    /// Too much was in use.
    pub limit: u64,
    /// What was free was reserved for earlier demands.
    pub reserved: u64,
    /// Too much was taken recently.
    pub rate: u64,
    /// Too much was taken in the window.
    pub quota: u64,
}

impl RefusalCounts {
    /// Returns the sum of all reasons.
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
    /// Returns the statistics of `level`.
    #[must_use]
    pub fn counts(&self, level: LevelId) -> LevelCounts {
        let Level { accepted, in_flight, reservation, refused, .. } = self.levels[level.index()];
        LevelCounts { accepted, in_flight, waiting: reservation, refused }
    }

    /// Counts one take of the client as released.
    #[inline]
    pub(super) fn count_release(&mut self, client: ClientId) {
        let gone = self.client(client).in_flight.min(1);
        self.land(client, gone);
    }

    /// Counts a partial or combined release of the client: one take as long as it holds something,
    /// and all of them when nothing is left.
    pub(super) fn count_partial_release(&mut self, client: ClientId) {
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

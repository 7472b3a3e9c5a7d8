//! The ready works of one cost: a lane for each priority.

use std::collections::BTreeMap;

use super::lane::{Lane, Waiting};
use super::rank::{Best, LaneId, Ticket};
use super::tournament::{Contestant, Tournament};
use crate::Timestamp;
use crate::ageing::Ageing;

#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    lanes: Vec<Lane>,
    by_priority: BTreeMap<i64, u32>,
    free: Vec<u32>,
    heads: Tournament,
    len: usize,
}

/// A lane whose first work has changed.
pub(crate) struct Changed {
    pub(crate) lane: u32,
    /// Since when the one that was first before had been ready.
    pub(crate) first: Option<Timestamp>,
}

/// Empty lanes up to this many are kept: they will be used again.
const KEPT_LANES: usize = 8;

impl Group {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn best(&self) -> Best {
        self.heads.best()
    }

    pub(crate) fn lane(&self, lane: u32) -> &Lane {
        &self.lanes[lane as usize]
    }

    /// Takes a work in; the lane that has another first work now, if one does.
    pub(crate) fn insert(&mut self, priority: i64, waiting: Waiting) -> Option<Changed> {
        let lane = self.lane_of(priority);
        self.len += 1;
        self.change(lane, |lane| lane.insert(waiting))
    }

    /// Lets a work go; the lane that has another first work now, if one does.
    pub(crate) fn remove(&mut self, priority: i64, ticket: Ticket) -> Option<Changed> {
        let lane = self.known_lane(priority).expect("a work in line has a lane");
        self.len -= 1;
        self.change(lane, |lane| lane.remove(ticket))
    }

    /// `change` tells whether the lane has another first work.
    fn change(&mut self, number: u32, change: impl FnOnce(&mut Lane) -> bool) -> Option<Changed> {
        let lane = &mut self.lanes[number as usize];
        let first = lane.first().map(|first| first.since);
        change(lane).then_some(Changed { lane: number, first })
    }

    /// Lists a lane anew under its first work.
    pub(crate) fn refresh(&mut self, id: LaneId, ageing: &Ageing, now: Timestamp) {
        let number = id.lane;
        let lane = &self.lanes[number as usize];
        let best =
            |first: &Waiting| Best::of(ageing, id, lane.priority, (first.ticket, first.since), now);
        let best = lane.first().map(best).unwrap_or_default();
        let contestant = Contestant { size: 0, number };
        if lane.len() == 0 && self.heads.len() > KEPT_LANES {
            self.heads.remove(contestant);
            self.by_priority.remove(&lane.priority);
            self.free.push(number);
        } else {
            self.heads.set(contestant, best);
        }
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.lanes.iter().flat_map(Lane::iter)
    }

    #[inline]
    fn known_lane(&self, priority: i64) -> Option<u32> {
        match &self.lanes[..] {
            [only] if only.priority == priority => Some(0),
            _ => self.by_priority.get(&priority).copied(),
        }
    }

    fn lane_of(&mut self, priority: i64) -> u32 {
        if let Some(number) = self.known_lane(priority) {
            return number;
        }
        let lane = Lane::new(priority);
        let number = self.free.pop().unwrap_or_else(|| {
            self.lanes.push(Lane::default());
            u32::try_from(self.lanes.len() - 1).expect("fewer than 2^32 priorities in use")
        });
        self.lanes[number as usize] = lane;
        self.by_priority.insert(priority, number);
        number
    }
}

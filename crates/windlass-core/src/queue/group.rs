//! The ready works of one cost, with a lane for each priority.
//!
//! Without ageing and with few priorities, the lanes are sorted by priority ([`Buckets`]).
//! Otherwise the heads of the lanes are compared in a [`Tournament`].

use std::collections::BTreeMap;

use super::buckets::Buckets;
use super::lane::{Lane, Waiting};
use super::rank::{Best, LaneId, Seq};
use super::tournament::{Contestant, Tournament};
use crate::ageing::Ageing;
use crate::{CostId, Timestamp};

#[derive(Clone, Debug)]
pub(crate) struct Group {
    cost: CostId,
    lanes: Vec<Lane>,
    free: Vec<u32>,
    order: LaneOrder,
    len: usize,
}

/// How the best lane is found.
#[derive(Clone, Debug)]
enum LaneOrder {
    Fixed(Buckets),
    Contest(Box<Contest>),
}

#[derive(Clone, Debug, Default)]
struct Contest {
    by_priority: BTreeMap<i64, u32>,
    heads: Tournament,
}

/// A lane whose head has changed, so that the best of its group may have changed.
pub(crate) struct Changed {
    pub(crate) lane: u32,
    /// Since when the previous head had been ready.
    pub(crate) first: Option<Timestamp>,
}

/// The number of empty lanes kept for reuse.
const KEPT_LANES: usize = 8;

impl Group {
    pub(crate) fn new(cost: CostId, ageing: &Ageing) -> Self {
        let order = match ageing {
            &Ageing::NONE => LaneOrder::Fixed(Buckets::default()),
            _ => LaneOrder::Contest(Box::default()),
        };
        Self { cost, lanes: Vec::new(), free: Vec::new(), order, len: 0 }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns whether its lanes are compared in a tournament.
    #[inline]
    pub(crate) fn is_contest(&self) -> bool {
        matches!(self.order, LaneOrder::Contest(_))
    }

    pub(crate) fn best(&self) -> Best {
        match &self.order {
            LaneOrder::Contest(contest) => contest.heads.best(),
            LaneOrder::Fixed(buckets) => {
                let best = buckets.first().map(|place| self.head(buckets.lane(place)));
                best.unwrap_or_default()
            }
        }
    }

    /// Returns the best lane of a group without ageing.
    #[inline]
    pub(crate) fn best_lane(&self) -> Option<LaneId> {
        let LaneOrder::Fixed(buckets) = &self.order else { return None };
        let place = buckets.first()?;
        Some(LaneId { cost: self.cost, lane: buckets.lane(place) })
    }

    /// Returns the head of a lane in a group without ageing.
    fn head(&self, number: u32) -> Best {
        let lane = &self.lanes[number as usize];
        let id = LaneId { cost: self.cost, lane: number };
        let best = |first: &Waiting| Best::fixed(id, lane.priority, first.seq);
        lane.first().map(best).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn lane(&self, lane: u32) -> &Lane {
        &self.lanes[lane as usize]
    }

    /// Adds a work. Returns its lane if the head changed and that matters.
    #[inline]
    pub(crate) fn insert(&mut self, priority: i64, waiting: Waiting) -> Option<Changed> {
        self.len += 1;
        if let LaneOrder::Fixed(buckets) = &mut self.order
            && let Ok(place) = buckets.place(priority)
        {
            let lane = buckets.lane(place);
            let is_first = self.lanes[lane as usize].insert(waiting);
            buckets.fill(place);
            return (is_first && buckets.first() == Some(place))
                .then_some(Changed { lane, first: None });
        }
        self.insert_otherwise(priority, waiting)
    }

    /// Adds a work with a new priority, or to a tournament.
    fn insert_otherwise(&mut self, priority: i64, waiting: Waiting) -> Option<Changed> {
        let number = self.known_lane(priority).unwrap_or_else(|| self.new_lane(priority));
        let lane = &mut self.lanes[number as usize];
        let first = lane.first().map(|first| first.since);
        let is_first = lane.insert(waiting);
        if let LaneOrder::Fixed(buckets) = &mut self.order {
            buckets.fill(buckets.place(priority).expect(HAS_A_LANE));
        }
        is_first.then_some(Changed { lane: number, first })
    }

    /// Removes a work. Returns its lane if the head changed and that matters.
    #[inline]
    pub(crate) fn remove(&mut self, priority: i64, seq: Seq) -> Option<Changed> {
        self.len -= 1;
        let LaneOrder::Fixed(buckets) = &mut self.order else {
            return self.remove_from_contest(priority, seq);
        };
        let place = buckets.place(priority).expect(HAS_A_LANE);
        let number = buckets.lane(place);
        let lane = &mut self.lanes[number as usize];
        let was_best = buckets.first() == Some(place);
        let was_first = lane.remove(seq);
        if lane.len() == 0 {
            buckets.empty(place);
        }
        (was_first && was_best).then_some(Changed { lane: number, first: None })
    }

    fn remove_from_contest(&mut self, priority: i64, seq: Seq) -> Option<Changed> {
        let number = self.known_lane(priority).expect(HAS_A_LANE);
        let lane = &mut self.lanes[number as usize];
        let first = lane.first().map(|first| first.since);
        lane.remove(seq).then_some(Changed { lane: number, first })
    }

    /// Lists a lane again under its head.
    #[inline]
    pub(crate) fn refresh(&mut self, number: u32, ageing: &Ageing, now: Timestamp) {
        if let LaneOrder::Contest(_) = self.order {
            self.refresh_contestant(number, ageing, now);
        }
    }

    fn refresh_contestant(&mut self, number: u32, ageing: &Ageing, now: Timestamp) {
        let LaneOrder::Contest(contest) = &mut self.order else { return };
        let lane = &self.lanes[number as usize];
        let id = LaneId { cost: self.cost, lane: number };
        let best =
            |first: &Waiting| Best::of(ageing, id, lane.priority, (first.seq, first.since), now);
        let best = lane.first().map(best).unwrap_or_default();
        let contestant = Contestant { size: 0, number };
        if lane.len() == 0 && contest.heads.len() > KEPT_LANES {
            contest.heads.remove(contestant);
            contest.by_priority.remove(&lane.priority);
            self.free.push(number);
        } else {
            contest.heads.set(contestant, best);
        }
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.iter()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.lanes.iter().flat_map(Lane::iter)
    }

    fn known_lane(&self, priority: i64) -> Option<u32> {
        match &self.order {
            LaneOrder::Fixed(buckets) => {
                buckets.place(priority).ok().map(|place| buckets.lane(place))
            }
            LaneOrder::Contest(contest) => match &self.lanes[..] {
                [only] if only.priority == priority => Some(0),
                _ => contest.by_priority.get(&priority).copied(),
            },
        }
    }

    fn new_lane(&mut self, priority: i64) -> u32 {
        self.make_room();
        let number = self.free.pop().unwrap_or_else(|| {
            self.lanes.push(Lane::default());
            u32::try_from(self.lanes.len() - 1).expect("fewer than 2^32 priorities in use")
        });
        self.lanes[number as usize] = Lane::new(priority);
        match &mut self.order {
            LaneOrder::Fixed(buckets) => {
                let place = buckets.place(priority).expect_err("it is new");
                buckets.insert(place, priority, number);
            }
            LaneOrder::Contest(contest) => _ = contest.by_priority.insert(priority, number),
        }
        number
    }

    /// Replaces buckets that are all in use by a tournament, for good.
    fn make_room(&mut self) {
        let LaneOrder::Fixed(buckets) = &mut self.order else { return };
        if !buckets.is_full() {
            return;
        }
        if let Some(lane) = buckets.pop_empty() {
            self.free.push(lane);
            return;
        }
        let mut contest = Contest { by_priority: buckets.iter().collect(), ..Contest::default() };
        let LaneOrder::Fixed(buckets) = &self.order else { unreachable!("it was just now") };
        for (_, number) in buckets.iter() {
            contest.heads.set(Contestant { size: 0, number }, self.head(number));
        }
        self.order = LaneOrder::Contest(Box::new(contest));
    }
}

const HAS_A_LANE: &str = "a work in queue has a lane";

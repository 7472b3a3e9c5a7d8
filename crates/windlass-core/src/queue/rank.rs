//! A work's place in line, and the best of many.

use std::cmp::Reverse;
use std::num::NonZeroU64;

use crate::ageing::Ageing;
use crate::{CostId, Timestamp};

/// The order in which works became ready, from 1: the smaller one is the earlier.
pub(crate) type Ticket = NonZeroU64;

/// The first of a lane, as others see it: larger is earlier in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    /// Its standing among those below the cap, or its effective priority at the cap.
    key: i128,
    ticket: Reverse<Ticket>,
    lane: LaneId,
}

/// A lane of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneId {
    pub(crate) cost: CostId,
    pub(crate) lane: u32,
}

/// The best below the cap and the best at it. Only an instant can tell which of the two is first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Best {
    rising: Option<Head>,
    topped: Option<Head>,
}

/// A place in line at one instant: larger is earlier in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    priority: i128,
    ticket: Reverse<Ticket>,
}

impl Best {
    /// What a lane brings whose first work has this ticket and has been ready since `since`.
    pub(crate) fn of(
        ageing: &Ageing,
        lane: LaneId,
        priority: i64,
        (ticket, since): (Ticket, Timestamp),
        now: Timestamp,
    ) -> Self {
        let head = |key| Some(Head { key, ticket: Reverse(ticket), lane });
        if ageing.tops_at(since).is_some_and(|top| top <= now) {
            return Self { rising: None, topped: head(ageing.topped(priority)) };
        }
        Self { rising: head(ageing.rising(priority, since)), topped: None }
    }

    /// The same where waiting changes nothing.
    pub(crate) fn fixed(lane: LaneId, priority: i64, ticket: Ticket) -> Self {
        let key = Ageing::NONE.rising(priority, Timestamp::ZERO);
        Self { rising: Some(Head { key, ticket: Reverse(ticket), lane }), topped: None }
    }

    #[inline]
    pub(crate) fn or(mut self, other: Self) -> Self {
        self.take_better(&other);
        self
    }

    /// Becomes the best of both.
    #[inline]
    pub(crate) fn take_better(&mut self, other: &Self) {
        if other.rising > self.rising {
            self.rising = other.rising;
        }
        if other.topped > self.topped {
            self.topped = other.topped;
        }
    }

    /// The lane whose first work is the first in line at `now`.
    pub(crate) fn at(&self, ageing: &Ageing, now: Timestamp) -> Option<LaneId> {
        let (Some(rising), Some(topped)) = (self.rising, self.topped) else {
            return self.rising.or(self.topped).map(|head| head.lane);
        };
        let rank = |head: Head, priority| Rank { priority, ticket: head.ticket };
        let risen = rank(rising, ageing.risen(rising.key, now));
        Some(if risen > rank(topped, topped.key) { rising.lane } else { topped.lane })
    }

    /// When the best below the cap will stand before the best at it; none if it does already.
    pub(crate) fn overtaken_at(&self, ageing: &Ageing, now: Timestamp) -> Option<Timestamp> {
        let (rising, topped) = (self.rising?, self.topped?);
        let past_a_tie = i128::from(rising.ticket < topped.ticket);
        ageing.reaches(rising.key, topped.key + past_a_tie).filter(|at| *at > now)
    }
}

const _: () = assert!(size_of::<Best>() <= 64);

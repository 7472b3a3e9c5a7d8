//! The order of lane heads, and the best of many.

use std::cmp::Reverse;
use std::num::NonZeroU64;

use crate::ageing::Ageing;
use crate::{CostId, Timestamp};

/// The sequence number with which a work became ready, from 1.
pub(crate) type Seq = NonZeroU64;

/// The head of a lane as a tournament compares it: larger is earlier in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    /// Its ageing key below the cap, or its effective priority at the cap.
    key: i128,
    seq: Reverse<Seq>,
    lane: LaneId,
}

/// A lane of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LaneId {
    pub(crate) cost: CostId,
    pub(crate) lane: u32,
}

/// The best head below the cap and the best at the cap. Which of the two is first depends on the
/// time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Best {
    ageing_head: Option<Head>,
    capped: Option<Head>,
}

/// A position in the queue at one instant: larger is earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    priority: i128,
    seq: Reverse<Seq>,
}

impl Best {
    /// Returns the head of a lane whose first work has this sequence number and has been ready
    /// since `since`.
    pub(crate) fn of(
        ageing: &Ageing,
        lane: LaneId,
        priority: i64,
        (seq, since): (Seq, Timestamp),
        now: Timestamp,
    ) -> Self {
        let head = |key| Some(Head { key, seq: Reverse(seq), lane });
        if ageing.capped_at(since).is_some_and(|top| top <= now) {
            return Self { ageing_head: None, capped: head(ageing.capped(priority)) };
        }
        Self { ageing_head: head(ageing.ageing_key(priority, since)), capped: None }
    }

    /// As [`Best::of`], without ageing.
    pub(crate) fn fixed(lane: LaneId, priority: i64, seq: Seq) -> Self {
        let key = Ageing::NONE.ageing_key(priority, Timestamp::ZERO);
        Self { ageing_head: Some(Head { key, seq: Reverse(seq), lane }), capped: None }
    }

    #[inline]
    pub(crate) fn or(mut self, other: Self) -> Self {
        self.take_better(&other);
        self
    }

    /// Replaces each of the two bests by that of `other` if it is better.
    #[inline]
    pub(crate) fn take_better(&mut self, other: &Self) {
        if other.ageing_head > self.ageing_head {
            self.ageing_head = other.ageing_head;
        }
        if other.capped > self.capped {
            self.capped = other.capped;
        }
    }

    /// Returns the lane whose head is first in the queue at `now`.
    pub(crate) fn at(&self, ageing: &Ageing, now: Timestamp) -> Option<LaneId> {
        let (Some(ageing_head), Some(capped)) = (self.ageing_head, self.capped) else {
            return self.ageing_head.or(self.capped).map(|head| head.lane);
        };
        let rank = |head: Head, priority| Rank { priority, seq: head.seq };
        let aged = rank(ageing_head, ageing.aged(ageing_head.key, now));
        Some(if aged > rank(capped, capped.key) { ageing_head.lane } else { capped.lane })
    }

    /// Returns when the best below the cap will overtake the best at the cap, or `None` if it is
    /// ahead already.
    pub(crate) fn overtaken_at(&self, ageing: &Ageing, now: Timestamp) -> Option<Timestamp> {
        let (ageing_head, capped) = (self.ageing_head?, self.capped?);
        let past_a_tie = i128::from(ageing_head.seq < capped.seq);
        ageing.reaches(ageing_head.key, capped.key + past_a_tie).filter(|at| *at > now)
    }
}

const _: () = assert!(size_of::<Best>() <= 64);

//! A work's place in line, and the best of many.

use std::cmp::Reverse;

use crate::Timestamp;
use crate::ageing::Ageing;

/// The first of a lane, as others see it: larger is earlier in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Head {
    /// Its standing among those below the cap, or its effective priority at the cap.
    key: i128,
    /// The order in which works became ready: the smaller one is the earlier.
    ticket: Reverse<u64>,
    /// Who brings it: a lane to its group, a group to the line.
    pub(crate) number: u32,
}

/// The best below the cap and the best at it. Only an instant can tell which of the two is first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Best {
    rising: Option<Head>,
    topped: Option<Head>,
}

/// A place in line at one instant: larger is earlier in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    priority: i128,
    ticket: Reverse<u64>,
}

impl Best {
    /// What one work brings that has been ready since `since`.
    pub(crate) fn of(
        ageing: &Ageing,
        priority: i64,
        ticket: u64,
        since: Timestamp,
        now: Timestamp,
    ) -> Self {
        let head = |key| Some(Head { key, ticket: Reverse(ticket), number: 0 });
        if ageing.tops_at(since).is_some_and(|top| top <= now) {
            return Self { rising: None, topped: head(ageing.topped(priority)) };
        }
        Self { rising: head(ageing.rising(priority, since)), topped: None }
    }

    /// The same, brought by `number`.
    pub(crate) fn by(self, number: u32) -> Self {
        let by = |head: Head| Head { number, ..head };
        Self { rising: self.rising.map(by), topped: self.topped.map(by) }
    }

    pub(crate) fn or(self, other: Self) -> Self {
        Self { rising: self.rising.max(other.rising), topped: self.topped.max(other.topped) }
    }

    /// The first in line at `now`, and who brings it.
    pub(crate) fn at(&self, ageing: &Ageing, now: Timestamp) -> Option<(Rank, u32)> {
        let rank = |head: Head, priority| (Rank { priority, ticket: head.ticket }, head.number);
        let rising = self.rising.map(|head| rank(head, ageing.risen(head.key, now)));
        let topped = self.topped.map(|head| rank(head, head.key));
        rising.max(topped)
    }
}

//! The ready works of one cost and one priority, first in, first out.
//!
//! All of them age alike, so no work overtakes another within a lane. A work that leaves from the
//! middle is only marked; marked entries are removed once they are half of the lane.

use std::collections::{BTreeSet, VecDeque};

use super::rank::Seq;
use crate::{Timestamp, WorkId};

/// A work in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) work: WorkId,
    pub(crate) seq: Seq,
    /// Since when the work has been ready.
    pub(crate) since: Timestamp,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    pub(crate) priority: i64,
    /// By sequence number. The first entry is never a marked one.
    waiting: VecDeque<Waiting>,
    /// The sequence numbers of the marked entries.
    left: BTreeSet<Seq>,
}

impl Lane {
    pub(crate) fn new(priority: i64) -> Self {
        Self { priority, ..Self::default() }
    }

    pub(crate) fn first(&self) -> Option<&Waiting> {
        self.waiting.front()
    }

    /// Adds a work at the end, or at the place of its sequence number if it was here before.
    /// Returns whether it is the head now.
    #[inline]
    pub(crate) fn insert(&mut self, waiting: Waiting) -> bool {
        match self.waiting.back() {
            Some(last) if last.seq >= waiting.seq => self.insert_before_others(waiting),
            last => {
                let alone = last.is_none();
                self.waiting.push_back(waiting);
                alone
            }
        }
    }

    fn insert_before_others(&mut self, waiting: Waiting) -> bool {
        let place = self.waiting.partition_point(|other| other.seq < waiting.seq);
        // The entry of a marked work is still in place, perhaps of one that was moved.
        match self.left.remove(&waiting.seq) {
            true => self.waiting[place] = waiting,
            false => self.waiting.insert(place, waiting),
        }
        self.first().is_some_and(|first| first.seq == waiting.seq)
    }

    /// Removes a work. Returns whether it was the head.
    #[inline]
    pub(crate) fn remove(&mut self, seq: Seq) -> bool {
        if self.first().is_some_and(|first| first.seq == seq) {
            self.waiting.pop_front();
            if !self.left.is_empty() {
                self.drop_left_at_front();
            }
            return true;
        }
        self.note_as_left(seq);
        false
    }

    fn note_as_left(&mut self, seq: Seq) {
        let noted = self.left.insert(seq);
        assert!(noted, "a work leaves the queue once");
        if self.left.len() * 2 > self.waiting.len() {
            let left = std::mem::take(&mut self.left);
            self.waiting.retain(|waiting| !left.contains(&waiting.seq));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len() - self.left.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter().filter(|waiting| !self.left.contains(&waiting.seq))
    }

    /// Returns how many works at the front satisfy `is_so`, which must be monotonic: true for a
    /// prefix of the lane and false for the rest.
    pub(crate) fn count_while(&self, is_so: impl Fn(&Waiting) -> bool) -> usize {
        let end = self.waiting.partition_point(is_so);
        let left = match self.waiting.get(end) {
            Some(next) => self.left.range(..next.seq).count(),
            None => self.left.len(),
        };
        end - left
    }

    /// Returns the number of entries, including marked ones.
    #[cfg(test)]
    pub(crate) fn footprint(&self) -> usize {
        self.waiting.len() + self.left.len()
    }

    fn drop_left_at_front(&mut self) {
        while let Some(first) = self.waiting.front()
            && self.left.remove(&first.seq)
        {
            self.waiting.pop_front();
        }
    }
}

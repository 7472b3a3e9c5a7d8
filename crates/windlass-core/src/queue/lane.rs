//! The ready works of one cost and one priority: first in, first out.
//!
//! All of them age alike, so nothing ever overtakes within a lane. A work that leaves from the
//! middle is only noted; those noted are swept out once they are the half of it.

use std::collections::{BTreeSet, VecDeque};

use super::rank::Seq;
use crate::{Timestamp, WorkId};

/// A work in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) work: WorkId,
    pub(crate) seq: Seq,
    /// Since when it has been ready.
    pub(crate) since: Timestamp,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Lane {
    pub(crate) priority: i64,
    /// By sequence number. The first one has not left.
    waiting: VecDeque<Waiting>,
    /// The sequence numbers of those that left from the middle.
    left: BTreeSet<Seq>,
}

impl Lane {
    pub(crate) fn new(priority: i64) -> Self {
        Self { priority, ..Self::default() }
    }

    pub(crate) fn first(&self) -> Option<&Waiting> {
        self.waiting.front()
    }

    /// Takes a work in: at the end, or where its sequence number belongs if it was here before. Whether it is
    /// the first one now.
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
        // One that was only noted as gone has never left its place.
        if !self.left.remove(&waiting.seq) {
            let before = |other: &Waiting| other.seq < waiting.seq;
            self.waiting.insert(self.waiting.partition_point(before), waiting);
        }
        self.first().is_some_and(|first| first.seq == waiting.seq)
    }

    /// Lets a work go; whether it was the first one.
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

    /// Returns how many works at the front of the lane satisfy `is_so`, which has to hold for none
    /// behind the first one for which it does not.
    pub(crate) fn count_while(&self, is_so: impl Fn(&Waiting) -> bool) -> usize {
        let end = self.waiting.partition_point(is_so);
        let left = match self.waiting.get(end) {
            Some(next) => self.left.range(..next.seq).count(),
            None => self.left.len(),
        };
        end - left
    }

    /// How many entries are kept, dead or alive.
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

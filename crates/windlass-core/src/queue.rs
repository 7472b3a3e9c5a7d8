//! The line of ready works: most urgent first, then in the order in which they became ready.
//!
//! Works of equal cost form a group, because what refuses one refuses all. A refused group is
//! parked, and not looked at again until something has become free. Knows nothing of amounts or
//! time.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::{CostId, WorkId};

/// A work's place in line: smaller is earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) priority: Reverse<i64>,
    pub(crate) ticket: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct ReadyQueue {
    /// By cost.
    groups: Vec<Group>,
    /// The first of each group that may be looked at.
    open: BTreeSet<(Rank, CostId)>,
    /// The first of each group that was refused.
    parked: BTreeSet<(Rank, CostId)>,
}

#[derive(Clone, Debug, Default)]
struct Group {
    works: BTreeSet<(Rank, WorkId)>,
    parked: bool,
}

/// The first work of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) rank: Rank,
    pub(crate) cost: CostId,
    pub(crate) work: WorkId,
}

impl ReadyQueue {
    pub(crate) fn insert(&mut self, head: Head) {
        if self.groups.len() <= head.cost.index() {
            self.groups.resize_with(head.cost.index() + 1, Group::default);
        }
        self.change(head.cost, |works| works.insert((head.rank, head.work)));
    }

    pub(crate) fn remove(&mut self, head: Head) {
        let removed = self.change(head.cost, |works| works.remove(&(head.rank, head.work)));
        assert!(removed, "a ready work is in line");
    }

    /// The first work in line that has not been refused.
    pub(crate) fn first_open(&self) -> Option<Head> {
        let &(rank, cost) = self.open.first()?;
        let &(_, work) = self.groups[cost.index()].works.first().expect("a listed group has works");
        Some(Head { rank, cost, work })
    }

    /// Whether a refused work stands before `rank`.
    pub(crate) fn is_behind_parked(&self, rank: Rank) -> bool {
        self.parked.first().is_some_and(|(parked, _)| *parked < rank)
    }

    /// Takes the group out of sight until [`ReadyQueue::unpark_all`].
    pub(crate) fn park(&mut self, cost: CostId) {
        let group = &mut self.groups[cost.index()];
        group.parked = true;
        if let Some(&(rank, _)) = group.works.first() {
            self.open.remove(&(rank, cost));
            self.parked.insert((rank, cost));
        }
    }

    pub(crate) fn unpark_all(&mut self) {
        for (rank, cost) in std::mem::take(&mut self.parked) {
            self.groups[cost.index()].parked = false;
            self.open.insert((rank, cost));
        }
    }

    /// All works in line, by group.
    pub(crate) fn works(&self) -> impl Iterator<Item = (Rank, WorkId)> {
        self.groups.iter().flat_map(|group| group.works.iter().copied())
    }

    /// Changes a group and lists it anew under its first work.
    fn change(
        &mut self,
        cost: CostId,
        change: impl FnOnce(&mut BTreeSet<(Rank, WorkId)>) -> bool,
    ) -> bool {
        let group = &mut self.groups[cost.index()];
        let before = group.works.first().map(|&(rank, _)| rank);
        let changed = change(&mut group.works);
        let after = group.works.first().map(|&(rank, _)| rank);
        if before != after {
            let listed = if group.parked { &mut self.parked } else { &mut self.open };
            before.map(|rank| listed.remove(&(rank, cost)));
            after.map(|rank| listed.insert((rank, cost)));
            // An empty group has nothing left that was refused.
            group.parked &= after.is_some();
        }
        changed
    }
}

//! Families: a parent ends after its children, a child that fails stops its siblings, and a
//! parent that is stopped stops everything below it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::State;
use crate::WorkId;
use crate::engine::effects::Effects;
use crate::phase::{Step, StopReason, WorkState};

/// Parents and children; only works with a family are in here.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Families {
    parents: BTreeMap<WorkId, WorkId>,
    by_parent: BTreeMap<WorkId, Family>,
}

#[derive(Clone, Debug, Default)]
struct Family {
    /// Those that are not forgotten.
    known: BTreeSet<WorkId>,
    counts: Children,
    /// How many were forgotten since the graph let go of such.
    forgotten: usize,
}

/// How the children of a work fare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Children {
    /// All that were ever added in this attempt.
    pub total: usize,
    /// Those that ended well.
    pub succeeded: usize,
    /// Those that ended otherwise.
    pub failed: usize,
}

impl Children {
    /// Whether all ended well; also if there are none.
    #[must_use]
    pub fn all_succeeded(&self) -> bool {
        self.succeeded == self.total
    }

    /// Whether one has ended otherwise.
    #[must_use]
    pub fn any_failed(&self) -> bool {
        self.failed > 0
    }

    /// Whether one has not ended.
    #[must_use]
    pub fn any_running(&self) -> bool {
        self.open() > 0
    }

    /// How many have not ended.
    #[must_use]
    pub fn open(&self) -> usize {
        self.total - self.succeeded - self.failed
    }
}

impl Families {
    pub(in crate::engine) fn parent(&self, child: WorkId) -> Option<WorkId> {
        self.parents.get(&child).copied()
    }

    pub(super) fn add(&mut self, child: WorkId, parent: WorkId) {
        self.parents.insert(child, parent);
        let family = self.by_parent.entry(parent).or_default();
        family.known.insert(child);
        family.counts.total += 1;
    }

    pub(in crate::engine) fn counts(&self, parent: WorkId) -> Children {
        self.by_parent.get(&parent).map(|family| family.counts).unwrap_or_default()
    }

    /// The children that are not forgotten.
    pub(in crate::engine) fn children(
        &self,
        parent: WorkId,
    ) -> impl DoubleEndedIterator<Item = WorkId> {
        self.by_parent.get(&parent).into_iter().flat_map(|family| family.known.iter().copied())
    }

    /// A child has ended; whether it is the first of its family that did not end well.
    fn count_end(&mut self, parent: WorkId, state: WorkState) -> bool {
        let Some(family) = self.by_parent.get_mut(&parent) else { return false };
        if state.is_success() {
            family.counts.succeeded += 1;
            return false;
        }
        family.counts.failed += 1;
        family.counts.failed == 1
    }

    /// A work is forgotten; its parent, if that has as many forgotten children to let go of as it
    /// has others.
    pub(super) fn forget(&mut self, work: WorkId) -> Option<WorkId> {
        for child in self.by_parent.remove(&work).into_iter().flat_map(|family| family.known) {
            self.parents.remove(&child);
        }
        let parent = self.parents.remove(&work)?;
        let family = self.by_parent.get_mut(&parent)?;
        family.known.remove(&work);
        family.forgotten += 1;
        if family.forgotten <= family.known.len() + 8 {
            return None;
        }
        family.forgotten = 0;
        Some(parent)
    }

    /// The children of an attempt that is over are of no interest to the next one.
    fn disband(&mut self, parent: WorkId) {
        self.by_parent.remove(&parent);
    }
}

impl Families {
    /// Returns all descendants of `work` that are not forgotten, parents before their children.
    pub(in crate::engine) fn descendants(&self, work: WorkId) -> Vec<WorkId> {
        let mut found: Vec<_> = self.children(work).collect();
        let mut next = 0;
        while let Some(&work) = found.get(next) {
            found.extend(self.children(work));
            next += 1;
        }
        found
    }
}

impl State {
    /// Has everything below `work` stop, and `work` itself for this reason.
    pub(super) fn stop(&mut self, effects: &mut Effects<'_, '_>, work: WorkId, why: StopReason) {
        let mut ended = VecDeque::new();
        self.ask_down(effects, work, why, &mut ended);
        self.settle_all(effects, ended);
    }

    /// Asks `work` and all below it to stop. Those that end with it are added to `ended`; all of them are
    /// asked before the edges of any are decided, so that none is blocked by another.
    fn ask_down(
        &mut self,
        effects: &mut Effects<'_, '_>,
        work: WorkId,
        why: StopReason,
        ended: &mut VecDeque<WorkId>,
    ) {
        let mut open = vec![(work, why)];
        while let Some((work, why)) = open.pop() {
            if !self.is_open(work) || self.is_stopping(work, why) {
                continue;
            }
            self.step(effects, work, Step::Ask(why));
            if !self.is_open(work) {
                ended.push_back(work);
            }
            let children = self.families.children(work).rev();
            open.extend(children.map(|child| (child, StopReason::Cancel)));
        }
    }

    /// Counts a work that has ended in its family, and stops its siblings if it did not end well.
    pub(super) fn count_in_family(
        &mut self,
        effects: &mut Effects<'_, '_>,
        work: WorkId,
        ended: &mut VecDeque<WorkId>,
    ) {
        let Some(parent) = self.families.parent(work) else { return };
        let state = self.works[work.index()].phase().state();
        if self.families.count_end(parent, state) {
            for sibling in self.families.children(parent).collect::<Vec<_>>() {
                self.ask_down(effects, sibling, StopReason::Cancel, ended);
            }
        }
    }

    /// Forgets the children of an attempt that is over and will be followed by another.
    pub(super) fn disband(&mut self, work: WorkId) {
        if !self.works[work.index()].is_related() {
            return;
        }
        for descendant in self.families.descendants(work).into_iter().rev() {
            self.drop_work(descendant);
        }
        self.families.disband(work);
        self.dag.prune_children(work.index());
    }
}

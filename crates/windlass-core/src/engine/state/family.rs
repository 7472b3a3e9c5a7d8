//! Families: a parent ends after its children, a failed child stops its siblings, and a stopped
//! parent stops all its descendants.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::State;
use crate::WorkId;
use crate::engine::effects::Effects;
use crate::phase::{Step, StopReason, WorkState};

/// The parents and children; only works with a family have an entry.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Families {
    parents: BTreeMap<WorkId, WorkId>,
    by_parent: BTreeMap<WorkId, Family>,
}

#[derive(Clone, Debug, Default)]
struct Family {
    /// The children that are not forgotten.
    known: BTreeSet<WorkId>,
    counts: Children,
    /// The number of forgotten children whose edges the graph still has.
    forgotten: usize,
}

/// The counts of a work's children.
///
/// ```
/// use windlass_core::Children;
///
/// let none = Children::default();
/// assert_eq!((none.total, none.open()), (0, 0));
/// assert!(none.all_succeeded() && !none.any_failed());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Children {
    /// All children added in this attempt.
    pub total: usize,
    /// The children that succeeded.
    pub succeeded: usize,
    /// The children that ended without success.
    pub failed: usize,
}

impl Children {
    /// Returns whether all succeeded; also if there are none.
    #[must_use]
    pub fn all_succeeded(&self) -> bool {
        self.succeeded == self.total
    }

    /// Returns whether one ended without success.
    #[must_use]
    pub fn any_failed(&self) -> bool {
        self.failed > 0
    }

    /// Returns whether one has not ended.
    #[must_use]
    pub fn any_running(&self) -> bool {
        self.open() > 0
    }

    /// Returns the number of those that have not ended.
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

    /// Iterates over the children that are not forgotten.
    pub(in crate::engine) fn children(
        &self,
        parent: WorkId,
    ) -> impl DoubleEndedIterator<Item = WorkId> {
        self.by_parent.get(&parent).into_iter().flat_map(|family| family.known.iter().copied())
    }

    /// Counts the end of a child. Returns whether it is the first of its family that did not
    /// succeed.
    fn count_end(&mut self, parent: WorkId, state: WorkState) -> bool {
        let Some(family) = self.by_parent.get_mut(&parent) else { return false };
        if state.is_success() {
            family.counts.succeeded += 1;
            return false;
        }
        family.counts.failed += 1;
        family.counts.failed == 1
    }

    /// Removes a forgotten work. Returns its parent if that has at least as many forgotten children
    /// as others, so that their edges should be freed.
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

    /// Removes the children of an attempt that is over: they do not belong to the next one.
    fn disband(&mut self, parent: WorkId) {
        self.by_parent.remove(&parent);
    }
}

impl Families {
    /// Returns all descendants of `work` that are not forgotten, parents before children.
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
    /// Stops `work` for this reason, and all its descendants.
    pub(super) fn stop(&mut self, effects: &mut Effects<'_, '_>, work: WorkId, why: StopReason) {
        let mut ended = VecDeque::new();
        self.ask_down(effects, work, why, &mut ended);
        self.settle_all(effects, ended);
    }

    /// Asks `work` and all its descendants to stop. Appends those that end at once to `ended`. Asks
    /// all of them before any edge is resolved, so that none is blocked by another.
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

    /// Counts a work that has ended in its family, and stops its siblings if it did not succeed.
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

    /// Removes the children of an attempt that another one will follow.
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

//! The works of a run that only a limit of the store refuses.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::{CapacityTree, Input, Name, Need, Phase, Short, Shortage, WorkId};
use windlass_store::LimitRoom;
use windlass_workflow::{SHARED, Step};

use super::{Schedule, SharedCapacity};

/// A work that would start if the store gave it what it needs of limits.
pub(crate) struct LimitWait {
    pub(crate) work: WorkId,
    pub(crate) needs: Vec<Need>,
    pub(crate) priority: i16,
    /// Whose turn it is among the runs that share a tree; the smallest comes first.
    pub(crate) turn: u64,
}

/// The works that use limits of the store.
#[derive(Default)]
pub(super) struct LimitUsers {
    works: BTreeSet<WorkId>,
    /// How many of them use each limit.
    counts: BTreeMap<String, usize>,
}

impl LimitUsers {
    /// Adds a work, if its step uses limits.
    pub(super) fn add(&mut self, work: WorkId, step: &Step) {
        for (limit, _) in step.needs.limits() {
            self.works.insert(work);
            *self.counts.entry(limit.to_owned()).or_default() += 1;
        }
    }

    /// Removes a work of that step.
    pub(super) fn remove(&mut self, work: WorkId, step: &Step) {
        if !self.works.remove(&work) {
            return;
        }
        for (limit, _) in step.needs.limits() {
            let count = self.counts.get_mut(limit).expect("it was counted when it was added");
            *count -= 1;
            if *count == 0 {
                self.counts.remove(limit);
            }
        }
    }
}

impl Schedule {
    /// Returns the names of the limits of the store that steps use.
    pub(crate) fn limits(&self) -> BTreeSet<String> {
        self.limit_users.counts.keys().cloned().collect()
    }

    /// Returns whether steps use limits of the store.
    pub(crate) fn uses_limits(&self) -> bool {
        !self.limit_users.works.is_empty()
    }

    /// Returns the tree from which the steps take.
    pub(crate) fn shared_capacity(&self) -> &SharedCapacity {
        self.capacity.shared()
    }

    /// Lets the steps take of the limits of the store what they have, and what `rooms` leave.
    pub(crate) fn share(&mut self, rooms: &BTreeMap<String, LimitRoom>) {
        self.capacity.shared().share(&self.limits(), rooms);
        self.search_again();
    }

    /// Searches again for a step that may start: the store may give more of a limit.
    pub(crate) fn search_again(&mut self) {
        self.apply(Input::RetrySearch).expect("it can always search");
    }

    /// Notes whether a work waits for a limit of the store.
    pub(crate) fn set_waits_for_limits(&mut self, waits: bool) {
        self.waits_for_limits = waits;
    }

    /// Returns the first work in the queue that nothing but limits of the store refuse, or another one if the
    /// first is refused by something else.
    pub(crate) fn limit_wait(&self) -> Option<LimitWait> {
        if self.engine.all_paused_since().is_some() {
            return None;
        }
        let first = self.engine.first_in_queue();
        let is_ready = |work: &WorkId| self.engine.phase(*work) == Some(Phase::Ready);
        let others = self.limit_users.works.iter().copied().filter(is_ready);
        let work = first.into_iter().chain(others).find(|work| self.lacks_only_limits(*work))?;
        let need = |(limit, amount): (&str, windlass_core::Amount)| Need {
            name: Name::Limit(limit.to_owned()),
            weight: amount.steps(),
        };
        let needs = self.step(work).needs.limits().map(need).collect();
        let turn = self.capacity.look(|tree| tree.reservation_turn(self.client()));
        let (priority, turn) = (self.plan.priority, turn.unwrap_or(u64::MAX));
        Some(LimitWait { work, needs, priority, turn })
    }

    fn lacks_only_limits(&self, work: WorkId) -> bool {
        if self.step(work).needs.limits().next().is_none() {
            return false;
        }
        self.capacity.look(|tree| {
            if self.engine.lacks_worker(tree, work) {
                return false;
            }
            let shortages = self.engine.shortages(tree, work);
            !shortages.is_empty() && shortages.iter().all(|short| is_of_store(tree, short))
        })
    }
}

/// Returns whether others have what is short of a limit of the store.
fn is_of_store(tree: &CapacityTree, short: &Shortage) -> bool {
    let lacks = match short.why {
        Short::Limit { free, .. } => free < i128::from(short.wanted.steps()),
        _ => false,
    };
    lacks && short.level == CapacityTree::ROOT && tree.name(short.resource).starts_with(SHARED)
}

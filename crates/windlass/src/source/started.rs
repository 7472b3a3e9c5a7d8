//! Tasks that a runner has started and not polled yet, in order.

use std::collections::VecDeque;

use windlass_core::{Grant, WorkId};

/// A task that a runner starts.
pub(crate) struct Started<T> {
    pub(crate) grant: Grant,
    pub(crate) task: T,
}

/// Grants and tasks stand apart, so that tasks that start together move in together.
pub(crate) struct StartedTasks<T> {
    grants: VecDeque<Grant>,
    tasks: VecDeque<T>,
}

impl<T> StartedTasks<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    pub(super) fn push(&mut self, started: Started<T>) {
        let Started { grant, task } = started;
        self.grants.push_back(grant);
        self.tasks.push_back(task);
    }

    /// All of these have started for the first time; their numbers follow each other.
    pub(super) fn append(&mut self, first: WorkId, tasks: &mut VecDeque<T>) {
        let first = first.index();
        let works = (first..first + tasks.len()).map(WorkId::from_index);
        self.grants.extend(works.map(|work| Grant { work, attempt: 1 }));
        self.tasks.append(tasks);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Started<T>> {
        let grant = self.grants.pop_front()?;
        let task = self.tasks.pop_front().expect("a task for each grant");
        Some(Started { grant, task })
    }

    pub(crate) fn grants(&self) -> impl Iterator<Item = Grant> + '_ {
        self.grants.iter().copied()
    }

    /// Takes these out again; what they were granted. Their tasks are dropped.
    pub(crate) fn remove(&mut self, works: &[WorkId]) -> Vec<Grant> {
        let mut removed = Vec::new();
        while let Some(place) = self.grants.iter().position(|grant| works.contains(&grant.work)) {
            removed.extend(self.grants.remove(place));
            drop(self.tasks.remove(place));
        }
        removed
    }
}

impl<T> Default for StartedTasks<T> {
    fn default() -> Self {
        Self { grants: VecDeque::new(), tasks: VecDeque::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(index: usize) -> Grant {
        Grant { work: WorkId::from_index(index), attempt: 1 }
    }

    #[test]
    fn what_is_taken_out_leaves_the_others_in_order() {
        let mut started = StartedTasks::default();
        started.append(WorkId::from_index(0), &mut VecDeque::from(["a", "b", "c"]));
        started.push(Started { grant: grant(3), task: "d" });
        let removed = started.remove(&[grant(2).work, grant(0).work, grant(7).work]);
        assert_eq!(removed, [grant(0), grant(2)]);
        let left = std::iter::from_fn(|| started.pop().map(|left| (left.grant, left.task)));
        assert_eq!(left.collect::<Vec<_>>(), [(grant(1), "b"), (grant(3), "d")]);
        assert!(started.is_empty());
    }
}

//! Queues and the bases of their journals in memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use windlass_core::WorkId;

use super::MemoryTransaction;
use crate::error::StoreError;
use crate::queue::{StoredBase, StoredChange, StoredQueue, StoredStep};
use crate::tables::QueueTables;

#[derive(Clone, Default)]
pub(super) struct Queues {
    /// By name.
    queues: BTreeMap<String, StoredQueue>,
    added: BTreeMap<(String, WorkId), String>,
    changes: BTreeMap<(String, u64), String>,
    /// By run.
    bases: BTreeMap<String, StoredBase>,
}

impl Queues {
    pub(super) fn delete_run(&mut self, run: &str) {
        self.queues.retain(|_, queue| queue.run != run);
        self.added.retain(|(of, _), _| of != run);
        self.changes.retain(|(of, _), _| of != run);
        self.bases.remove(run);
    }
}

impl QueueTables for MemoryTransaction {
    fn insert_queue(&self, name: &str, run: &str) -> Result<(), StoreError> {
        let queue =
            StoredQueue { name: name.to_owned(), run: run.to_owned(), added: 0, changed: 0 };
        self.tables().queues.queues.insert(name.to_owned(), queue);
        Ok(())
    }

    fn queues(&self) -> Result<Vec<StoredQueue>, StoreError> {
        Ok(self.tables().queues.queues.values().cloned().collect())
    }

    fn add_step(&self, run: &str, text: &str) -> Result<WorkId, StoreError> {
        let queues = &mut self.tables().queues;
        let unknown = || StoreError::UnknownRun { run: run.to_owned() };
        let queue = queues.queues.values_mut().find(|queue| queue.run == run);
        let queue = queue.ok_or_else(unknown)?;
        queue.added += 1;
        let work = WorkId::new(queue.added).expect("it was counted up");
        queues.added.insert((run.to_owned(), work), text.to_owned());
        Ok(work)
    }

    fn steps_after(&self, run: &str, after: u64) -> Result<Vec<StoredStep>, StoreError> {
        let from = match WorkId::new(after) {
            Some(after) => Bound::Excluded((run.to_owned(), after)),
            None => Bound::Included((run.to_owned(), WorkId::from_index(0))),
        };
        let tables = self.tables();
        let steps = tables.queues.added.range((from, Bound::Unbounded));
        let of_run = steps.take_while(|((of, _), _)| of == run);
        Ok(of_run.map(|((_, work), text)| StoredStep { work: *work, text: text.clone() }).collect())
    }

    fn step(&self, run: &str, work: WorkId) -> Result<Option<StoredStep>, StoreError> {
        let text = self.tables().queues.added.get(&(run.to_owned(), work)).cloned();
        Ok(text.map(|text| StoredStep { work, text }))
    }

    fn set_step(&self, run: &str, work: WorkId, text: &str) -> Result<(), StoreError> {
        if let Some(step) = self.tables().queues.added.get_mut(&(run.to_owned(), work)) {
            text.clone_into(step);
        }
        Ok(())
    }

    fn add_change(&self, run: &str, text: &str) -> Result<u64, StoreError> {
        let queues = &mut self.tables().queues;
        let unknown = || StoreError::UnknownRun { run: run.to_owned() };
        let queue = queues.queues.values_mut().find(|queue| queue.run == run);
        let queue = queue.ok_or_else(unknown)?;
        queue.changed += 1;
        queues.changes.insert((run.to_owned(), queue.changed), text.to_owned());
        Ok(queue.changed)
    }

    fn changes_after(&self, run: &str, after: u64) -> Result<Vec<StoredChange>, StoreError> {
        let (first, last) = ((run.to_owned(), after + 1), (run.to_owned(), u64::MAX));
        let tables = self.tables();
        let changes = tables.queues.changes.range(first..=last);
        let stored = |(key, text): (&(String, u64), &String)| StoredChange {
            number: key.1,
            text: text.clone(),
        };
        Ok(changes.map(stored).collect())
    }

    fn delete_change(&self, run: &str, number: u64) -> Result<(), StoreError> {
        self.tables().queues.changes.remove(&(run.to_owned(), number));
        Ok(())
    }

    fn delete_step(&self, run: &str, work: WorkId) -> Result<(), StoreError> {
        let mut tables = self.tables();
        tables.queues.added.remove(&(run.to_owned(), work));
        tables.runs.delete_step(run, work);
        Ok(())
    }

    fn base(&self, run: &str) -> Result<Option<StoredBase>, StoreError> {
        Ok(self.tables().queues.bases.get(run).cloned())
    }

    fn set_base(&self, run: &str, text: &str) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let facts = tables.runs.delete_facts(run);
        tables.queues.bases.insert(run.to_owned(), StoredBase { facts, text: text.to_owned() });
        Ok(())
    }
}

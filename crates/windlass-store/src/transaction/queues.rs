//! Queues: the runs to which steps are added, and the bases of their journals.

use windlass_core::WorkId;

use super::Notices;
use crate::error::StoreError;
use crate::queue::{StoredBase, StoredChange, StoredQueue, StoredStep};
use crate::tables::QueueTables;
use crate::wakeup::Topic;

/// The queues of a store, within a [`Transaction`](super::Transaction).
pub struct Queues<'a> {
    tables: &'a dyn QueueTables,
    notices: &'a Notices,
}

impl<'a> Queues<'a> {
    pub(super) fn new(tables: &'a dyn QueueTables, notices: &'a Notices) -> Self {
        Self { tables, notices }
    }

    /// Creates an empty queue of this name whose run was inserted before.
    pub fn create(&self, name: &str, run: &str) -> Result<(), StoreError> {
        self.notices.add(Topic::Requests);
        self.tables.insert_queue(name, run)
    }

    /// Returns the queues, by name.
    pub fn all(&self) -> Result<Vec<StoredQueue>, StoreError> {
        self.tables.queues()
    }

    /// Returns the queue of a name, if there is one.
    pub fn find(&self, name: &str) -> Result<Option<StoredQueue>, StoreError> {
        self.tables.queue(name)
    }

    /// Returns the queue that a run is, if it is one.
    pub fn of_run(&self, run: &str) -> Result<Option<StoredQueue>, StoreError> {
        self.tables.queue_of_run(run)
    }

    /// Adds a step to the queue that a run is, and returns its number. The scheduler takes the steps in the
    /// order of their numbers.
    pub fn add(&self, run: &str, text: &str) -> Result<WorkId, StoreError> {
        self.notices.add(Topic::Requests);
        self.tables.add_step(run, text)
    }

    /// Returns the steps with numbers above `after`, in order, as far as they are stored.
    pub fn steps_after(&self, run: &str, after: u64) -> Result<Vec<StoredStep>, StoreError> {
        self.tables.steps_after(run, after)
    }

    /// Returns one step, if it is stored.
    pub fn step(&self, run: &str, work: WorkId) -> Result<Option<StoredStep>, StoreError> {
        self.tables.step(run, work)
    }

    /// Replaces the text of a step. The journal must not have the fact any more that submits the step.
    pub fn set_step(&self, run: &str, work: WorkId, text: &str) -> Result<(), StoreError> {
        self.tables.set_step(run, work, text)
    }

    /// Adds a change of a step that has not begun. The scheduler takes changes in the order of their numbers.
    pub fn change(&self, run: &str, text: &str) -> Result<u64, StoreError> {
        self.notices.add(Topic::Requests);
        self.tables.add_change(run, text)
    }

    /// Returns the changes with numbers above `after`, in order, as far as they are stored.
    pub fn changes_after(&self, run: &str, after: u64) -> Result<Vec<StoredChange>, StoreError> {
        self.tables.changes_after(run, after)
    }

    /// Deletes a change that no fact stands for.
    pub fn drop_change(&self, run: &str, number: u64) -> Result<(), StoreError> {
        self.tables.delete_change(run, number)
    }

    /// Returns what stands for the beginning of a run's journal, if something does.
    pub fn base(&self, run: &str) -> Result<Option<StoredBase>, StoreError> {
        self.tables.base(run)
    }

    /// Puts `base` in the place of the whole journal of a run, and deletes what is stored of the steps that
    /// are `forgotten`.
    pub fn compact(&self, run: &str, base: &str, forgotten: &[WorkId]) -> Result<(), StoreError> {
        self.tables.set_base(run, base)?;
        forgotten.iter().try_for_each(|work| self.tables.delete_step(run, *work))
    }
}

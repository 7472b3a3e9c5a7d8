//! What the store keeps of a queue: a run that stays open and to which steps are added.

use windlass_core::WorkId;

/// A queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredQueue {
    /// Its name.
    pub name: String,
    /// The id of its run.
    pub run: String,
    /// How many steps were ever added, which is the number of the last one.
    pub added: u64,
    /// How many changes of steps were ever stored, which is the number of the last one.
    pub changed: u64,
}

/// A change of a step that has not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredChange {
    /// Its number. No other change of the queue ever has it.
    pub number: u64,
    /// What to change.
    pub text: String,
}

/// What stands for the beginning of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBase {
    /// How many facts it stands for. They are deleted, and those after them keep their numbers.
    pub facts: usize,
    /// The state of the run behind them.
    pub text: String,
}

/// A step that was added to a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredStep {
    /// Its number. No other step of the queue ever has it.
    pub work: WorkId,
    /// What to run, and how.
    pub text: String,
}

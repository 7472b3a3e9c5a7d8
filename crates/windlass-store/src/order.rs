//! What a scheduler and its workers tell each other: orders, reports, and the workers themselves.
//!
//! A scheduler writes an order in the commit that decides on it; from then on its process may run. The
//! worker writes a report once nothing of the order runs any more. The scheduler deletes both in the
//! commit that takes the report in. The store does not know what orders and reports mean.

use std::fmt;

use windlass_core::Token;

/// The time of one process as a worker: the worker's name, and the token of its lease on that name. A
/// life that is over never comes back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    /// The name of the worker.
    pub worker: String,
    /// The token of its lease on the name.
    pub token: Token,
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (life {})", self.worker, self.token)
    }
}

/// Something that a worker has to execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOrder {
    /// The number of the order; no other order ever has it.
    pub token: u64,
    /// The run for which it is executed.
    pub run: String,
    /// What it is in that run, in words of the scheduler. A run has one order of each key at a time.
    pub key: String,
    /// The life that executes it.
    pub life: Life,
    /// What to execute, in words of scheduler and worker.
    pub text: String,
    /// How the scheduler wants it to end, if it does.
    pub wish: Option<String>,
}

/// An order that is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOrder {
    /// What it is in its run.
    pub key: String,
    /// The life that executes it.
    pub life: Life,
    /// What to execute.
    pub text: String,
}

/// What became of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReport {
    /// The order.
    pub token: u64,
    /// The run of the order.
    pub run: String,
    /// The key of the order.
    pub key: String,
    /// What became of it, in words of scheduler and worker.
    pub text: String,
}

/// A worker that is alive, or was until a moment ago.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredWorker {
    /// Its present life.
    pub life: Life,
    /// How many commands it executes at a time.
    pub slots: u32,
    /// What it has besides slots, and its labels, in words of scheduler and worker.
    pub offer: String,
    /// Whether it takes new orders.
    pub state: WorkerState,
    /// When it began, in milliseconds since the Unix epoch, for display.
    pub since_ms: i64,
    /// What else is shown of it, as a JSON object.
    pub about: String,
}

/// Whether a worker takes new orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WorkerState {
    /// It does.
    Up,
    /// It takes no new ones, and stays.
    Cordoned,
    /// It ends once its orders have ended.
    Draining,
}

impl WorkerState {
    /// All states.
    pub const ALL: &'static [Self] = &[Self::Up, Self::Cordoned, Self::Draining];

    /// Returns the word that is shown to users and stored.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            WorkerState::Up => "up",
            WorkerState::Cordoned => "cordoned",
            WorkerState::Draining => "draining",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|state| state.word() == word)
    }
}

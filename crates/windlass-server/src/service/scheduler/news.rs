//! What a scheduler tells its user, and why it ends.

use windlass_store::{HolderId, Life, RunEnd};

/// What a scheduler reports to its user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchedulerNews {
    /// Another scheduler leads; this one waits for its end.
    StandingBy {
        /// The other one.
        leader: HolderId,
    },
    /// It leads.
    Leading,
    /// It leads a run.
    Began {
        /// The run.
        run: String,
        /// Its workflow.
        workflow: String,
    },
    /// A run has ended.
    Ended {
        /// The run.
        run: String,
        /// How.
        end: RunEnd,
    },
    /// A run cannot be led.
    Refused {
        /// The run.
        run: String,
        /// Why.
        why: String,
    },
    /// A worker has sent no heartbeats for too long, and its steps are tried again.
    WorkerLost {
        /// The life of the worker.
        life: Life,
        /// How many of its orders are lost.
        lost: usize,
    },
    /// The steps of a worker that sends no heartbeats cannot be ended; the scheduler tries again.
    WorkerStuck {
        /// The life of the worker.
        life: Life,
        /// Why.
        why: String,
    },
    /// The store cannot be written at the moment; the scheduler tries again.
    Trouble {
        /// Why.
        why: String,
    },
    /// The store can be written again.
    Recovered,
}

/// Why a scheduler has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchedulerEnd {
    /// This signal has come.
    Signal(i32),
    /// There was no run for long.
    Idle,
}

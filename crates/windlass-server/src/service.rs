//! Runs without a terminal: a scheduler that leads them, and workers that execute for it.
//!
//! | part | does |
//! |---|---|
//! | [`submit`] | stores a run for the scheduler |
//! | [`Scheduler`] | leads all submitted runs of a store; writes orders, takes reports in |
//! | [`Worker`] | executes orders, and reports how they ended |
//!
//! They communicate through the store only. Killing the scheduler interrupts nothing: workers continue,
//! and the next scheduler finds every attempt in its state. Killing a worker loses the attempts that it
//! executed; its next life ends their processes and reports them as lost, and they are repeated without
//! using up a retry.

mod awaited;
mod dead_lives;
mod duty;
mod environment;
mod equipment;
mod follow;
mod guarded;
mod guardian;
mod ledger;
mod life;
mod log_sender;
mod log_sweep;
pub(crate) mod placement;
mod scheduler;
#[cfg(test)]
mod simulated;
mod submit;
pub(crate) mod texts;
mod turns;
mod watchdog;
mod worker;
mod workers;

pub use self::awaited::{Awaited, AwaitedEnd, await_ends, awaited};
pub use self::environment::EnvironmentError;
pub(crate) use self::environment::submitted_env;
pub use self::equipment::{Equipment, Supply};
pub(crate) use self::equipment::{taken_of_worker, variable_of};
pub use self::follow::{Unled, live_scheduler};
pub use self::guardian::guard;
pub use self::life::host_name;
pub use self::scheduler::{Scheduler, SchedulerEnd, SchedulerNews};
pub use self::submit::{WorkersNeeded, submit};
pub use self::worker::{Worker, WorkerEnd, WorkerError, WorkerNews, WorkerSettings};
pub use self::workers::{
    AboutWorker, AskWorkerError, Asked, SeenWorker, ask_worker, asked_of, live_worker, other_user,
    workers,
};
pub use windlass_store::{Life, StoredWorker, WorkerState};

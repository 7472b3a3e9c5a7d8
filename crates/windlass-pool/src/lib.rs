//! A work-stealing CPU pool with structured concurrency, cancellation and deadlines.

mod abort;
mod checkpoint;
mod clock;
mod config;
mod deadline;
mod depot;
mod detached;
mod error;
mod fork;
mod job;
mod join;
#[cfg(all(test, windlass_loom))]
mod models;
mod node;
mod panics;
mod parallel;
mod parker;
mod pool;
mod race;
mod scheduler;
mod scope;
mod sleep;
mod source;
mod stats;
mod sync;
mod task;
mod timer;
mod trace;
mod wait;
mod watch;
mod worker;

pub use checkpoint::{cancelled, checkpoint};
pub use config::SchedulerConfig;
pub use deadline::{with_deadline, with_deadline_on};
pub use detached::JoinTask;
pub use error::{Cancelled, Panic, TaskError};
pub use join::join;
pub use parallel::{for_each, map, map_reduce};
pub use race::race;
pub use scheduler::Scheduler;
pub use scope::{Scope, with_scope};
pub use source::Source;
pub use stats::{SchedulerStats, WorkerStats};
pub use task::{Task, TaskState};
pub use trace::{TaskId, TraceEvent, TraceKind};

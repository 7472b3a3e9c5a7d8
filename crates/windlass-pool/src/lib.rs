//! A work-stealing CPU pool with structured concurrency, cancellation and deadlines.

mod abort;
mod checkpoint;
mod config;
mod depot;
mod detached;
mod error;
mod job;
mod node;
mod parker;
mod pool;
mod scheduler;
mod scope;
mod sleep;
mod stats;
mod sync;
mod task;
mod trace;
mod wait;
mod worker;

pub use checkpoint::{cancelled, checkpoint};
pub use config::SchedulerConfig;
pub use detached::JoinTask;
pub use error::{Cancelled, Panic, TaskError};
pub use scheduler::Scheduler;
pub use scope::{Scope, with_scope};
pub use stats::{SchedulerStats, WorkerStats};
pub use task::{Task, TaskState};
pub use trace::{TaskId, TraceEvent, TraceKind};

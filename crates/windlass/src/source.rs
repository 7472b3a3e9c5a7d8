//! Sources of tasks: callers and runners pull tasks that can start, the most urgent first.
//!
//! Each source is a handle of an engine, which keeps the order, the dependencies and the ages. By itself, a
//! source takes no capacity. A [`TaskPoolRunner`](crate::TaskPoolRunner) has the source's engine take from
//! the runner's capacity, so that callers that pull and the runner share one decision.

mod dependency;
mod error;
mod keyed;
mod listener;
mod priority;
mod priority_dependency;
mod queue;
mod report;
mod state;

pub use dependency::DependencySource;
pub use error::{EnqueueError, ReportError, SourceClosed, SourceError};
pub(crate) use listener::Listener;
pub use priority::PrioritySource;
pub use priority_dependency::{PriorityDependencyOptions, PriorityDependencySource};
pub(crate) use queue::{Pulled, Queue};
pub(crate) use state::Started;

/// The priority of a task that has none of its own.
pub(crate) const PRIORITY: i64 = 1;

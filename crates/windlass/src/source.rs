//! Sources of tasks: what can start is pulled from them, the most urgent first.
//!
//! Each source is a handle on an engine, which keeps the order, the dependencies and the ages. By
//! itself a source takes nothing from anywhere; given to a [`TaskPoolRunner`](crate::TaskPoolRunner)
//! its engine takes from the runner's capacity, so that what is asked of the source and what the
//! runner starts never disagree.

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

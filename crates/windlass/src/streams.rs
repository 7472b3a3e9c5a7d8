//! Queues of tasks as streams, and a runner that runs them within a capacity.
//!
//! | for | look at |
//! |---|---|
//! | queues | [`PrioritySource`], [`DependencySource`], [`PriorityDependencySource`] |
//! | tasks | [`ScheduledTask`] |
//! | running them | [`TaskPoolRunner`], which streams [`TaskProgress`] |

pub use crate::runner::{OnError, TaskPoolRunner, TaskProgress, TaskProgressKind, TaskSource};
pub use crate::source::{
    DependencySource, EnqueueError, PriorityDependencyOptions, PriorityDependencySource,
    PrioritySource, ReportError, SourceClosed, SourceError,
};
pub use crate::task::{ScheduledTask, TaskError, TaskSender, TaskYield};

//! Schedules async work that has dependencies, limits and conditions.
//!
//! ```
//! use std::time::Duration;
//! use windlass::{Work, WorkContext, WorkOutcome, WorkScheduler, WorkSchedulerConfig, WorkState};
//!
//! struct Download(&'static str);
//!
//! #[windlass::async_trait]
//! impl Work for Download {
//!     fn name(&self) -> &str {
//!         self.0
//!     }
//!
//!     async fn run(&mut self, _ctx: WorkContext) -> WorkOutcome {
//!         WorkOutcome::Success
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # let (work1, work2) = (Download("headers"), Download("transactions"));
//! let mut scheduler = WorkScheduler::new(WorkSchedulerConfig {
//!     max_concurrency: 4,
//!     retry_delay: Duration::from_secs(1),
//!     event_tx: None,
//! });
//!
//! // Add work items with dependencies
//! let id1 = scheduler.add_work(Box::new(work1), vec![], 3);  // 3 retries
//! let id2 = scheduler.add_work(Box::new(work2), vec![id1], 0);  // depends on id1
//!
//! // Run until all work completes or is blocked
//! scheduler.run_until_done().await;
//!
//! // Check results
//! assert_eq!(scheduler.state(id1), Some(WorkState::Success));
//! # assert_eq!(scheduler.state(id2), Some(WorkState::Success));
//! # }
//! ```
//!
//! Decisions are made by the engine in `windlass-core`, re-exported as [`core`]; CPU-bound work has
//! a pool of its own in [`pool`].

mod balancer;
mod capacity;
mod runner;
mod source;
mod task;

mod cpu;
mod entry;
mod event;
mod run;
mod scheduler;
mod spec;
mod work;

pub use windlass_core as core;
pub use windlass_pool as pool;

pub use async_trait::async_trait;
pub use tokio_util::sync::CancellationToken;
pub use windlass_core::{
    Ageing, Amount, Dependency, Order, Quota, Rate, ResourceCost, WorkId, WorkState,
};

pub use balancer::{BalancedCapacity, BalancerSetupError, HierarchicalBalancer};
pub use capacity::{
    CapacityLevel, CapacityMetrics, CapacitySubscription, ImpossibleCost, Permit, ReconcileError,
    Refusal, ResourceCapacity, RollingRates, Shortfall,
};
pub use runner::{OnError, TaskPoolRunner, TaskProgress, TaskProgressKind, TaskSource};
pub use source::{
    DependencySource, EnqueueError, PriorityDependencyOptions, PriorityDependencySource,
    PrioritySource, ReportError, SourceClosed, SourceError,
};
pub use task::{ScheduledTask, TaskError, TaskSender, TaskYield};
pub use windlass_core::{BalancerError, BalancerOptions, RetryPolicy};

pub use cpu::work_cpu;
pub use entry::WorkSnapshot;
pub use event::WorkEvent;
pub use scheduler::{
    BuildError, WorkScheduler, WorkSchedulerBuilder, WorkSchedulerConfig, WorkSchedulerMetrics,
};
pub use spec::{SubmitError, WorkSpec};
pub use work::{Work, WorkContext, WorkOutcome};

/// The examples of the front page.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadMe;

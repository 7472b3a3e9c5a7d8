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

mod attempt;
mod batch;
mod builder;
mod callback;
mod capacity;
mod closure;
mod context;
mod cpu;
mod entry;
mod error;
mod event;
mod explain;
mod gate;
mod handle;
mod inputs;
mod metrics;
mod reference;
mod run;
mod scheduler;
mod sequence;
mod shared;
mod snapshot;
mod spec;
mod state;
mod work;

pub use windlass_core as core;
pub use windlass_pool as pool;

pub use async_trait::async_trait;
pub use tokio_util::sync::CancellationToken;
pub use windlass_core::{
    Ageing, Amount, Children, Dependency, DependencyError, Order, Phase, Quota, RETRY_A_FEW,
    RETRY_A_LOT, RETRY_NEVER, RETRY_ONCE, Rate, Reason, ResourceCost, RetryPolicy, WorkId,
    WorkState,
};

pub use batch::BatchWork;
pub use builder::{BuildError, WorkSchedulerBuilder, WorkSchedulerConfig};
pub use callback::WorkWithCallback;
pub use capacity::ResourceCapacity;
pub use closure::work_fn;
pub use context::{Cancelled, WorkContext};
pub use cpu::work_cpu;
pub use error::{Fatal, WorkError};
pub use event::{Notice, Subscription, WorkChange, WorkEvent};
pub use explain::Explanation;
pub use gate::{ConditionalWork, Gate};
pub use handle::{ReopenError, WorkHandle};
pub use inputs::{Inputs, work_after};
pub use metrics::WorkSchedulerMetrics;
pub use reference::{ExecuteError, WorkFailure, WorkRef};
pub use scheduler::WorkScheduler;
pub use sequence::WorkSequence;
pub use snapshot::WorkSnapshot;
pub use spec::{SubmitError, WorkSpec};
pub use work::{Work, WorkOutcome};

/// The examples of the front page.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadMe;

/// The examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/works.md")]
struct Guide;

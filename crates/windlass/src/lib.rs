//! Schedules async work that has dependencies, limits and conditions.
//!
//! For programs that would otherwise glue a `JoinSet`, a few `Semaphore`s, a graph and a backoff
//! crate together, and then write the rest: who may start now, who is blocked by whom, what is
//! cancelled when, what is it waiting for?
//!
//! ```
//! use std::time::Duration;
//! use windlass::{ResourceCost, RetryPolicy, WorkScheduler, work_after, work_fn};
//!
//! # async fn fetch(_what: &str) -> std::io::Result<Vec<u8>> { Ok(vec![0; 42]) }
//! # async fn train(data: &[u8]) -> std::io::Result<usize> { Ok(data.len()) }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut scheduler = WorkScheduler::builder()
//!     .max_concurrency(16)
//!     .limits([("gpu", 2)])
//!     .build()?;
//!
//! // Tried again after about 100, 200, 400 ms …, five times unless `.times(n)` says otherwise; no
//! // attempt takes longer than 30 seconds.
//! let patiently = RetryPolicy::exponential(Duration::from_millis(100)).jitter();
//! let data = work_fn("fetch", |_ctx| async { Ok(fetch("data.bin").await?) });
//! let data = scheduler.spawn(data.retry(patiently).timeout(Duration::from_secs(30)))?;
//!
//! // After that, with what it brought, on one of the two GPUs.
//! let train = work_after("train", &data, |_ctx, data| async move { Ok(train(&data).await?) });
//! let model = scheduler.spawn(train.needs([("gpu", 1)]))?;
//!
//! scheduler.run_until_done().await;
//! println!("trained {}", model.await?); // or why not, with the name of who failed
//! # Ok(())
//! # }
//! ```
//!
//! While it runs, anybody with a [handle](WorkHandle) can add to it, steer it and look at it, also
//! its works themselves:
//!
//! ```
//! use windlass::{CancellationToken, WorkScheduler, WorkSchedulerConfig, work_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut scheduler = WorkScheduler::new(WorkSchedulerConfig::default());
//! let (handle, stop) = (scheduler.handle(), CancellationToken::new());
//! let stopped = stop.clone();
//! let service = tokio::spawn(async move { scheduler.run_until_cancelled(stopped).await });
//!
//! let gate = std::future::pending();
//! let later = handle.submit(work_fn("later", |_ctx| async { Ok(()) }).gate(gate))?;
//! let answer = handle.execute(work_fn("now", |_ctx| async { Ok(42) })).await?;
//! assert_eq!(*answer, 42);
//!
//! for work in handle.snapshot() {
//!     println!("{}: {}", work.name, work.status());
//! }
//! let why = handle.explain(later).expect("it is known");
//! assert_eq!(why.to_string(), "its gate has not opened");
//! handle.set_max_concurrency(8);
//! handle.cancel(later);
//!
//! stop.cancel(); // everything else, and the service returns when all have ended
//! service.await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What there is
//!
//! | for | look at |
//! |---|---|
//! | works | [`work_fn`], [`work_after`], [`work_cpu`]; [`Work`] for types of your own, with hooks |
//! | saying more about them | [`WorkSpec`]: dependencies, retries, priority, needs, timeout, deadline, gate |
//! | running them | [`WorkScheduler`], [`WorkSchedulerBuilder`] |
//! | results | [`WorkRef`], [`WorkHandle::execute`] |
//! | trying again | [`RetryPolicy`], [`WorkError`] and [`Fatal`], [`WorkOutcome::Retry`] |
//! | cancelling | [`WorkHandle::cancel`], [`WorkContext::cancel_token`], [`CancellationToken`] |
//! | conditions | [`Gate`], [`ConditionalWork`], [`Dependency`] |
//! | families | [`WorkContext::add_child`], [`WorkContext::spawn_child`], [`WorkContext::join_children`], [`BatchWork`] |
//! | waiting without a slot | [`WorkContext::suspend`], [`WorkHandle::wake`] |
//! | limits | [`WorkSpec::needs`], [`ResourceCapacity`] that several share, [`Rate`], [`Quota`], [`Ageing`] |
//! | watching | [`WorkHandle::subscribe`], [`WorkEvent`], `tracing` spans |
//! | asking why | [`WorkSnapshot::status`], [`WorkHandle::explain`] |
//!
//! # What holds
//!
//! * No slot and no resource is held by a work that waits: for its turn, a retry, a gate, its children.
//! * Needs are had all or nothing, in one line, so no two works can wait for each other.
//! * Every work ends exactly once, and each change is told exactly once, in one order.
//! * Whatever a body, a hook or a callback does, a panic included, is that work's end and nobody
//!   else's. Nothing of yours runs or is dropped under a lock.
//! * When a run has returned, every work has ended, and no body is under way.
//! * It runs on Tokio's clock: under paused time tests are quick, and the same every time.
//!
//! A guide with all of this in turn is `docs/works.md` of the repository; `examples/` has programs to
//! start from. Decisions are made by the engine in `windlass-core`, re-exported as [`core`];
//! CPU-bound work has a pool of its own in [`pool`].

mod attempt;
mod balancer;
mod batch;
mod body;
mod builder;
mod callback;
mod capacity;
mod changes;
mod closure;
mod computing;
mod context;
mod cpu;
mod effects;
mod entry;
mod error;
mod event;
mod explain;
mod gate;
mod handle;
mod inputs;
mod metrics;
mod name;
mod panic;
mod reference;
mod report;
mod run;
mod runner;
mod scheduler;
mod sequence;
mod session;
mod shared;
mod snapshot;
mod source;
mod spec;
mod state;
mod sync;
mod task;
mod work;
mod work_name;

pub use windlass_core as core;
pub use windlass_pool as pool;

pub use async_trait::async_trait;
pub use tokio_util::sync::CancellationToken;
pub use windlass_core::{
    Ageing, Amount, BalancerError, BalancerOptions, Children, Dependency, DependencyError, Order,
    Phase, Quota, RETRY_A_FEW, RETRY_A_LOT, RETRY_NEVER, RETRY_ONCE, Rate, Reason, ResourceCost,
    RetryPolicy, WorkId, WorkState,
};

pub use balancer::{BalancedCapacity, BalancerSetupError, HierarchicalBalancer};
pub use batch::BatchWork;
pub use builder::{BuildError, WorkSchedulerBuilder, WorkSchedulerConfig};
pub use callback::WorkWithCallback;
pub use capacity::{
    CapacityLevel, CapacityMetrics, CapacitySubscription, ImpossibleCost, KeyedCapacity, Permit,
    ReconcileError, Refusal, ResourceCapacity, RollingRates, Shortfall,
};
pub use closure::{work_async, work_fn, work_once};
pub use context::{Cancelled, WorkContext};
pub use cpu::{work_cpu, work_cpu_after};
pub use error::{Fatal, WorkError};
pub use event::{Notice, Subscription, WorkChange, WorkEvent};
pub use explain::Explanation;
pub use gate::{ConditionalWork, Gate};
pub use handle::{ReopenError, WorkHandle};
pub use inputs::{Inputs, work_after};
pub use metrics::WorkSchedulerMetrics;
pub use reference::{ExecuteError, TakeError, WorkFailure, WorkRef};
pub use runner::{OnError, TaskPoolRunner, TaskProgress, TaskProgressKind, TaskSource};
pub use scheduler::WorkScheduler;
pub use sequence::WorkSequence;
pub use snapshot::WorkSnapshot;
pub use source::{
    DependencySource, EnqueueError, PriorityDependencyOptions, PriorityDependencySource,
    PrioritySource, ReportError, SourceClosed, SourceError,
};
pub use spec::{SubmitError, WorkSpec};
pub use task::{ScheduledTask, TaskError, TaskSender, TaskYield};
pub use work::{Work, WorkOutcome};
pub use work_name::WorkName;

/// The examples of the front page.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadMe;

/// The examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/works.md")]
struct Guide;

/// The examples of the guide to the pool.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/pool.md")]
struct PoolGuide;

//! Schedules async work that has dependencies, limits and conditions.
//!
//! For programs that would otherwise combine a `JoinSet`, a few `Semaphore`s, a graph and a backoff crate by
//! hand, and then write the rest: what may start now, what is blocked and why, what a cancel reaches, what a
//! work waits for.
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
//! // Retries after about 100, 200, 400 ms …, up to five times (`.times(n)` changes that); an attempt
//! // may take 30 seconds.
//! let backoff = RetryPolicy::exponential(Duration::from_millis(100)).jitter();
//! let data = work_fn("fetch", |_ctx| async { Ok(fetch("data.bin").await?) });
//! let data = scheduler.spawn(data.retry(backoff).timeout(Duration::from_secs(30)))?;
//!
//! // Runs after the fetch, with its result, on one of the two GPUs.
//! let train = work_after("train", &data, |_ctx, data| async move { Ok(train(&data).await?) });
//! let model = scheduler.spawn(train.needs([("gpu", 1)]))?;
//!
//! scheduler.run_until_done().await.into_result()?; // an error if a work did not succeed
//! println!("trained {}", model.await?);
//! # Ok(())
//! # }
//! ```
//!
//! While it runs, every task with a [handle](WorkHandle) can submit works, steer them and look at them. The
//! works themselves can, too:
//!
//! ```
//! use windlass::{CancellationToken, WorkScheduler, work_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut scheduler = WorkScheduler::default();
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
//! stop.cancel(); // cancels all works; the service returns when they have ended
//! let summary = service.await?;
//! assert_eq!((summary.success, summary.cancelled), (1, 1));
//! # Ok(())
//! # }
//! ```
//!
//! # Overview
//!
//! | for | look at |
//! |---|---|
//! | works from closures | [`work_fn`], [`work_async`], [`work_once`], [`work_after`], [`work_cpu`] |
//! | works as types, with hooks | [`Work`] |
//! | settings of a work | [`WorkSpec`]: dependencies, retries, priority, needs, timeout, deadline, gate |
//! | running works | [`WorkScheduler`], [`works::WorkSchedulerBuilder`], [`RunSummary`] |
//! | results | [`WorkRef`], [`WorkHandle::execute`] |
//! | retries | [`RetryPolicy`], [`WorkError`] and [`Fatal`], [`WorkOutcome::Retry`] |
//! | cancellation | [`WorkHandle::cancel`], [`WorkContext::cancel_token`], [`CancellationToken`] |
//! | conditions | [`works::Gate`], [`works::ConditionalWork`], [`Dependency`] |
//! | families | [`WorkContext::add_child`], [`WorkContext::spawn_child`], [`works::BatchWork`] |
//! | waiting without a slot | [`WorkContext::suspend`], [`WorkHandle::wake`] |
//! | limits | [`WorkSpec::needs`], [`ResourceCapacity`], [`capacity::KeyedCapacity`], [`Rate`], [`Quota`] |
//! | observing | [`WorkHandle::subscribe`], [`works::WorkSnapshot`], `tracing` spans |
//! | reasons for waits | [`WorkHandle::explain`], [`works::WorkSnapshot::status`] |
//! | queues of tasks as streams | [`streams`] |
//! | CPU-bound work | [`pool`] |
//!
//! # Features
//!
//! Both are off by default.
//!
//! * `serde`: `Serialize` for [`works::WorkSnapshot`], [`works::WorkSchedulerMetrics`], [`works::WorkEvent`],
//!   [`RunSummary`] and [`capacity::CapacityMetrics`]. Times are seconds, ids are numbers, states and phases are
//!   lower-case words.
//! * `metrics`: reports to the recorder of the `metrics` crate that the program has installed. Counters:
//!   `windlass_attempts_started`, `windlass_retries`, `windlass_works_ended` with the label `state`. Gauge:
//!   `windlass_works_running`. Histograms: `windlass_attempt_seconds`, `windlass_queue_seconds`.
//!
//! # Guarantees
//!
//! * A waiting work holds no slot and no resource, whether it waits for capacity, a retry, a gate or its children.
//! * A work takes everything it needs in one step, or nothing, so two works cannot deadlock.
//! * Every work ends exactly once, and each change is reported exactly once, in one order.
//! * A panic of a body, a hook or a callback fails that work only. No code of yours runs or is dropped under a lock.
//! * When a run has returned, every work has ended, and no body and no gate is polled any more.
//! * The scheduler uses Tokio's clock: with paused time, tests are fast and repeatable.
//!
//! The guide is `docs/works.md` of the repository; `examples/` has programs to start from. The engine in
//! `windlass-core`, re-exported as [`core`], makes all decisions.

mod attempt;
mod balancer;
mod batch;
mod body;
mod builder;
mod callback;
pub mod capacity;
mod closure;
mod computing;
mod context;
mod cpu;
mod effects;
mod entry;
mod error;
mod event;
mod event_log;
mod explain;
mod gate;
mod handle;
mod id;
mod idle;
mod inputs;
#[cfg(feature = "metrics")]
mod meter;
mod metrics;
mod name;
mod output;
mod panic;
mod pool_task;
mod reference;
mod report;
mod run;
mod runner;
mod scheduler;
mod sequence;
#[cfg(feature = "serde")]
mod serialize;
mod session;
mod shared;
mod snapshot;
mod source;
mod spec;
mod state;
pub mod streams;
mod summary;
mod sync;
mod task;
mod work;
mod work_name;
pub mod works;
mod world;

pub use async_trait::async_trait;
pub use tokio_util::sync::CancellationToken;
pub use windlass_core as core;
pub use windlass_pool as pool;

pub use capacity::{Amount, Permit, Quota, Rate, ResourceCapacity, ResourceCost};
pub use works::{
    Dependency, Fatal, RetryPolicy, RunFailed, RunSummary, SubmitError, Work, WorkContext,
    WorkError, WorkFailure, WorkHandle, WorkId, WorkOutcome, WorkRef, WorkScheduler, WorkSpec,
    WorkState, work_after, work_async, work_cpu, work_cpu_after, work_fn, work_once,
};

/// Everything that most programs need: `use windlass::prelude::*;`.
pub mod prelude {
    pub use crate::{
        CancellationToken, Dependency, Fatal, ResourceCapacity, ResourceCost, RetryPolicy,
        RunFailed, RunSummary, Work, WorkContext, WorkError, WorkHandle, WorkOutcome, WorkRef,
        WorkScheduler, WorkSpec, WorkState, work_after, work_async, work_cpu, work_cpu_after,
        work_fn, work_once,
    };
}

// The names of the original designs are also found at the root, where programs written for them look.
#[doc(hidden)]
pub use crate::{capacity::*, streams::*, works::*};

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

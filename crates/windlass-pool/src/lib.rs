//! A work-stealing CPU pool with structured concurrency, cancellation and deadlines.
//!
//! Tasks are spawned in a scope and cannot leave it; they may borrow from the enclosing frame. A
//! scope ends after all its tasks, also by a panic or a deadline. A cancel reaches everything below
//! what was cancelled, and is seen wherever a task looks.
//!
//! ```
//! use windlass_pool::{Scheduler, with_scope};
//! # fn compute_x() -> u32 { 20 }
//! # fn compute_y() -> u32 { 22 }
//!
//! let scheduler = Scheduler::new(4); // 4 worker threads
//!
//! let (x, y) = with_scope(&scheduler, |scope| {
//!     let task1 = scope.spawn(|| compute_x());
//!     let task2 = scope.spawn(|| compute_y());
//!
//!     let x = task1.await_result();
//!     let y = task2.await_result();
//!     (x, y)
//! });
//! // All tasks complete before scope exits
//! assert_eq!(x.unwrap() + y.unwrap(), 42);
//! ```
//!
//! # What there is
//!
//! * [`Scheduler`]: the workers; [`Scheduler::global`] for those who need no choice.
//! * [`with_scope`] and [`Scope`]: spawn, cancel, child scopes, callbacks on cancel.
//! * [`Task`]: await, with or without a limit, cancel, ask for the [`TaskState`].
//! * [`with_deadline`]: a scope that has to be done in time.
//! * [`join`], [`race`], [`map`], [`for_each`], [`map_reduce`]: without a scope in sight.
//! * [`run_graph`]: one body for each node of a [`Dag`], each after those it follows.
//! * [`cancelled`] and [`checkpoint`]: where a body asks whether to stop.
//! * [`Scheduler::spawn`] and [`JoinTask`]: tasks without a scope, as futures for async callers.
//! * [`SchedulerStats`] and [`TraceEvent`]: what the workers have done, and are doing.
//!
//! A guide with all of this in turn, and a table for those who come from rayon, is `docs/pool.md` of
//! the repository.
//!
//! # The life of a task
//!
//! ```text
//!   spawn      await
//!     |          |
//!     v          v
//! +-----+    +-------+    +----------+    +---------+
//! | New | -> |Running| -> |Completing| -> |Completed|
//! +-----+    +-------+    +----------+    +---------+
//!               |                              ^
//!               | cancel                       |
//!               v                              |
//!            +----------+                      |
//!            |Cancelling| ---------------------+
//!            +----------+
//! ```
//!
//! # Awaiting inside a task
//!
//! A worker whose task awaits another runs that one itself if nobody has begun it, else helps with
//! whatever has to end before its own task can, and else sleeps. However tasks await each other,
//! and on however few workers, with or without stealing: unless the awaits themselves go in a
//! circle, they all come to an end.
//!
//! # Work stealing
//!
//! Workers maintain local queues and steal from others when idle. In outline, each of them does
//! this:
//!
//! ```
//! # use std::cell::RefCell;
//! # struct Queue(RefCell<Vec<u32>>);
//! # impl Queue {
//! #     fn pop(&self) -> Option<u32> { self.0.borrow_mut().pop() }
//! #     fn steal(&self) -> Option<u32> { self.0.borrow_mut().pop() }
//! # }
//! # struct Worker { queue: Queue }
//! # let local_queue = Queue(RefCell::new(vec![1]));
//! # let workers = [Worker { queue: Queue(RefCell::new(vec![2, 3])) }];
//! # let done = RefCell::new(Vec::new());
//! # let run_task = |task| done.borrow_mut().push(task);
//! # let run = || {
//! # let park = || ();
//! // Worker execution loop
//! 'outer: loop {
//!     // 1. Try local queue first
//!     if let Some(task) = local_queue.pop() {
//!         run_task(task);
//!         continue;
//!     }
//!
//!     // 2. Try stealing from others
//!     for other in &workers {
//!         if let Some(task) = other.queue.steal() {
//!             run_task(task);
//!             continue 'outer;
//!         }
//!     }
//!
//!     // 3. No work, park the thread
//!     park();
//! #   return;
//! }
//! # };
//! # run();
//! # assert_eq!(*done.borrow(), [1, 3, 2]);
//! ```

mod abort;
mod asymmetric;
mod block_cache;
mod cancellation;
mod checkpoint;
mod collect;
mod config;
mod dag;
mod deadline;
mod detached;
mod error;
mod fork;
mod generation;
mod graph;
mod job;
mod join;
#[cfg(all(test, windlass_loom))]
mod models;
mod node;
mod panics;
mod parallel;
mod parker;
mod pending_search;
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
mod wait_table;
mod worker;

pub use checkpoint::{cancelled, checkpoint};
pub use config::SchedulerConfig;
pub use dag::{Dag, DagBuilder, DagError};
pub use deadline::{with_deadline, with_deadline_on};
pub use detached::JoinTask;
pub use error::{Cancelled, Panic, TaskError};
pub use graph::run_graph;
pub use join::join;
pub use parallel::{for_each, map, map_reduce};
pub use race::race;
pub use scheduler::Scheduler;
pub use scope::{Scope, with_scope};
pub use source::Source;
pub use stats::{SchedulerStats, WorkerStats};
pub use task::{Task, TaskState};
pub use trace::{TaskId, TraceEvent, TraceKind};

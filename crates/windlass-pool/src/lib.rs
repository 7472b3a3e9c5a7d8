//! A work-stealing CPU pool with structured concurrency, cancellation and deadlines.
//!
//! Tasks are spawned in a scope and cannot leave it; they may borrow from the enclosing frame. A
//! scope ends after all its tasks, even if it ends by a panic or a deadline. A cancel reaches all
//! descendants of the scope or task that is cancelled, and tasks see it where they check for it.
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
//! # Overview
//!
//! * [`Scheduler`]: the worker threads; [`Scheduler::global`] is shared by the whole process.
//! * [`with_scope`] and [`Scope`]: spawn and cancel tasks, open child scopes, register callbacks.
//! * [`Task`]: await a task, with or without a limit, cancel it, read its [`TaskState`].
//! * [`with_deadline`]: a scope with a deadline.
//! * [`join`], [`race`], [`map`], [`for_each`], [`map_reduce`]: parallel code without a scope.
//! * [`run_graph`]: runs a closure for each node of a [`Dag`], each node after its predecessors.
//! * [`cancelled`] and [`checkpoint`]: where a body checks for a cancel.
//! * [`Scheduler::spawn`] and [`JoinTask`]: detached tasks, as futures for async callers.
//! * [`SchedulerStats`] and [`TraceEvent`]: what the workers have done, and what they are doing.
//!
//! `docs/pool.md` in the repository is a guide, with a migration table for users of rayon.
//!
//! # Task lifecycle
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
//! A worker whose task awaits another task runs that task itself if no other worker has started it.
//! Otherwise it helps with tasks that have to end before its own task can, or sleeps. Awaits do not
//! deadlock, however tasks await each other and however few workers there are, with or without
//! stealing, unless the awaits themselves are circular.
//!
//! # Work stealing
//!
//! Workers maintain local queues and steal from others when idle. In outline, each worker does this:
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

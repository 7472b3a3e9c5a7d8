//! Trace events, for a hook that a caller installs.
//!
//! Without a hook, each event costs a branch. Knows nothing of what the hook does.

use std::{fmt, sync::Arc};

use crate::{node::TaskEnd, panics::quietly};

/// The id of a task in trace events. No two tasks have the same id at the same time.
///
/// ```
/// use windlass_pool::{TaskId, TraceKind};
///
/// fn started(kind: TraceKind) -> Option<TaskId> {
///     if let TraceKind::Started(task) = kind { Some(task) } else { None }
/// }
/// assert_eq!(started(TraceKind::Parked), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TaskId(pub(crate) usize);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// What happened.
///
/// ```
/// use windlass_pool::TraceKind;
///
/// fn is_about_a_worker(kind: TraceKind) -> bool {
///     matches!(kind, TraceKind::Stole { .. } | TraceKind::Parked | TraceKind::Woken)
/// }
/// assert!(is_about_a_worker(TraceKind::Stole { from: 1 }));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TraceKind {
    /// A task was spawned.
    Spawned(TaskId),
    /// A thread runs the task's body, or drops it because the task was cancelled.
    Started(TaskId),
    /// The task's body returned.
    Completed(TaskId),
    /// The task's body never started, or [`checkpoint`](crate::checkpoint) unwound it.
    Cancelled(TaskId),
    /// The task's body panicked.
    Panicked(TaskId),
    /// The worker stole tasks from another worker.
    Stole {
        /// The index of the other worker.
        from: usize,
    },
    /// The worker goes to sleep.
    Parked,
    /// The worker is awake again.
    Woken,
}

impl TraceKind {
    pub(crate) fn ended(task: TaskId, end: TaskEnd) -> Self {
        match end {
            TaskEnd::Completed => Self::Completed(task),
            TaskEnd::Cancelled => Self::Cancelled(task),
            TaskEnd::Panicked => Self::Panicked(task),
        }
    }
}

/// An event in a pool: what happened, and on which worker.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering::Relaxed}};
/// use windlass_pool::{Scheduler, SchedulerConfig, TraceKind, with_scope};
///
/// let started = Arc::new(AtomicUsize::new(0));
/// let count = Arc::clone(&started);
/// let scheduler = Scheduler::with_trace(SchedulerConfig::default(), move |event| {
///     if let TraceKind::Started(_) = event.kind {
///         count.fetch_add(1, Relaxed);
///     }
/// });
/// with_scope(&scheduler, |scope| {
///     scope.spawn(|| ());
///     scope.spawn(|| ());
/// });
/// assert_eq!(started.load(Relaxed), 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TraceEvent {
    /// The index of the worker; `None` for a thread outside the pool and for a spare worker.
    pub worker: Option<usize>,
    /// What happened.
    pub kind: TraceKind,
}

type Hook = Arc<dyn Fn(&TraceEvent) + Send + Sync>;

/// Calls the hook, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Tracer {
    hook: Option<Hook>,
}

impl Tracer {
    pub(crate) fn new(hook: impl Fn(&TraceEvent) + Send + Sync + 'static) -> Self {
        Self { hook: Some(Arc::new(hook)) }
    }

    #[inline]
    pub(crate) fn emit(
        &self,
        worker: impl FnOnce() -> Option<usize>,
        kind: impl FnOnce() -> TraceKind,
    ) {
        if let Some(hook) = &self.hook {
            call(hook, &TraceEvent { worker: worker(), kind: kind() });
        }
    }
}

/// Calls the hook. A panic goes no further: the tasks of a worker that ended in a hook would never complete.
#[cold]
fn call(hook: &Hook, event: &TraceEvent) {
    quietly(|| hook(event));
}

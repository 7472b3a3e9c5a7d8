//! What a pool tells a curious listener while it works.
//!
//! With no listener each event costs a branch. Knows nothing of where the events go.

use std::{fmt, panic, process, sync::Arc};

/// Which task an event is about; no two tasks that exist at the same time have the same one.
///
/// ```
/// use windlass_pool::{TaskId, TraceKind};
///
/// fn begun(kind: TraceKind) -> Option<TaskId> {
///     if let TraceKind::Started(task) = kind { Some(task) } else { None }
/// }
/// assert_eq!(begun(TraceKind::Parked), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TaskId(pub(crate) usize);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// What has just happened.
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
    /// Its body begins, or is dropped because the task was cancelled.
    Started(TaskId),
    /// Its body returned.
    Completed(TaskId),
    /// It never began, or was unwound by [`checkpoint`](crate::checkpoint).
    Cancelled(TaskId),
    /// Its body panicked.
    Panicked(TaskId),
    /// Tasks were taken from another worker's queue.
    Stole {
        /// The other worker.
        from: usize,
    },
    /// The worker goes to sleep.
    Parked,
    /// The worker is awake again.
    Woken,
}

/// Something that happened in a pool, and where.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicUsize, Ordering::Relaxed}};
/// use windlass_pool::{Scheduler, SchedulerConfig, TraceKind, with_scope};
///
/// let begun = Arc::new(AtomicUsize::new(0));
/// let count = Arc::clone(&begun);
/// let scheduler = Scheduler::with_trace(SchedulerConfig::default(), move |event| {
///     if let TraceKind::Started(_) = event.kind {
///         count.fetch_add(1, Relaxed);
///     }
/// });
/// with_scope(&scheduler, |scope| {
///     scope.spawn(|| ());
///     scope.spawn(|| ());
/// });
/// assert_eq!(begun.load(Relaxed), 2);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TraceEvent {
    /// The worker it happened on; `None` for a thread outside the pool or an extra worker.
    pub worker: Option<usize>,
    /// What happened.
    pub kind: TraceKind,
}

type Hook = Arc<dyn Fn(&TraceEvent) + Send + Sync>;

/// The listener, if there is one.
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

/// A worker that died in a listener would leave its tasks behind for ever; better to end here.
#[cold]
fn call(hook: &Hook, event: &TraceEvent) {
    if panic::catch_unwind(panic::AssertUnwindSafe(|| hook(event))).is_err() {
        process::abort();
    }
}

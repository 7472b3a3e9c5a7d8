//! Gates: conditions that a work waits for without a slot, besides its dependencies.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Notify;

use crate::context::WorkContext;
use crate::work::{Work, WorkOutcome, pass_hooks_on};

/// A condition that must hold before a work may start. The scheduler polls it once the dependencies of the work
/// have ended as required. The work holds no slot and no resource meanwhile.
///
/// ```
/// use windlass::works::Gate;
/// use windlass::{WorkScheduler, work_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass::SubmitError> {
/// let (approve, approved) = tokio::sync::oneshot::channel::<()>();
/// let mut scheduler = WorkScheduler::default();
/// let deploy = work_fn("deploy", |_| async { Ok(()) });
/// scheduler.submit(deploy.gate(async { approved.await.expect("a decision") }))?;
/// tokio::spawn(async { approve.send(()) });
/// scheduler.run_until_done().await;
/// # assert_eq!(scheduler.metrics().success, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "a gate does nothing until a work has it"]
pub struct Gate(BoxFuture<'static, ()>);

impl Gate {
    /// Creates a gate that opens when this future is ready.
    pub fn new<F>(opens: F) -> Self
    where
        F: IntoFuture<Output = (), IntoFuture: Send + 'static>,
    {
        Self(opens.into_future().boxed())
    }

    /// A gate that opens when both have opened.
    pub(crate) fn and(self, other: Gate) -> Self {
        Self::new(futures::future::join(self.0, other.0).map(|_| ()))
    }

    pub(crate) fn opened(self) -> impl Future<Output = ()> + Send + Unpin {
        self.0
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}

/// A work that starts once a condition holds. The condition is checked now and then while the work
/// waits, without a slot, and is dropped as soon as it holds.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use windlass::works::ConditionalWork;
/// use windlass::{WorkScheduler, WorkState};
/// # struct Publish;
/// # #[windlass::async_trait]
/// # impl windlass::Work for Publish {
/// #     async fn run(&mut self, _: windlass::WorkContext) -> windlass::WorkOutcome {
/// #         windlass::WorkOutcome::Success
/// #     }
/// # }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let synced = Arc::new(AtomicBool::new(false));
/// let condition = { let synced = synced.clone(); move || synced.load(Ordering::Acquire) };
/// let mut scheduler = WorkScheduler::default();
/// let publish = ConditionalWork::new(condition, Publish);
/// let id = scheduler.add_work(Box::new(publish), vec![], 0);
/// tokio::spawn(async move { synced.store(true, Ordering::Release) });
/// scheduler.run_until_done().await;
/// assert_eq!(scheduler.state(id), Some(WorkState::Success));
/// # }
/// ```
pub struct ConditionalWork<W> {
    condition: Option<Box<dyn FnMut() -> bool + Send>>,
    poll: Duration,
    notify: Option<Arc<Notify>>,
    work: W,
}

impl<W: Work> ConditionalWork<W> {
    /// Creates a work that runs `work` after `condition` has returned true.
    pub fn new(condition: impl FnMut() -> bool + Send + 'static, work: W) -> Self {
        let poll = Duration::from_millis(100);
        Self { condition: Some(Box::new(condition)), poll, notify: None, work }
    }

    /// Sets how often the condition is checked; by default, every 100 ms.
    #[must_use]
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// Sets a `Notify` that has the condition checked as well when it is notified.
    #[must_use]
    pub fn notify(mut self, notify: Arc<Notify>) -> Self {
        self.notify = Some(notify);
        self
    }

    /// Returns the work without its condition.
    pub fn into_inner(self) -> W {
        self.work
    }
}

impl<W: fmt::Debug> fmt::Debug for ConditionalWork<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ConditionalWork");
        shown.field("work", &self.work).field("poll", &self.poll).finish_non_exhaustive()
    }
}

#[async_trait]
impl<W: Work> Work for ConditionalWork<W> {
    fn name(&self) -> &str {
        self.work.name()
    }

    fn gate(&mut self) -> Option<Gate> {
        let (poll, notify) = (self.poll, self.notify.clone());
        let condition = self.condition.take().map(|condition| {
            Gate::new(async move { holds(condition, poll, notify.as_deref()).await })
        });
        match (condition, self.work.gate()) {
            (Some(own), Some(inner)) => Some(own.and(inner)),
            (own, inner) => own.or(inner),
        }
    }

    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        self.work.run(ctx).await
    }

    pass_hooks_on!(this => this.work);
}

async fn holds(
    mut condition: Box<dyn FnMut() -> bool + Send>,
    poll: Duration,
    notify: Option<&Notify>,
) {
    loop {
        // Registered before the condition is checked, so that no notification in between is lost.
        let notified = notify.map(Notify::notified);
        if condition() {
            return;
        }
        let notified = async {
            match notified {
                Some(notified) => notified.await,
                None => std::future::pending().await,
            }
        };
        // Whichever comes first; a check too many does no harm.
        let _ = tokio::time::timeout(poll, notified).await;
    }
}

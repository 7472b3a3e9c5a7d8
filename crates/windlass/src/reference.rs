//! A work that was spawned, as a future of its output.

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::Shared;
use thiserror::Error;
use tokio::sync::oneshot;
use windlass_core::WorkState;

use crate::context::Cancelled;
use crate::entry::{Cause, Origin};
use crate::error::SharedError;
use crate::id::WorkId;
use crate::idle::expect_run;
use crate::output::Output;
use crate::shared;
use crate::spec::{Dependency, SubmitError};
use crate::work_name::WorkName;

/// A spawned work. Later works can follow it and have its value; awaited, it is that value.
///
/// ```
/// use windlass::{WorkScheduler, WorkState, work_after, work_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scheduler = WorkScheduler::default();
/// let text = scheduler.spawn(work_fn("read", |_ctx| async { Ok("8o8o".to_owned()) }))?;
/// let number = work_after("parse", &text, |_ctx, text| async move { Ok(text.parse::<u16>()?) });
/// let number = scheduler.spawn(number)?;
/// scheduler.run_until_done().await;
///
/// assert_eq!(*text.await?, "8o8o");
/// let failure = number.await.expect_err("these are no digits");
/// assert_eq!(failure.state, WorkState::Failed);
/// assert!(failure.to_string().starts_with("work \"parse\" failed: invalid digit"));
/// # Ok(())
/// # }
/// ```
///
/// It is ready when the work has ended, with the value or with how it ended, and may be awaited again. The
/// work ends only while its scheduler runs: if no run begins within a second, a `tracing` warning says so
/// once. If the work was [reopened](crate::WorkHandle::reopen) by the time it is awaited, it is ready when
/// the work has ended again. Dropping it does not cancel the work.
pub struct WorkRef<T> {
    id: WorkId,
    name: Arc<str>,
    output: Output<T>,
    ends: Arc<Ends>,
    /// The end that it waits for, once it does.
    awaited: Option<NextEnd>,
}

/// The next end of a work, or its last one.
pub(crate) struct Ends {
    next: Mutex<NextEnd>,
    scheduler: Weak<shared::Shared>,
}

pub(crate) type NextEnd = Shared<oneshot::Receiver<End>>;

/// Sends the end of a work to its waiters, every time that it ends.
pub(crate) struct EndTeller {
    /// None from an end on until the work is tried again.
    tell: Option<oneshot::Sender<End>>,
    ends: Weak<Ends>,
}

/// How a work ended, for its waiters.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) state: WorkState,
    pub(crate) skipped: bool,
    error: Option<String>,
    source: Option<SharedError>,
    origin: Option<Arc<Origin>>,
}

/// How a work ended that did not succeed.
///
/// Its [source](std::error::Error::source) is the error that the closure returned, or the closure of the
/// descendant that failed:
///
/// ```
/// use std::error::Error;
/// use std::num::ParseIntError;
/// use windlass::{WorkScheduler, work_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scheduler = WorkScheduler::default();
/// let port = scheduler.spawn(work_fn("port", |_ctx| async { Ok("8o8o".parse::<u16>()?) }))?;
/// scheduler.run_until_done().await;
/// let failure = port.await.expect_err("these are no digits");
/// let error = failure.source().expect("the closure returned an error");
/// assert!(error.is::<ParseIntError>());
/// # Ok(())
/// # }
/// ```
///
/// There is no source if no closure returned an error: the body panicked, took too long, was blocked or
/// cancelled, or is a [`Work`](crate::Work) that returned a text. An error with more than 64 causes is kept as
/// text only.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkFailure {
    /// The work.
    pub id: WorkId,
    /// Its name.
    pub name: WorkName,
    /// How it ended. `Success` if it was not needed and so never ran.
    pub state: WorkState,
    /// What is known about the reason.
    pub error: Option<String>,
    source: Option<SharedError>,
    /// The failure of another work that has caused it.
    origin: Option<Arc<Origin>>,
}

/// The error of [`WorkRef::take`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TakeError {
    /// The work did not succeed.
    #[error(transparent)]
    Failed(#[from] WorkFailure),
    /// Another reference to the work, a later work that takes its value, or a caller with an [`Arc`] of the
    /// value is left.
    #[error(
        "the value of work {name:?} is shared, so it cannot be taken: await the reference instead"
    )]
    Shared {
        /// The name of the work.
        name: WorkName,
    },
}

/// The error of [`WorkHandle::execute`](crate::WorkHandle::execute), which has an example.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The work was not accepted.
    #[error(transparent)]
    Refused(#[from] SubmitError),
    /// It did not succeed.
    #[error(transparent)]
    Failed(#[from] WorkFailure),
    /// The attempt that waits for it was asked to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl Ends {
    fn next(&self) -> NextEnd {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn expect(&self, end: oneshot::Receiver<End>) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = end.shared();
    }
}

impl EndTeller {
    pub(crate) fn new(scheduler: Weak<shared::Shared>) -> (Self, Arc<Ends>) {
        let (tell, end) = oneshot::channel();
        let ends = Arc::new(Ends { next: Mutex::new(end.shared()), scheduler });
        (Self { tell: Some(tell), ends: Arc::downgrade(&ends) }, ends)
    }

    /// Returns the channel to the waiters, for the end of the work.
    pub(crate) fn take(&mut self) -> Option<oneshot::Sender<End>> {
        self.tell.take()
    }

    /// The work is tried again: if it had ended, a caller that awaits it from now on waits for its next end.
    pub(crate) fn expect_another_end(&mut self) {
        if self.tell.is_none()
            && let Some(ends) = self.ends.upgrade()
        {
            let (tell, end) = oneshot::channel();
            ends.expect(end);
            self.tell = Some(tell);
        }
    }
}

impl End {
    pub(crate) fn new(state: WorkState, skipped: bool, cause: Option<&Cause>) -> Self {
        let error = cause.map(|cause| cause.text.clone());
        let source = cause.and_then(|cause| cause.source.clone());
        let origin = cause.and_then(|cause| cause.origin.clone());
        Self { state, skipped, error, source, origin }
    }
}

impl WorkFailure {
    pub(crate) fn new(id: WorkId, name: WorkName, state: WorkState, cause: Option<&Cause>) -> Self {
        let End { state, error, source, origin, .. } = End::new(state, false, cause);
        Self { id, name, state, error, source, origin }
    }

    /// Returns the failure with which this one began: of another work, or this one itself.
    pub(crate) fn to_origin(&self) -> Arc<Origin> {
        self.origin.clone().unwrap_or_else(|| {
            let work = Arc::from(self.name.as_str());
            Arc::new(Origin { work, what: self.what(), source: self.source.clone() })
        })
    }

    /// Names the work and the origin of its failure.
    pub(crate) fn fmt_briefly(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.origin {
            Some(origin) => write!(f, "work {:?} {}: {origin}", self.name, self.how()),
            None => fmt::Display::fmt(self, f),
        }
    }

    fn how(&self) -> &'static str {
        match self.state {
            WorkState::Success => "was not needed",
            WorkState::Blocked => "was blocked",
            WorkState::Cancelled => "was cancelled",
            _ => "failed",
        }
    }

    fn what(&self) -> String {
        let reason = self.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        format!("{}{reason}", self.how())
    }
}

impl fmt::Display for WorkFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "work {:?} {}", self.name, self.what())
    }
}

impl StdError for WorkFailure {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(SharedError::as_dyn)
    }
}

impl PartialEq for WorkFailure {
    /// Compares everything but the source and the origin, whose texts are part of `error`.
    fn eq(&self, other: &Self) -> bool {
        let Self { id, name, state, error, source: _, origin: _ } = self;
        (id, name, state, error) == (&other.id, &other.name, &other.state, &other.error)
    }
}

impl Eq for WorkFailure {}

impl<T> WorkRef<T> {
    pub(crate) fn new(id: WorkId, name: Arc<str>, output: Output<T>, ends: Arc<Ends>) -> Self {
        Self { id, name, output, ends, awaited: None }
    }

    /// Returns the id of the work.
    #[must_use]
    pub fn id(&self) -> WorkId {
        self.id
    }

    /// Returns the name of the work.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its value; none before it has succeeded, unless the value is always `()`. For later works.
    #[must_use]
    pub fn value(&self) -> Option<Arc<T>> {
        self.output.value()
    }

    /// Waits for the end of the work and returns its value itself, not a shared one.
    ///
    /// This needs the only reference to the work. A later work that takes the value is another reference
    /// until it is [forgotten](crate::WorkHandle::forget).
    ///
    /// ```
    /// use windlass::{WorkScheduler, work_fn};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut scheduler = WorkScheduler::default();
    /// let bytes = scheduler.spawn(work_fn("read", |_ctx| async { Ok(vec![1_u8, 2, 3]) }))?;
    /// scheduler.run_until_done().await;
    /// let bytes: Vec<u8> = bytes.take().await?;
    /// assert_eq!(bytes, [1, 2, 3]);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take(mut self) -> Result<T, TakeError> {
        drop((&mut self).await?);
        let Self { name, output, .. } = self;
        output.into_value().ok_or(TakeError::Shared { name: name.into() })
    }

    fn result(&self, end: Option<End>) -> Result<Arc<T>, WorkFailure> {
        let gone = || End::new(WorkState::Cancelled, false, None);
        let End { state, skipped, error, source, origin } = end.unwrap_or_else(gone);
        let went_well = state.is_success() && !skipped;
        let value = went_well.then(|| self.output.value()).flatten();
        value.ok_or_else(|| WorkFailure {
            id: self.id,
            name: self.name.clone().into(),
            state,
            error,
            source,
            origin,
        })
    }
}

impl<T> Future for WorkRef<T> {
    type Output = Result<Arc<T>, WorkFailure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { name, ends, awaited, .. } = &mut *self;
        let is_first = awaited.is_none();
        let end = awaited.get_or_insert_with(|| ends.next());
        let polled = end.poll_unpin(cx);
        if is_first
            && polled.is_pending()
            && let Some(scheduler) = ends.scheduler.upgrade()
        {
            expect_run(&scheduler, name, end);
        }
        let end = ready!(polled);
        self.awaited = None;
        // A scheduler that is gone ends nothing any more.
        Poll::Ready(self.result(end.ok()))
    }
}

impl<T> Clone for WorkRef<T> {
    fn clone(&self) -> Self {
        let Self { id, name, output, ends, .. } = self;
        Self::new(*id, name.clone(), output.clone(), ends.clone())
    }
}

impl<T> fmt::Debug for WorkRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkRef").field("id", &self.id).field("name", &self.name).finish()
    }
}

impl<T> From<&WorkRef<T>> for WorkId {
    fn from(work: &WorkRef<T>) -> Self {
        work.id
    }
}

impl<T> From<&WorkRef<T>> for Dependency {
    /// The work has to succeed.
    fn from(work: &WorkRef<T>) -> Self {
        work.id.into()
    }
}

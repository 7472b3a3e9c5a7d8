//! A work that was spawned, as the promise of what it brings.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::Shared;
use thiserror::Error;
use tokio::sync::oneshot;
use windlass_core::{Dependency, WorkId, WorkState};

use crate::context::Cancelled;
use crate::spec::{Brings, SubmitError};

/// A spawned work. Later works can follow it and have its value; awaited, it is that value.
///
/// ```
/// use windlass::{WorkScheduler, WorkSchedulerConfig, WorkState, work_after, work_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut scheduler = WorkScheduler::new(WorkSchedulerConfig::default());
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
/// It is ready when the work has ended for the first time, with the value or with how it ended. If the work was
/// [reopened](crate::WorkHandle::reopen) and has brought its value by the time it is awaited, it is that value.
/// Dropping it does not cancel the work.
pub struct WorkRef<T> {
    id: WorkId,
    name: Arc<str>,
    brings: Brings<T>,
    end: Shared<oneshot::Receiver<End>>,
}

/// How a work ended, for those who wait for it.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) state: WorkState,
    pub(crate) skipped: bool,
    pub(crate) error: Option<String>,
}

/// Why a [`WorkRef`] brings nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("work {name:?} {}", self.what())]
#[non_exhaustive]
pub struct WorkFailure {
    /// The work.
    pub id: WorkId,
    /// Its name.
    pub name: Arc<str>,
    /// How it ended. `Success` if it was not needed and so never ran.
    pub state: WorkState,
    /// What is known about the reason.
    pub error: Option<String>,
}

/// Why [`WorkHandle::execute`](crate::WorkHandle::execute), which has an example, brings nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// The work was not taken in.
    #[error(transparent)]
    Refused(#[from] SubmitError),
    /// It did not succeed.
    #[error(transparent)]
    Failed(#[from] WorkFailure),
    /// Whoever waits for it was asked to stop.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
}

impl WorkFailure {
    fn what(&self) -> String {
        let what = match self.state {
            WorkState::Success => "was not needed",
            WorkState::Blocked => "was blocked",
            WorkState::Cancelled => "was cancelled",
            _ => "failed",
        };
        let reason = self.error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
        format!("{what}{reason}")
    }
}

impl<T> WorkRef<T> {
    pub(crate) fn new(
        id: WorkId,
        name: Arc<str>,
        brings: Brings<T>,
        end: oneshot::Receiver<End>,
    ) -> Self {
        Self { id, name, brings, end: end.shared() }
    }

    /// The work.
    #[must_use]
    pub fn id(&self) -> WorkId {
        self.id
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it brought; none before it has succeeded. For works that come after it.
    #[must_use]
    pub fn value(&self) -> Option<Arc<T>> {
        self.brings.value()
    }

    fn brought(&self, end: Option<End>) -> Result<Arc<T>, WorkFailure> {
        let gone = || End { state: WorkState::Cancelled, skipped: false, error: None };
        let End { state, skipped, error } = end.unwrap_or_else(gone);
        let value = self.brings.value_after(state.is_success() && !skipped);
        value.ok_or_else(|| WorkFailure { id: self.id, name: self.name.clone(), state, error })
    }
}

impl<T> Future for WorkRef<T> {
    type Output = Result<Arc<T>, WorkFailure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // A scheduler that is gone ends nothing any more.
        self.end.poll_unpin(cx).map(|end| self.brought(end.ok()))
    }
}

impl<T> Clone for WorkRef<T> {
    fn clone(&self) -> Self {
        let Self { id, name, brings, end } = self;
        Self { id: *id, name: name.clone(), brings: brings.clone(), end: end.clone() }
    }
}

impl<T> fmt::Debug for WorkRef<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkRef").field("id", &self.id).field("name", &self.name).finish()
    }
}

impl<T> From<&WorkRef<T>> for Dependency {
    /// The work has to succeed.
    fn from(work: &WorkRef<T>) -> Self {
        work.id.into()
    }
}

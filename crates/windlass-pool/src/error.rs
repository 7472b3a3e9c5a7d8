//! Why a task has no value.

use std::{
    any::Any,
    borrow::Cow,
    fmt, panic,
    sync::{Mutex, PoisonError},
};

use thiserror::Error;

/// The error of an operation that was cancelled. Bodies can return it to end early.
///
/// ```
/// use windlass_pool::{Cancelled, cancelled};
///
/// fn step() -> Result<u32, Cancelled> {
///     if cancelled() { Err(Cancelled) } else { Ok(1) }
/// }
/// assert_eq!(step(), Ok(1)); // outside a scope, nothing is cancelled
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Error)]
#[error("cancelled")]
pub struct Cancelled;

/// Why a task has no value.
///
/// ```
/// use windlass_pool::{Scheduler, TaskError, with_scope};
///
/// let scheduler = Scheduler::new(1);
/// let error = with_scope(&scheduler, |scope| {
///     scope.cancel();
///     scope.spawn(|| 1).await_result().unwrap_err()
/// });
/// assert!(matches!(error, TaskError::Cancelled));
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The body never started, or [`checkpoint`](crate::checkpoint) unwound it.
    #[error("the task was cancelled")]
    Cancelled,
    /// The body panicked. The error holds the panic, which is not raised anywhere else.
    #[error("the task panicked: {0}")]
    Panicked(Panic),
}

/// A panic that a task raised, for the caller that awaited the task.
///
/// ```
/// use windlass_pool::{Scheduler, TaskError, with_scope};
///
/// let scheduler = Scheduler::new(1);
/// let outcome = with_scope(&scheduler, |scope| {
///     scope.spawn(|| -> u32 { panic!("no more ink") }).await_result()
/// });
/// match outcome {
///     Err(TaskError::Panicked(panic)) => assert_eq!(panic.message(), Some("no more ink")),
///     other => unreachable!("{other:?}"),
/// }
/// ```
pub struct Panic {
    message: Option<Cow<'static, str>>,
    /// Never locked. The mutex makes the error `Sync`, which the payload may not be.
    payload: Mutex<Box<dyn Any + Send>>,
}

impl Panic {
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        let text = payload.downcast_ref::<&'static str>().map(|text| Cow::Borrowed(*text));
        let message = text.or_else(|| payload.downcast_ref::<String>().cloned().map(Cow::Owned));
        Self { message, payload: Mutex::new(payload) }
    }

    /// Returns the message, if the panic was raised with one.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Returns the value with which the panic was raised.
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Continues the panic on the calling thread.
    pub fn resume(self) -> ! {
        panic::resume_unwind(self.into_payload())
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message().unwrap_or("(no message)"))
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.message().unwrap_or("(no message)")).finish()
    }
}

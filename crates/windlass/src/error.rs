//! The error of a closure: any error, and whether a retry makes sense.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use crate::context::WorkContext;
use crate::entry::Origin;
use crate::reference::{ExecuteError, TakeError, WorkFailure};
use crate::work::WorkOutcome;

/// The error with which an attempt of a closure fails.
///
/// `?` converts everything that converts into a boxed error: the errors of the standard library and of
/// other crates, `Box<dyn Error + Send + Sync>`, `anyhow::Error`, `String` and `&str`. The scheduler retries the
/// work if it has retries left; [`Fatal`] prevents that.
///
/// ```
/// use windlass::{Fatal, WorkError};
///
/// fn port(text: &str) -> Result<u16, WorkError> {
///     let port = text.parse()?;
///     if port == 0 {
///         return Err("port 0 is reserved".into());
///     }
///     Ok(port)
/// }
///
/// assert_eq!(port("0").unwrap_err().to_string(), "port 0 is reserved");
/// assert_eq!(port("x").unwrap_err().to_string(), "invalid digit found in string");
/// let fatal: WorkError = Fatal("wrong password").into();
/// assert!(fatal.is_fatal());
/// ```
///
/// It does not implement [`Error`] itself, which is what makes these conversions possible.
pub struct WorkError {
    error: Box<dyn Error + Send + Sync>,
    fatal: bool,
}

/// An error after which the work is not retried, also if it has retries left. It becomes a
/// [`WorkError`] by `?` or `into`.
///
/// ```
/// use windlass::{Fatal, WorkError};
///
/// fn login(password: &str) -> Result<(), WorkError> {
///     if password != "open sesame" {
///         Err(Fatal("wrong password"))?;
///     }
///     Ok(())
/// }
/// assert!(login("please").unwrap_err().is_fatal());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fatal<E>(pub E);

impl WorkError {
    /// Returns an error that consists of a text.
    pub fn msg(text: impl Into<String>) -> Self {
        Self { error: text.into().into(), fatal: false }
    }

    /// Returns whether the error is final, so that the work is not retried.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.fatal
    }

    /// Returns the outcome of an attempt that failed with this error.
    pub(crate) fn into_outcome(self, ctx: &WorkContext) -> WorkOutcome {
        let (text, fatal) = (self.to_string(), self.fatal);
        let origin = self.failure().map(WorkFailure::to_origin);
        let source = SharedError::new(self.error);
        if source.is_some() || origin.is_some() {
            ctx.inner.keep_error(KeptError { text: text.clone(), source, origin });
        }
        if fatal {
            return WorkOutcome::Failed(text);
        }
        ctx.explain_retry(text);
        WorkOutcome::Retry { delay: std::time::Duration::ZERO }
    }
}

impl WorkError {
    /// Returns the failure of another work that is the error or one of its causes.
    fn failure(&self) -> Option<&WorkFailure> {
        let first: &(dyn Error + 'static) = &*self.error;
        std::iter::successors(Some(first), |&error| error.source()).find_map(as_failure)
    }
}

/// An error that a closure returned, until its attempt ends.
pub(crate) struct KeptError {
    pub(crate) text: String,
    /// None if its chain of causes is too long.
    pub(crate) source: Option<SharedError>,
    /// The failure of another work that has caused it.
    pub(crate) origin: Option<Arc<Origin>>,
}

/// An error that a closure returned, for everything that describes the failure of its work. It is the user's
/// value, so its last clone must not be dropped under a lock.
#[derive(Clone)]
pub(crate) struct SharedError(Arc<dyn Error + Send + Sync>);

/// How many causes an error may have to be kept. Works that wait for works make long chains, and dropping a
/// chain takes stack for each of its errors.
const MOST_CAUSES: usize = 64;

impl SharedError {
    /// Returns none for an error with too long a chain of causes: only its text is kept.
    fn new(error: Box<dyn Error + Send + Sync>) -> Option<Self> {
        let first: &(dyn Error + 'static) = &*error;
        let causes = std::iter::successors(first.source(), |&cause| cause.source());
        let is_short = causes.take(MOST_CAUSES + 1).count() <= MOST_CAUSES;
        is_short.then(|| Self(error.into()))
    }

    pub(crate) fn as_dyn(&self) -> &(dyn Error + 'static) {
        &*self.0
    }
}

impl fmt::Debug for SharedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// Returns the failure of a work that this error is.
fn as_failure<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a WorkFailure> {
    let executed = || match error.downcast_ref()? {
        ExecuteError::Failed(failure) => Some(failure),
        _ => None,
    };
    let taken = || match error.downcast_ref()? {
        TakeError::Failed(failure) => Some(failure),
        _ => None,
    };
    error.downcast_ref().or_else(executed).or_else(taken)
}

/// Returns whether the text of an error contains the text of its cause.
fn tells_its_cause(error: &(dyn Error + 'static)) -> bool {
    error.is::<WorkFailure>() || error.is::<ExecuteError>() || error.is::<TakeError>()
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for WorkError {
    fn from(error: E) -> Self {
        Self { error: error.into(), fatal: false }
    }
}

impl<E: Into<WorkError>> From<Fatal<E>> for WorkError {
    fn from(Fatal(error): Fatal<E>) -> Self {
        Self { fatal: true, ..error.into() }
    }
}

impl fmt::Display for WorkError {
    /// The error and its causes. Of the failures of other works, those between the first one and its origin
    /// are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut latest: &(dyn Error + 'static) = &*self.error;
        loop {
            match as_failure(latest) {
                Some(failure) => failure.fmt_briefly(f)?,
                None => write!(f, "{latest}")?,
            }
            match latest.source() {
                Some(cause) if !tells_its_cause(latest) => latest = cause,
                _ => return Ok(()),
            }
            f.write_str(": ")?;
        }
    }
}

impl fmt::Debug for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

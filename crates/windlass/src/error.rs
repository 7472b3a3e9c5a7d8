//! The error of a closure: any error, and whether a retry makes sense.

use std::error::Error;
use std::fmt;

use crate::context::WorkContext;
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

/// An error after which the work is not retried, whatever retries it has left. It becomes a
/// [`WorkError`] by `?` or `into`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fatal<E>(pub E);

impl WorkError {
    /// Returns an error that consists of a text.
    pub fn msg(text: impl Into<String>) -> Self {
        Self { error: text.into().into(), fatal: false }
    }

    /// Whether the work is not to be retried.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.fatal
    }

    /// Returns the outcome of an attempt that failed with this error.
    pub(crate) fn into_outcome(self, ctx: &WorkContext) -> WorkOutcome {
        if self.fatal {
            return WorkOutcome::Failed(self.to_string());
        }
        ctx.explain_retry(self.to_string());
        WorkOutcome::Retry { delay: std::time::Duration::ZERO }
    }
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
    /// The error and its causes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        let mut source = self.error.source();
        while let Some(cause) = source {
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

impl fmt::Debug for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

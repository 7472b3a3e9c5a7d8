//! What goes wrong in a closure: any error, and whether trying again may help.

use std::error::Error;
use std::fmt;

use crate::context::WorkContext;
use crate::work::WorkOutcome;

/// Why an attempt of a closure failed. It comes from any error by `?`, or from a text.
///
/// The work is tried again if it has retries left; [`Fatal`] says that there is no point.
///
/// ```
/// use windlass::{Fatal, WorkError};
///
/// fn port(text: &str) -> Result<u16, WorkError> {
///     let port = text.parse()?;
///     if port == 0 {
///         return Err(WorkError::msg("port 0 is nobody's"));
///     }
///     Ok(port)
/// }
///
/// assert_eq!(port("0").unwrap_err().to_string(), "port 0 is nobody's");
/// assert_eq!(port("x").unwrap_err().to_string(), "invalid digit found in string");
/// let hopeless: WorkError = Fatal(port("x").unwrap_err()).into();
/// assert!(hopeless.is_fatal());
/// ```
pub struct WorkError {
    error: Box<dyn Error + Send + Sync>,
    fatal: bool,
}

/// An error after which the work is not tried again, whatever retries it has left. It becomes a
/// [`WorkError`] by `?` or `into`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fatal<E>(pub E);

impl WorkError {
    /// An error that is nothing but a text.
    pub fn msg(text: impl Into<String>) -> Self {
        Self { error: text.into().into(), fatal: false }
    }

    /// An error in a box, or one that goes into a box as anyhow's does. Those are no [`Error`]s
    /// themselves, so `?` alone does not take them.
    ///
    /// ```
    /// use windlass::{WorkError, work_fn};
    ///
    /// async fn fetch() -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    ///     Ok("42".parse()?)
    /// }
    ///
    /// let work = work_fn("fetch", |_| async { Ok(fetch().await.map_err(WorkError::boxed)?) });
    /// # drop(work);
    /// ```
    pub fn boxed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), fatal: false }
    }

    /// Whether trying again is of no use.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.fatal
    }

    /// What an attempt answers that failed like this.
    pub(crate) fn into_outcome(self, ctx: &WorkContext) -> WorkOutcome {
        if self.fatal {
            return WorkOutcome::Failed(self.to_string());
        }
        ctx.explain_retry(self.to_string());
        WorkOutcome::Retry { delay: std::time::Duration::ZERO }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for WorkError {
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

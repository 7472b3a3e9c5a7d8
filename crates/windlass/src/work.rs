//! What a user writes: a work, and what one attempt of it sees and answers.

use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use windlass_core::WorkId;

/// Something to be done, perhaps in several attempts.
///
/// ```
/// use std::time::Duration;
/// use windlass::{Work, WorkContext, WorkOutcome};
///
/// struct Flaky;
///
/// #[windlass::async_trait]
/// impl Work for Flaky {
///     async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
///         if ctx.attempt < 3 {
///             return WorkOutcome::Retry { delay: Duration::from_millis(10) };
///         }
///         WorkOutcome::Success
///     }
/// }
///
/// assert_eq!(Flaky.name(), "Flaky");
/// ```
#[async_trait]
pub trait Work: Send {
    /// What people call it; the type's name unless said otherwise.
    fn name(&self) -> &str {
        let path = std::any::type_name::<Self>();
        let base = path.split('<').next().unwrap_or(path);
        base.rsplit("::").next().unwrap_or(base)
    }

    /// Makes one attempt. What `self` remembers is there again at the next one.
    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome;
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkOutcome {
    /// Well: what depends on it may run.
    Success,
    /// Not yet: try again after `delay`, or after the scheduler's own delay if it is zero. Without
    /// retries left this is a failure.
    Retry {
        /// How long to wait first.
        delay: Duration,
    },
    /// Badly, whatever retries are left: what depends on it is blocked.
    Failed(String),
    /// It stopped because it was asked to.
    Cancelled,
}

/// What an attempt knows about itself.
#[derive(Clone, Debug)]
pub struct WorkContext {
    /// The work.
    pub id: WorkId,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    pub(crate) cancel_token: CancellationToken,
}

impl WorkContext {
    /// Whether this attempt has been asked to stop.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel_token.is_cancelled()
    }

    /// The token that asks this attempt to stop.
    #[must_use]
    pub fn cancel_token(&self) -> &CancellationToken {
        &self.cancel_token
    }
}

//! What a user writes: a work, and how one attempt of it ended.

use std::any::Any;
use std::time::Duration;

use async_trait::async_trait;

use crate::context::WorkContext;
use crate::gate::Gate;

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
///
/// A work is one value through all its attempts, so it can keep state between them.
/// Works run as Tokio tasks, on any thread; what they share needs an `Arc` and a lock, or a channel.
/// For a closure there is [`work_fn`](crate::work_fn); for what computes rather than waits,
/// [`work_cpu`](crate::work_cpu).
///
/// The scheduler calls the hooks one at a time: `on_reset` before every attempt, and after it the hook for
/// the outcome. Dependent works and waiters learn of the end after the hook has returned. A panic in a hook
/// counts as a panic of the work.
#[async_trait]
pub trait Work: Any + Send {
    /// Returns the name of the work; by default, that of its type.
    fn name(&self) -> &str {
        last_segment(std::any::type_name::<Self>())
    }

    /// Makes one attempt. What `self` remembers is there again at the next one.
    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome;

    /// Returns what has to happen before the first attempt, besides the ends of its dependencies. Called once,
    /// when the work is submitted.
    fn gate(&mut self) -> Option<Gate> {
        None
    }

    /// An attempt is about to begin.
    fn on_reset(&mut self) {}

    /// The work has succeeded, and its children with it.
    fn on_success(&mut self) {}

    /// The attempt failed, and there will be another.
    fn on_failure_retry(&mut self) {}

    /// The work has failed for good.
    fn on_failure_raise(&mut self) {}

    /// The work was cancelled while an attempt was under way.
    fn on_abort(&mut self) {}
}

/// Returns the last segment of a type's path, without its parameters.
fn last_segment(path: &str) -> &str {
    let base = if path.ends_with('>') { path.split('<').next().unwrap_or(path) } else { path };
    let colon = base.bytes().rposition(|byte| byte == b':');
    &base[colon.map_or(0, |colon| colon + 1)..]
}

/// The hooks of a work that wraps another one: `pass_hooks_on!(this => this.inner)`.
macro_rules! pass_hooks_on {
    ($($hook:ident)* @ $this:ident => $inner:expr) => {
        $(fn $hook(&mut self) {
            let $this = self;
            $inner.$hook();
        })*
    };
    ($this:ident => $inner:expr) => {
        $crate::work::pass_hooks_on! {
            on_reset on_success on_failure_retry on_failure_raise on_abort @ $this => $inner
        }
    };
}
pub(crate) use pass_hooks_on;

#[async_trait]
impl<W: Work + ?Sized> Work for Box<W> {
    fn name(&self) -> &str {
        (**self).name()
    }

    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        (**self).run(ctx).await
    }

    fn gate(&mut self) -> Option<Gate> {
        (**self).gate()
    }

    pass_hooks_on!(this => (**this));
}

/// How an attempt ended.
///
/// ```
/// use std::time::Duration;
/// use windlass::{Work, WorkContext, WorkOutcome};
///
/// struct BackoffWork {
///     base_delay: Duration,
/// }
/// # impl BackoffWork {
/// #     async fn try_operation(&mut self) -> Result<(), std::io::Error> {
/// #         Err(std::io::Error::other("not yet"))
/// #     }
/// # }
///
/// #[windlass::async_trait]
/// impl Work for BackoffWork {
///     async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
///         match self.try_operation().await {
///             Ok(_) => WorkOutcome::Success,
///             Err(_) => {
///                 // Exponential backoff: 1s, 2s, 4s, 8s...
///                 let delay = self.base_delay * 2u32.pow(ctx.attempt - 1);
///                 WorkOutcome::Retry { delay }
///             }
///         }
///     }
/// }
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// # let mut scheduler = windlass::WorkScheduler::new(Default::default());
/// # let start = tokio::time::Instant::now();
/// # scheduler.add_work(Box::new(BackoffWork { base_delay: Duration::from_secs(1) }), vec![], 4);
/// # scheduler.run_until_done().await;
/// # assert_eq!(start.elapsed(), Duration::from_secs(1 + 2 + 4 + 8));
/// # }
/// ```
///
/// A [`RetryPolicy`](crate::RetryPolicy) does the same without arithmetic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkOutcome {
    /// The attempt succeeded: works that depend on it may run.
    Success,
    /// The attempt is to be repeated after `delay`, or as the work's policy or the scheduler says if that is
    /// zero. Without retries left this is a failure.
    Retry {
        /// How long to wait first.
        delay: Duration,
    },
    /// The work failed, also with retries left: works that depend on it are blocked.
    Failed(String),
    /// The attempt stopped because it was asked to.
    Cancelled,
}

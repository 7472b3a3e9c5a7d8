//! A work made of many like it, a few at a time.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::context::WorkContext;
use crate::spec::WorkSpec;
use crate::work::{Work, WorkOutcome};

type Specs = Box<dyn Iterator<Item = WorkSpec> + Send>;

/// A work whose children come from an iterator, lazily: never more than `width` of them are alive, and
/// those that have ended are freed. Any failure fails the batch, after the rest was cancelled. A
/// retry starts the iterator anew. An empty batch succeeds.
///
/// ```
/// use windlass::works::BatchWork;
/// use windlass::{WorkScheduler, WorkSpec, WorkState, work_fn};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass::SubmitError> {
/// let mut scheduler = WorkScheduler::default();
/// let checkpoints = || (0..1000).map(|n| work_fn(format!("checkpoint {n}"), |_| async { Ok(()) }));
/// let batch = scheduler.submit(WorkSpec::new(BatchWork::new("download", 16, checkpoints)))?;
/// scheduler.run_until_done().await;
/// assert_eq!(scheduler.state(batch), Some(WorkState::Success));
/// # Ok(())
/// # }
/// ```
pub struct BatchWork {
    name: String,
    width: usize,
    children: Arc<dyn Fn() -> Specs + Send + Sync>,
}

impl BatchWork {
    /// Creates a batch that runs what `children` yields, at most `width` children at a time.
    ///
    /// # Panics
    ///
    /// If `width` is 0: nothing could ever run.
    pub fn new<F, I>(name: impl Into<String>, width: usize, children: F) -> Self
    where
        F: Fn() -> I + Send + Sync + 'static,
        I: IntoIterator<Item = WorkSpec, IntoIter: Send + 'static>,
    {
        assert!(width > 0, "a batch of width 0 could never run anything: set it to at least 1");
        let children = move || Box::new(children().into_iter()) as Specs;
        Self { name: name.into(), width, children: Arc::new(children) }
    }
}

impl fmt::Debug for BatchWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("BatchWork");
        shown.field("name", &self.name).field("width", &self.width).finish_non_exhaustive()
    }
}

#[async_trait]
impl Work for BatchWork {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        let specs = (self.children)();
        match ctx.suspend(feed(&ctx, specs, self.width)).await {
            Ok(outcome) => outcome,
            Err(_) => WorkOutcome::Cancelled,
        }
    }
}

/// Adds one child for each that ends, until there are no more, or one has failed.
async fn feed(ctx: &WorkContext, specs: Specs, width: usize) -> WorkOutcome {
    let mut specs = specs.fuse();
    loop {
        let children = ctx.children();
        if children.open() >= width {
            ctx.reap_child().await;
            continue;
        }
        let next = if children.failed == 0 { specs.next() } else { None };
        match next {
            Some(spec) => match ctx.add_child(spec) {
                Err(refused) if ctx.children().failed == 0 => {
                    return WorkOutcome::Failed(format!("a child was refused: {refused}"));
                }
                // A child may have failed just now.
                _ => {}
            },
            None if children.open() == 0 => return WorkOutcome::Success,
            None => ctx.reap_child().await,
        }
    }
}

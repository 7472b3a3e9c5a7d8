//! Works one after the other.

use crate::handle::WorkHandle;
use crate::id::WorkId;
use crate::work::Work;

/// A chain of works: each starts after the one before it has succeeded.
///
/// ```
/// use windlass::works::WorkSequence;
/// use windlass::WorkScheduler;
/// # struct Step;
/// # #[windlass::async_trait]
/// # impl windlass::Work for Step {
/// #     async fn run(&mut self, _: windlass::WorkContext) -> windlass::WorkOutcome {
/// #         windlass::WorkOutcome::Success
/// #     }
/// # }
/// # let (step1, step2, step3) = (Step, Step, Step);
/// # let mut scheduler = WorkScheduler::default();
///
/// let mut sequence = WorkSequence::new();
/// sequence.push(&mut scheduler, Box::new(step1), 0);
/// sequence.push(&mut scheduler, Box::new(step2), 0);
/// sequence.push(&mut scheduler, Box::new(step3), 0);
/// // Execution order: step1 -> step2 -> step3
///
/// // Access all IDs in the sequence
/// let all_ids = sequence.ids();
/// # assert_eq!(all_ids.len(), 3);
/// ```
#[derive(Clone, Debug, Default)]
pub struct WorkSequence {
    ids: Vec<WorkId>,
}

impl WorkSequence {
    /// Creates an empty sequence.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a work at the end of this sequence, to a scheduler or through its handle.
    ///
    /// ```
    /// # use windlass::works::WorkSequence;
    /// # use windlass::WorkScheduler;
    /// # macro_rules! stages {
    /// #     ($($stage:ident)*) => {$(
    /// #         struct $stage;
    /// #         impl $stage { fn new() -> Self { Self } }
    /// #         #[windlass::async_trait]
    /// #         impl windlass::Work for $stage {
    /// #             async fn run(&mut self, _: windlass::WorkContext) -> windlass::WorkOutcome {
    /// #                 windlass::WorkOutcome::Success
    /// #             }
    /// #         }
    /// #     )*};
    /// # }
    /// # stages!(FetchStage ParseStage ValidateStage ApplyStage);
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let mut scheduler = WorkScheduler::default();
    /// let mut pipeline = WorkSequence::new();
    ///
    /// // Each stage depends on the previous
    /// pipeline.push(&mut scheduler, Box::new(FetchStage::new()), 3);
    /// pipeline.push(&mut scheduler, Box::new(ParseStage::new()), 0);
    /// pipeline.push(&mut scheduler, Box::new(ValidateStage::new()), 0);
    /// pipeline.push(&mut scheduler, Box::new(ApplyStage::new()), 0);
    ///
    /// scheduler.run_until_done().await;
    /// # assert_eq!(scheduler.metrics().success, 4);
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// As [`WorkHandle::add_work`] does.
    pub fn push(
        &mut self,
        scheduler: impl AsRef<WorkHandle>,
        work: Box<dyn Work>,
        retries: u32,
    ) -> WorkId {
        let deps = self.ids.last().copied().into_iter().collect();
        let id = scheduler.as_ref().add_work(work, deps, retries);
        self.ids.push(id);
        id
    }

    /// Returns the ids of the works, in order.
    #[must_use]
    pub fn ids(&self) -> &[WorkId] {
        &self.ids
    }
}

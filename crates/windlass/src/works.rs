//! Async works with dependencies: the scheduler, works, and what can be seen of them.
//!
//! | for | look at |
//! |---|---|
//! | works from closures | [`work_fn`], [`work_async`], [`work_once`], [`work_after`], [`work_cpu`], [`work_cpu_after`] |
//! | works as types, with hooks | [`Work`], [`WorkSequence`], [`WorkWithCallback`], [`BatchWork`], [`ConditionalWork`] |
//! | settings of a work | [`WorkSpec`], [`Dependency`], [`RetryPolicy`], [`Gate`] |
//! | running | [`WorkScheduler`], [`WorkSchedulerBuilder`], [`WorkHandle`], [`RunSummary`] |
//! | results | [`WorkRef`], [`WorkFailure`] |
//! | inside a body | [`WorkContext`], [`WorkError`], [`Fatal`] |
//! | observing | [`WorkSnapshot`], [`Explanation`], [`Subscription`], [`WorkSchedulerMetrics`] |

pub use windlass_core::{
    Ageing, Children, Order, Phase, RETRY_A_FEW, RETRY_A_LOT, RETRY_NEVER, RETRY_ONCE, RetryPolicy,
    WorkState,
};

pub use crate::batch::BatchWork;
pub use crate::builder::{BuildError, WorkSchedulerBuilder, WorkSchedulerConfig};
pub use crate::callback::{WorkCallback, WorkWithCallback};
pub use crate::closure::{work_async, work_fn, work_once};
pub use crate::context::{Cancelled, WorkContext};
pub use crate::cpu::{work_cpu, work_cpu_after};
pub use crate::error::{Fatal, WorkError};
pub use crate::event::{Notice, Subscription, WorkEvent};
pub use crate::explain::{Explanation, Reason};
pub use crate::gate::{ConditionalWork, Gate};
pub use crate::handle::{DependencyError, ReopenError, WorkHandle};
pub use crate::id::WorkId;
pub use crate::inputs::{Inputs, work_after};
pub use crate::metrics::WorkSchedulerMetrics;
pub use crate::reference::{ExecuteError, TakeError, WorkFailure, WorkRef};
pub use crate::scheduler::WorkScheduler;
pub use crate::sequence::WorkSequence;
pub use crate::snapshot::WorkSnapshot;
pub use crate::spec::{Dependency, SubmitError, WorkSpec};
pub use crate::summary::{RunFailed, RunSummary};
pub use crate::work::{Work, WorkOutcome};
pub use crate::work_name::WorkName;

//! What can be seen of runs: read from the store, which nothing here writes to.
//!
//! The states of steps come from the journal, through the same engine that ran them; how their
//! attempts went is kept beside it. Everything is read in one look, so it was true together at one
//! moment. Times are milliseconds since 1970.

mod cause;
mod critical;
mod error;
mod expected;
mod find;
mod guarded;
pub(crate) mod holder;
mod holder_label;
mod list;
mod prune;
mod reason;
mod run;
mod step;
mod turn;
mod why;

pub use critical::CriticalPath;
pub use error::LookError;
pub use expected::{Estimate, Expectations, Expected};
pub use find::{find_run, run_names, step_argument};
pub use holder::{HolderNames, command_line};
pub use holder_label::HolderLabel;
pub use list::{Listed, history, open_runs};
pub use prune::{Orphan, PruneError, Pruned, PrunedRun, Pruning, prune};
pub use run::{RunState, RunView};
pub use step::{AttemptView, StepState, StepView};
pub use why::{Cause, Explanation, HolderView, Skipped, StepExplanation, WaitReason};

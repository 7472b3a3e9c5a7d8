//! Shows runs as they are and were, and why their steps wait. Only `prune` and `decide` write to the store.
//!
//! The journal of a run is replayed through the engine that wrote it, so no second rule says what a state is
//! or why a step waits. What is not journaled (places in the queue, reservations) follows once the engine
//! has decided what its leader would decide now, without beginning anything. Names that refuse a step are
//! read from the queues of the store. A run is read in one transaction, so what is shown was true at one
//! moment. Times are milliseconds since 1970.

mod cause;
mod critical;
mod decide;
mod error;
mod expected;
mod find;
mod guarded;
pub(crate) mod holder;
mod holder_label;
mod list;
mod logs;
mod prune;
mod reason;
pub(crate) mod run;
mod shown_logs;
mod step;
mod turn;
mod why;

pub use critical::CriticalPath;
pub use decide::{Decided, GuardDecision, decide_steps};
pub use error::LookError;
pub use expected::{Estimate, Expectations, Expected};
pub use find::{find_run, run_names, step_argument};
pub use holder::{HolderNames, command_line, other_host};
pub use holder_label::HolderLabel;
pub use list::{Listed, history, open_runs};
pub use logs::{LogCursor, RunLogs};
pub use prune::{Orphan, PruneError, Pruned, PrunedRun, Pruning, prune};
pub use run::{RunState, RunView};
pub use shown_logs::ShownLogs;
pub use step::{AttemptView, StepState, StepView};
pub use why::{Cause, Explanation, HolderView, Skipped, StepExplanation, WaitReason};

//! The file as it is written: every key, with the place where it stands.
//!
//! These types are read by serde and described by schemars, so the file that is read and the JSON
//! Schema cannot disagree on a key. What the values mean is the planner's.

mod table;
mod value;

use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use table::{
    DefaultsTable, EachTable, GuardRetryTable, GuardTable, RetryTable, StepTable,
};
pub(crate) use value::{
    NamesOr, OneOrMany, ParamEntry, ParamTable, Quantity, ResourceEntry, ResourceTable, Scalar,
};

use crate::plan::OnFailure;
use crate::spanned::{Entries, Field};

/// A Windlass workflow: steps that depend on each other, and the limits under which they run.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Windlass workflow", extend("anyOf" = [{ "required": ["step"] }, { "required": ["guard"] }]))]
pub(crate) struct File {
    /// What the workflow is called. Default: the file's name.
    pub(crate) name: Field<String>,
    /// How many steps may run at once. Default: one per CPU.
    #[schemars(range(min = 1))]
    pub(crate) concurrency: Field<i64>,
    /// How long the whole run may take, such as "2h".
    pub(crate) deadline: Field<String>,
    /// What happens to the other steps when one fails: finish (independent ones go on), stop
    /// (nothing new starts) or cancel (running ones are ended too).
    pub(crate) on_failure: Field<OnFailure>,
    /// How much of what one attempt, or a hook, prints is kept, its beginning and its end, such as
    /// "100M". Default: "1G".
    pub(crate) log_limit: Field<Quantity>,
    /// Parameters, given on the command line as -p name=value: a default value, or a table.
    pub(crate) params: Field<Entries<ParamEntry>>,
    /// Environment variables for every step and every hook.
    pub(crate) env: Field<Entries<Scalar>>,
    /// What every step has unless it says otherwise.
    pub(crate) defaults: Field<DefaultsTable>,
    /// Anything countable that the steps of this run share.
    pub(crate) resource: Field<Entries<ResourceEntry>>,
    /// SemaphoreSlots that are shared with all runs and scripts that use the same store.
    pub(crate) semaphore: Field<Entries<SemaphoreTable>>,
    /// Conditions that must hold before or after a step.
    pub(crate) guard: Field<Entries<GuardTable>>,
    /// Commands for the end of a run, and for a guard that needs a person.
    pub(crate) on: Field<HooksTable>,
    /// The steps.
    #[schemars(length(min = 1))]
    pub(crate) step: Field<Entries<StepTable>>,
}

/// SemaphoreSlots that are shared with all runs and scripts that use the same store.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Semaphore", extend("required" = ["capacity"]))]
pub(crate) struct SemaphoreTable {
    /// How many slots there are.
    #[schemars(range(min = 1))]
    pub(crate) capacity: Field<i64>,
    /// After how long without a sign of life a holder counts as gone, such as "60s".
    pub(crate) heartbeat_timeout: Field<String>,
}

/// Commands for the end of a run, and for a guard that needs a person.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Hooks")]
pub(crate) struct HooksTable {
    /// Runs when every step has succeeded or was skipped.
    pub(crate) success: Field<OneOrMany>,
    /// Runs when the run has failed.
    pub(crate) failure: Field<OneOrMany>,
    /// Runs when a guard with on_timeout = "escalate" has timed out.
    pub(crate) escalate: Field<OneOrMany>,
    /// How long each of them may take before it is ended. Default: "30s".
    pub(crate) timeout: Field<String>,
}

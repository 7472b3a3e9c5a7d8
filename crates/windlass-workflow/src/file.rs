//! The tables and keys of a workflow file, as serde deserializes them, with spans.
//!
//! Schemars generates the JSON Schema from the same types, with their doc comments as descriptions, so
//! reader and schema agree on every key. What the values mean is up to the planner.

mod table;
mod value;

use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use table::{
    DefaultsTable, EachTable, GuardRetryTable, GuardTable, RetryTable, StepTable,
};
pub(crate) use value::{
    NamesOr, OneOrMany, ParamEntry, ParamTable, Quantity, ResourceEntry, ResourceTable, Scalar,
    WorkersEntry,
};

use crate::plan::OnFailure;
use crate::spanned::{Entries, Field};

/// A Windlass workflow: steps that depend on each other, and the limits under which they run.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "Windlass workflow", extend("anyOf" = [{ "required": ["step"] }, { "required": ["guard"] }]))]
pub(crate) struct File {
    /// The workflow's name. Default: the file's name.
    pub(crate) name: Field<String>,
    /// How many steps may run at once. Default: one per CPU.
    #[schemars(range(min = 1))]
    pub(crate) concurrency: Field<i64>,
    /// How urgent the run is among the submitted runs of its store and in the queues of shared names;
    /// larger is more urgent. Default: 0.
    #[schemars(range(min = -32768, max = 32767))]
    pub(crate) priority: Field<i64>,
    /// How long the whole run may take, such as "2h".
    pub(crate) deadline: Field<String>,
    /// What happens to the other steps when one fails: finish (steps that do not depend on it still
    /// run), stop (no further step starts) or cancel (running steps are terminated, too). Default:
    /// finish.
    pub(crate) on_failure: Field<OnFailure>,
    /// How much output of each attempt and each hook is kept, such as "100M": its beginning and its
    /// end. Default: "1G".
    pub(crate) log_limit: Field<Quantity>,
    /// Parameters, which the command line sets with -p name=value: a default value, or a table.
    pub(crate) params: Field<Entries<ParamEntry>>,
    /// Environment variables for every step and every hook.
    pub(crate) env: Field<Entries<Scalar>>,
    /// Environment variables that a submitted run takes along from where it is submitted, by name.
    pub(crate) pass_env: Field<OneOrMany>,
    /// Settings for every step that does not have its own.
    pub(crate) defaults: Field<DefaultsTable>,
    /// Countable things that the steps of this run share.
    pub(crate) resource: Field<Entries<ResourceEntry>>,
    /// Slots that all runs and scripts on the same store share.
    pub(crate) semaphore: Field<Entries<SemaphoreTable>>,
    /// Conditions that must hold before or after a step.
    pub(crate) guard: Field<Entries<GuardTable>>,
    /// Commands for the end of a run, and for a guard that needs a person.
    pub(crate) on: Field<HooksTable>,
    /// The steps.
    #[schemars(length(min = 1))]
    pub(crate) step: Field<Entries<StepTable>>,
}

/// Slots that all runs and scripts on the same store share.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Semaphore", extend("required" = ["capacity"]))]
pub(crate) struct SemaphoreTable {
    /// The number of slots.
    #[schemars(range(min = 1))]
    pub(crate) capacity: Field<i64>,
    /// How long a holder may go without a heartbeat before it loses its slots. Default: "60s".
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
    /// How long each hook may take before it is terminated. Default: "30s".
    pub(crate) timeout: Field<String>,
}

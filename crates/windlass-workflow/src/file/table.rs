//! Tables with fixed keys: steps, defaults, guards, retries; and `each`, which has both kinds.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::value::{EndWord, NamesOr, OneOrMany, Quantity, Scalar, WorkersEntry};
use crate::guard::GuardAction;
use crate::spanned::{Entries, Field, Key, Spanned};
use crate::step::Backoff;

/// One command, with its dependencies and the resources it uses.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Step", extend("required" = ["run"]))]
pub(crate) struct StepTable {
    /// The command: shell text, or a list of a program and its arguments, which needs no shell.
    pub(crate) run: Field<OneOrMany>,
    /// The steps that must end first: names, or a table of names with success, done or failed.
    pub(crate) after: Field<NamesOr<EndWord>>,
    /// Lists of values by name: one step for every combination, in whose texts {name} is the value.
    pub(crate) each: Field<EachTable>,
    /// Shell text; if it fails, the step is skipped.
    pub(crate) when: Field<String>,
    /// How much of which resource it holds while it runs.
    #[serde(rename = "use")]
    pub(crate) uses: Field<Entries<Quantity>>,
    /// The worker of a service that executes it: its name, or a table of labels that it has.
    pub(crate) on: Field<WorkersEntry>,
    /// A step in `after` on whose worker it is executed.
    pub(crate) with: Field<String>,
    /// Locks that it holds while it runs, exclusive among all users of the same store; it acquires
    /// all of them at once.
    pub(crate) lock: Field<OneOrMany>,
    /// How many slots of which semaphores it holds while it runs.
    pub(crate) semaphore: Field<NamesOr<i64>>,
    /// Guards that must pass before it starts.
    pub(crate) guard: Field<OneOrMany>,
    /// Guards that must pass after it has run, before it succeeds.
    pub(crate) ensure: Field<OneOrMany>,
    /// A larger priority is more urgent. Default: 0.
    pub(crate) priority: Field<i64>,
    /// How long one attempt may take, such as "5m".
    pub(crate) timeout: Field<String>,
    /// How long it may take to end after SIGTERM before SIGKILL. Default: "10s".
    pub(crate) grace: Field<String>,
    /// How long processes that it leaves running may take to end by themselves. Default: "2s".
    pub(crate) linger: Field<String>,
    /// How much output of each attempt is kept, such as "100M": its beginning and its end.
    pub(crate) log_limit: Field<Quantity>,
    /// Whether and when a failed attempt is retried.
    pub(crate) retry: Field<RetryTable>,
    /// After how many attempts in a row that a killed worker has lost the step fails. Default: 5.
    #[schemars(range(min = 1))]
    pub(crate) crash_limit: Field<i64>,
    /// A command that runs once after the last attempt, whatever its result.
    pub(crate) finally: Field<OneOrMany>,
    /// Environment variables, added to those of `[defaults]` and `[env]`.
    pub(crate) env: Field<Entries<Scalar>>,
    /// The working directory. Default: the directory of the workflow file.
    pub(crate) dir: Field<String>,
    /// The program that runs shell text. Default: "sh", which is `sh -eu -c`.
    pub(crate) shell: Field<OneOrMany>,
}

/// Settings for every step that does not have its own.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Defaults")]
pub(crate) struct DefaultsTable {
    /// How much of which resource a step holds while it runs.
    #[serde(rename = "use")]
    pub(crate) uses: Field<Entries<Quantity>>,
    /// A larger priority is more urgent. Default: 0.
    pub(crate) priority: Field<i64>,
    /// How long one attempt may take, such as "5m".
    pub(crate) timeout: Field<String>,
    /// How long a step may take to end after SIGTERM before SIGKILL. Default: "10s".
    pub(crate) grace: Field<String>,
    /// How long processes that a step leaves running may take to end by themselves. Default: "2s".
    pub(crate) linger: Field<String>,
    /// How much output of each attempt is kept, such as "100M": its beginning and its end.
    pub(crate) log_limit: Field<Quantity>,
    /// Whether and when a failed attempt is retried.
    pub(crate) retry: Field<RetryTable>,
    /// After how many attempts in a row that a killed worker has lost the step fails. Default: 5.
    #[schemars(range(min = 1))]
    pub(crate) crash_limit: Field<i64>,
    /// Environment variables, added to those of `[env]`.
    pub(crate) env: Field<Entries<Scalar>>,
    /// The working directory. Default: the directory of the workflow file.
    pub(crate) dir: Field<String>,
    /// The program that runs shell text. Default: "sh", which is `sh -eu -c`.
    pub(crate) shell: Field<OneOrMany>,
}

/// Whether and when a failed attempt is retried.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Retry", extend("required" = ["count"]))]
pub(crate) struct RetryTable {
    /// The number of retries; the first attempt is not one.
    #[schemars(range(min = 0))]
    pub(crate) count: Field<u32>,
    /// How the delay grows: fixed, linear or exponential. Default: fixed.
    pub(crate) backoff: Field<Backoff>,
    /// The delay before the first retry. Default: "1s".
    pub(crate) delay: Field<String>,
    /// The maximum delay.
    pub(crate) max_delay: Field<String>,
    /// Whether each delay is random, between half of it and all of it. Default: false.
    pub(crate) jitter: Field<bool>,
    /// The exit codes that are retried. Default: all but 0.
    pub(crate) on_exit: Field<Vec<Spanned<i64>>>,
}

/// A condition that must hold before a step starts, or after it has run.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Guard", extend("required" = ["condition"]))]
pub(crate) struct GuardTable {
    /// Shell text; the guard passes when it exits with 0.
    pub(crate) condition: Field<String>,
    /// Patterns of events after which the condition is checked at once, such as "build:*:done".
    pub(crate) wake_on: Field<OneOrMany>,
    /// How often the condition is checked again. Default: every 10 s without limit.
    pub(crate) retry: Field<GuardRetryTable>,
    /// How long to wait before `on_timeout` applies. Default: without limit.
    pub(crate) timeout: Field<String>,
    /// What happens at the timeout: block (keep waiting), fail (the step fails) or escalate (a
    /// person decides). Default: block.
    pub(crate) on_timeout: Field<GuardAction>,
}

/// How often a guard's condition is checked again.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "GuardRetry", extend("required" = ["max", "interval"]))]
pub(crate) struct GuardRetryTable {
    /// The number of checks after the first.
    #[schemars(range(min = 0))]
    pub(crate) max: Field<u32>,
    /// The time between two checks, such as "10s".
    pub(crate) interval: Field<String>,
}

/// Lists of values by name, and combinations to remove or to add.
#[derive(Default, JsonSchema)]
#[schemars(rename = "Each", extend("minProperties" = 1))]
pub(crate) struct EachTable {
    /// The values of each variable.
    #[schemars(flatten)]
    pub(crate) variables: EachVariables,
    /// Combinations to remove; an entry that names some variables removes every match.
    #[schemars(default)]
    pub(crate) exclude: Field<Vec<Spanned<Entries<Scalar>>>>,
    /// Combinations to add; each entry sets every variable.
    #[schemars(default)]
    pub(crate) include: Field<Vec<Spanned<Entries<Scalar>>>>,
}

/// The variables of an `each`, in the order of the file.
#[derive(Default)]
pub(crate) struct EachVariables(pub(crate) Vec<(Key, Spanned<Vec<Spanned<Scalar>>>)>);

impl JsonSchema for EachVariables {
    fn schema_name() -> Cow<'static, str> {
        "EachVariables".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let values = generator.subschema_for::<Vec<Scalar>>();
        schemars::json_schema!({ "type": "object", "additionalProperties": values })
    }
}

impl<'de> Deserialize<'de> for EachTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EachVisitor)
    }
}

struct EachVisitor;

impl<'de> Visitor<'de> for EachVisitor {
    type Value = EachTable;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of lists, such as { os = [\"linux\", \"macos\"] }")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EachTable, A::Error> {
        let mut table = EachTable::default();
        while let Some(key) = map.next_key::<Key>()? {
            match key.as_str() {
                "exclude" => table.exclude = map.next_value()?,
                "include" => table.include = map.next_value()?,
                "" => return Err(A::Error::custom("has a variable without a name")),
                _ => table.variables.0.push((key, map.next_value()?)),
            }
        }
        Ok(table)
    }
}

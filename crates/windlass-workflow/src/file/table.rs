//! The tables with fixed keys: steps, defaults, guards, retries, `each`.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

use super::value::{NamesOr, OneOrMany, Quantity, Scalar};
use crate::guard::GuardAction;
use crate::spanned::{Entries, Field, Key, Spanned};
use crate::step::{Backoff, EdgeCondition};

/// One command with what it waits for and what it needs.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Step", extend("required" = ["run"]))]
pub(crate) struct StepTable {
    /// The command: shell text, or a list of arguments that needs no shell.
    pub(crate) run: Field<OneOrMany>,
    /// The steps that must have ended first: names, or a table of names with success, done or
    /// failed.
    pub(crate) after: Field<NamesOr<EdgeCondition>>,
    /// One step for every combination of these values, which are {name} in the step's texts.
    pub(crate) each: Field<EachTable>,
    /// Shell text; if it fails, the step is skipped.
    pub(crate) when: Field<String>,
    /// How much of which resource it takes while it runs.
    #[serde(rename = "use")]
    pub(crate) uses: Field<Entries<Quantity>>,
    /// Resolver that it holds alone among all that use the same store, taken together or not at all.
    pub(crate) lock: Field<OneOrMany>,
    /// How many slots of which semaphores it holds while it runs.
    pub(crate) semaphore: Field<NamesOr<i64>>,
    /// Guards that must pass before it starts.
    pub(crate) guard: Field<OneOrMany>,
    /// Guards that must pass afterwards, before it counts as succeeded.
    pub(crate) ensure: Field<OneOrMany>,
    /// Larger is more urgent. Default: 0.
    pub(crate) priority: Field<i64>,
    /// How long one attempt may take, such as "5m".
    pub(crate) timeout: Field<String>,
    /// How long it may take to end after SIGTERM before it is killed, such as "30s".
    pub(crate) grace: Field<String>,
    /// How long the processes that it leaves running may take to end by themselves. Default: "2s".
    pub(crate) linger: Field<String>,
    /// How much of what one attempt prints is kept, its beginning and its end, such as "100M".
    pub(crate) log_limit: Field<Quantity>,
    /// Whether and when it is tried again.
    pub(crate) retry: Field<RetryTable>,
    /// Shell text that runs once at the end, whatever happened.
    pub(crate) finally: Field<OneOrMany>,
    /// Environment variables, on top of those of `[defaults]` and `[env]`.
    pub(crate) env: Field<Entries<Scalar>>,
    /// Where it runs. Default: the directory of the workflow file.
    pub(crate) dir: Field<String>,
    /// What reads the shell text. Default: "sh", which is `sh -eu -c`.
    pub(crate) shell: Field<OneOrMany>,
}

/// What every step has unless it says otherwise.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Defaults")]
pub(crate) struct DefaultsTable {
    /// How much of which resource a step takes while it runs.
    #[serde(rename = "use")]
    pub(crate) uses: Field<Entries<Quantity>>,
    /// Larger is more urgent.
    pub(crate) priority: Field<i64>,
    /// How long one attempt may take, such as "5m".
    pub(crate) timeout: Field<String>,
    /// How long a step may take to end after SIGTERM before it is killed, such as "30s".
    pub(crate) grace: Field<String>,
    /// How long the processes that a step leaves running may take to end by themselves. Default: "2s".
    pub(crate) linger: Field<String>,
    /// How much of what one attempt prints is kept, its beginning and its end, such as "100M".
    pub(crate) log_limit: Field<Quantity>,
    /// Whether and when a step is tried again.
    pub(crate) retry: Field<RetryTable>,
    /// Environment variables, on top of those of `[env]`.
    pub(crate) env: Field<Entries<Scalar>>,
    /// Where steps run. Default: the directory of the workflow file.
    pub(crate) dir: Field<String>,
    /// What reads the shell text. Default: "sh", which is `sh -eu -c`.
    pub(crate) shell: Field<OneOrMany>,
}

/// Whether and when a step is tried again.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Retry", extend("required" = ["count"]))]
pub(crate) struct RetryTable {
    /// How often, not counting the first attempt.
    #[schemars(range(min = 0))]
    pub(crate) count: Field<u32>,
    /// How the delay grows: fixed, linear or exponential. Default: fixed.
    pub(crate) backoff: Field<Backoff>,
    /// How long to wait before the first retry. Default: "1s".
    pub(crate) delay: Field<String>,
    /// The longest delay.
    pub(crate) max_delay: Field<String>,
    /// Whether to wait for a random part of the delay. Default: false.
    pub(crate) jitter: Field<bool>,
    /// Only after these exit codes. Default: after any but 0.
    pub(crate) on_exit: Field<Vec<Spanned<i64>>>,
}

/// A condition that must hold before a step starts, or after it has run.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Guard", extend("required" = ["condition"]))]
pub(crate) struct GuardTable {
    /// Shell text; it passes when it exits with 0.
    pub(crate) condition: Field<String>,
    /// Events that make it look again at once, such as "build:*:done".
    pub(crate) wake_on: Field<OneOrMany>,
    /// How often to look again. Default: every 10 s.
    pub(crate) retry: Field<GuardRetryTable>,
    /// How long to wait before `on_timeout`. Default: for ever.
    pub(crate) timeout: Field<String>,
    /// What happens then: block (keep waiting), fail, or escalate (ask a person). Default: block.
    pub(crate) on_timeout: Field<GuardAction>,
}

/// How often a guard looks again.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "GuardRetry", extend("required" = ["max", "interval"]))]
pub(crate) struct GuardRetryTable {
    /// How many times.
    #[schemars(range(min = 0))]
    pub(crate) max: Field<u32>,
    /// How long in between, such as "10s".
    pub(crate) interval: Field<String>,
}

/// Lists of values by name, and combinations to leave out or to add.
#[derive(Default, JsonSchema)]
#[schemars(rename = "Each", extend("minProperties" = 1))]
pub(crate) struct EachTable {
    /// The values of each variable.
    #[schemars(flatten)]
    pub(crate) variables: EachVariables,
    /// Combinations to leave out; one that names some variables leaves out all that match.
    #[schemars(default)]
    pub(crate) exclude: Field<Vec<Spanned<Entries<Scalar>>>>,
    /// Combinations to add; each gives every variable.
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

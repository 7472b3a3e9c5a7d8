//! The values that may be written in more than one way.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::Deserializer;

use crate::param::ParamType;
use crate::shape::{Shape, read_by_shape};
use crate::step::EdgeCondition;
use crate::written::{Entries, Given, Written};

/// A command.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum RunEntry {
    /// Shell text.
    Text(String),
    /// A program and its arguments, without a shell.
    List(Vec<Written<String>>),
}

impl Shape for RunEntry {
    const EXPECTED: &'static str = "shell text or a list of arguments";

    fn from_text(text: &str) -> Option<Self> {
        Some(Self::Text(text.to_owned()))
    }

    fn from_list<'de, D: Deserializer<'de>>(list: D) -> Option<Result<Self, D::Error>> {
        Some(Deserialize::deserialize(list).map(Self::List))
    }
}

/// One name, or a list of names.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum Names {
    /// One.
    One(String),
    /// Several.
    List(Vec<Written<String>>),
}

impl Shape for Names {
    const EXPECTED: &'static str = "a name or a list of names";

    fn from_text(text: &str) -> Option<Self> {
        Some(Self::One(text.to_owned()))
    }

    fn from_list<'de, D: Deserializer<'de>>(list: D) -> Option<Result<Self, D::Error>> {
        Some(Deserialize::deserialize(list).map(Self::List))
    }
}

/// What a step waits for.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum AfterEntry {
    /// One step.
    One(String),
    /// Several steps.
    List(Vec<Written<String>>),
    /// Steps, and how each must have ended.
    Table(Entries<EdgeCondition>),
}

impl Shape for AfterEntry {
    const EXPECTED: &'static str = "a list of steps, or a table such as { test = \"done\" }";

    fn from_text(text: &str) -> Option<Self> {
        Some(Self::One(text.to_owned()))
    }

    fn from_list<'de, D: Deserializer<'de>>(list: D) -> Option<Result<Self, D::Error>> {
        Some(Deserialize::deserialize(list).map(Self::List))
    }

    fn from_table<'de, D: Deserializer<'de>>(table: D) -> Option<Result<Self, D::Error>> {
        Some(Deserialize::deserialize(table).map(Self::Table))
    }
}

/// The semaphores that a step holds slots of.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum SemaphoreUse {
    /// One slot of one.
    One(String),
    /// One slot of each.
    List(Vec<Written<String>>),
    /// So many slots of each.
    Table(Entries<i64>),
}

impl Shape for SemaphoreUse {
    const EXPECTED: &'static str = "a table such as { build-slots = 2 }";

    fn from_text(text: &str) -> Option<Self> {
        Some(Self::One(text.to_owned()))
    }

    fn from_list<'de, D: Deserializer<'de>>(list: D) -> Option<Result<Self, D::Error>> {
        Some(Deserialize::deserialize(list).map(Self::List))
    }

    fn from_table<'de, D: Deserializer<'de>>(table: D) -> Option<Result<Self, D::Error>> {
        Some(Deserialize::deserialize(table).map(Self::Table))
    }
}

/// What reads shell text: a name, or a program with the arguments that come before the text.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum ShellEntry {
    /// "sh", "bash", or a command such as "bash -c".
    Text(String),
    /// A program and its arguments.
    List(Vec<Written<String>>),
}

impl Shape for ShellEntry {
    const EXPECTED: &'static str = "the name of a shell, or a list such as [\"bash\", \"-c\"]";

    fn from_text(text: &str) -> Option<Self> {
        Some(Self::Text(text.to_owned()))
    }

    fn from_list<'de, D: Deserializer<'de>>(list: D) -> Option<Result<Self, D::Error>> {
        Some(Deserialize::deserialize(list).map(Self::List))
    }
}

/// A plain value.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum Scalar {
    /// A text.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// True or false.
    Boolean(bool),
}

impl Shape for Scalar {
    const EXPECTED: &'static str = "a string, a number or a boolean";

    fn from_text(text: &str) -> Option<Self> {
        Some(Self::Text(text.to_owned()))
    }

    fn from_integer(number: i64) -> Option<Self> {
        Some(Self::Integer(number))
    }

    fn from_float(number: f64) -> Option<Self> {
        Some(Self::Float(number))
    }

    fn from_bool(flag: bool) -> Option<Self> {
        Some(Self::Boolean(flag))
    }
}

/// How much of something: a number, or a size such as "16G".
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum Quantity {
    /// A whole number.
    Integer(i64),
    /// A number.
    Float(f64),
    /// A size, such as "512M" or "1.5GB".
    Text(String),
}

impl Shape for Quantity {
    const EXPECTED: &'static str = "a number or a size such as \"4G\"";

    fn from_text(text: &str) -> Option<Self> {
        Some(Self::Text(text.to_owned()))
    }

    fn from_integer(number: i64) -> Option<Self> {
        Some(Self::Integer(number))
    }

    fn from_float(number: f64) -> Option<Self> {
        Some(Self::Float(number))
    }
}

/// How much there is of a resource, which items, or how often it may be used.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum ResourceEntry {
    /// How much there is.
    Quantity(Quantity),
    /// Its items, or its rate.
    Table(ResourceTable),
}

impl Shape for ResourceEntry {
    const EXPECTED: &'static str =
        "a number, a size such as \"16G\", or a table with `items` or `rate`";
    const FIELDS: &'static [&'static str] = &["items", "env", "rate", "burst"];

    fn from_text(text: &str) -> Option<Self> {
        Quantity::from_text(text).map(Self::Quantity)
    }

    fn from_integer(number: i64) -> Option<Self> {
        Quantity::from_integer(number).map(Self::Quantity)
    }

    fn from_float(number: f64) -> Option<Self> {
        Quantity::from_float(number).map(Self::Quantity)
    }

    fn from_table<'de, D: Deserializer<'de>>(table: D) -> Option<Result<Self, D::Error>> {
        Some(Deserialize::deserialize(table).map(Self::Table))
    }
}

/// A resource of named items, or one that comes at a rate.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Resource")]
pub(crate) struct ResourceTable {
    /// The items, of which a step is given some.
    pub(crate) items: Given<Vec<Written<Scalar>>>,
    /// The environment variable that tells a step which items it was given.
    pub(crate) env: Given<String>,
    /// How many starts there may be in a time, such as "100/min".
    pub(crate) rate: Given<String>,
    /// How many starts may come at once. Default: as many as the rate counts.
    #[schemars(range(min = 1))]
    pub(crate) burst: Given<i64>,
}

/// A parameter: its default value, or a table.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum ParamEntry {
    /// The default.
    Default(Scalar),
    /// Everything about it.
    Table(ParamTable),
}

impl Shape for ParamEntry {
    const EXPECTED: &'static str = "a default value, or a table with `choices` or `default`";
    const FIELDS: &'static [&'static str] = &["type", "choices", "default", "description"];

    fn from_text(text: &str) -> Option<Self> {
        Scalar::from_text(text).map(Self::Default)
    }

    fn from_integer(number: i64) -> Option<Self> {
        Scalar::from_integer(number).map(Self::Default)
    }

    fn from_float(number: f64) -> Option<Self> {
        Scalar::from_float(number).map(Self::Default)
    }

    fn from_bool(flag: bool) -> Option<Self> {
        Scalar::from_bool(flag).map(Self::Default)
    }

    fn from_table<'de, D: Deserializer<'de>>(table: D) -> Option<Result<Self, D::Error>> {
        Some(Deserialize::deserialize(table).map(Self::Table))
    }
}

/// A parameter; without a default it must be given.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Parameter")]
pub(crate) struct ParamTable {
    /// What kind of value it takes. Default: that of its default or its choices.
    #[serde(rename = "type")]
    pub(crate) kind: Given<ParamType>,
    /// The only values it takes.
    #[schemars(length(min = 1))]
    pub(crate) choices: Given<Vec<Written<Scalar>>>,
    /// The value when none is given.
    pub(crate) default: Given<Scalar>,
    /// What it is for.
    pub(crate) description: Given<String>,
}

read_by_shape!(
    RunEntry,
    Names,
    AfterEntry,
    SemaphoreUse,
    ShellEntry,
    Scalar,
    Quantity,
    ResourceEntry,
    ParamEntry
);

//! The values that may be written in more than one way.

use std::ops::Range;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};

use crate::param::ParamType;
use crate::spanned::{Entries, Field, Spanned};
use crate::untagged::{Untagged, deserialize_untagged};

/// One text, or a list of them: a command, names, a shell.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum OneOrMany {
    /// One.
    One(String),
    /// Several.
    Many(Vec<Spanned<String>>),
}

impl OneOrMany {
    /// Each with its place; `whole` is the place of all of them.
    pub(crate) fn with_span(&self, whole: Range<usize>) -> Vec<(&str, Range<usize>)> {
        match self {
            Self::One(text) => vec![(text, whole)],
            Self::Many(list) => {
                let texts = list.iter().filter_map(Spanned::with_span);
                texts.map(|(text, span)| (text.as_str(), span)).collect()
            }
        }
    }
}

impl Untagged for OneOrMany {
    const EXPECTED: &'static str = "a string or a list of strings";

    fn from_text(text: &str) -> Option<Self> {
        Some(Self::One(text.to_owned()))
    }

    fn from_list<'de, D: Deserializer<'de>>(list: D) -> Option<Result<Self, D::Error>> {
        Some(Deserialize::deserialize(list).map(Self::Many))
    }
}

/// Resolver, or a table that says more about each.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum NamesOr<T> {
    /// The names alone.
    Names(OneOrMany),
    /// The names, with something about each.
    Table(Entries<T>),
}

impl<T: DeserializeOwned> Untagged for NamesOr<T> {
    const EXPECTED: &'static str = "a name, a list of names, or a table";

    fn from_text(text: &str) -> Option<Self> {
        OneOrMany::from_text(text).map(Self::Names)
    }

    fn from_list<'de, D: Deserializer<'de>>(list: D) -> Option<Result<Self, D::Error>> {
        OneOrMany::from_list(list).map(|names| names.map(Self::Names))
    }

    fn from_table<'de, D: Deserializer<'de>>(table: D) -> Option<Result<Self, D::Error>> {
        Some(Deserialize::deserialize(table).map(Self::Table))
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for NamesOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::read(deserializer)
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

impl Untagged for Scalar {
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

impl Untagged for Quantity {
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

impl Untagged for ResourceEntry {
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
    pub(crate) items: Field<Vec<Spanned<Scalar>>>,
    /// The environment variable that tells a step which items it was given.
    pub(crate) env: Field<String>,
    /// How many starts there may be in a time, such as "100/min".
    pub(crate) rate: Field<String>,
    /// How many starts may come at once. Default: as many as the rate counts.
    #[schemars(range(min = 1))]
    pub(crate) burst: Field<i64>,
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

impl Untagged for ParamEntry {
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
    pub(crate) kind: Field<ParamType>,
    /// The only values it takes.
    #[schemars(length(min = 1))]
    pub(crate) choices: Field<Vec<Spanned<Scalar>>>,
    /// The value when none is given.
    pub(crate) default: Field<Scalar>,
    /// What it is for.
    pub(crate) description: Field<String>,
}

deserialize_untagged!(OneOrMany, Scalar, Quantity, ResourceEntry, ParamEntry);

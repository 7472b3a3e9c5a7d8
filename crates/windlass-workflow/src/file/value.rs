//! The values that have more than one form in the file.

use std::ops::Range;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use windlass_core::EdgeKind;

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
    /// Returns each text with its span; `whole` is the span of the value.
    pub(crate) fn with_spans(&self, whole: Range<usize>) -> Vec<(&str, Range<usize>)> {
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

/// How another step must have ended.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum EndWord {
    /// It succeeded, or was skipped.
    Success,
    /// It has ended with any result.
    Done,
    /// It failed.
    Failed,
}

impl From<EndWord> for EdgeKind {
    fn from(word: EndWord) -> Self {
        match word {
            EndWord::Success => Self::Success,
            EndWord::Done => Self::Done,
            EndWord::Failed => Self::Failed,
        }
    }
}

/// Names, or a table with a value for each name.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum NamesOr<T> {
    /// Names alone.
    Names(OneOrMany),
    /// A value for each name.
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

/// A value that is not a list or a table.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum Scalar {
    /// A string.
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

/// The name of a worker, or labels that it has.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum WorkersEntry {
    /// Its name.
    Name(String),
    /// Its labels.
    Labels(Entries<Scalar>),
}

impl Untagged for WorkersEntry {
    const EXPECTED: &'static str = "the name of a worker, or a table of labels";

    fn from_text(text: &str) -> Option<Self> {
        Some(Self::Name(text.to_owned()))
    }

    fn from_table<'de, D: Deserializer<'de>>(table: D) -> Option<Result<Self, D::Error>> {
        Some(Deserialize::deserialize(table).map(Self::Labels))
    }
}

/// The amount, the items or the rate of a resource.
#[derive(Clone, Debug, JsonSchema)]
#[schemars(untagged, inline)]
pub(crate) enum ResourceEntry {
    /// Its amount.
    Quantity(Quantity),
    /// Its items, its rate, or the limit of the store that it is.
    Table(ResourceTable),
}

impl Untagged for ResourceEntry {
    const EXPECTED: &'static str =
        "a number, a size such as \"16G\", or a table with `items`, `rate` or `shared`";
    const FIELDS: &'static [&'static str] = &["items", "env", "rate", "burst", "shared"];

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

/// A resource of named items, with a rate, or that is a limit of the store.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Resource")]
pub(crate) struct ResourceTable {
    /// The names of the items; a step gets as many as it uses.
    pub(crate) items: Field<Vec<Spanned<Scalar>>>,
    /// The environment variable in which a step finds its items.
    pub(crate) env: Field<String>,
    /// The number of starts per unit of time, such as "100/min".
    pub(crate) rate: Field<String>,
    /// How many starts are possible at once. Default: the number in `rate`.
    #[schemars(range(min = 1))]
    pub(crate) burst: Field<i64>,
    /// The limit of the store that steps use under this name; see `windlass limits`.
    pub(crate) shared: Field<String>,
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

/// A parameter; without a default the command line has to set it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Parameter")]
pub(crate) struct ParamTable {
    /// The type of its values. Default: that of its default or its choices.
    #[serde(rename = "type")]
    pub(crate) kind: Field<ParamType>,
    /// The values it accepts. Default: all of its type.
    #[schemars(length(min = 1))]
    pub(crate) choices: Field<Vec<Spanned<Scalar>>>,
    /// The value if the command line sets none.
    pub(crate) default: Field<Scalar>,
    /// What it is for.
    pub(crate) description: Field<String>,
}

deserialize_untagged!(OneOrMany, Scalar, Quantity, WorkersEntry, ResourceEntry, ParamEntry);

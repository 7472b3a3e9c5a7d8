//! Deserialized values with their spans in the file.
//!
//! When a value cannot be deserialized, the reader reports the error at once and the value counts as
//! missing, so that the rest of the file is still read. Knows nothing of TOML or of what the keys mean.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// The newtype name by which [`Spanned`] asks the reader for the span besides the value.
pub(crate) const SPANNED: &str = "$windlass::Spanned";

#[derive(Clone, Debug)]
pub(crate) struct Spanned<T> {
    pub(crate) span: Range<usize>,
    /// None if it could not be deserialized.
    pub(crate) value: Option<T>,
}

impl<T> Spanned<T> {
    pub(crate) fn with_span(&self) -> Option<(&T, Range<usize>)> {
        self.value.as_ref().map(|value| (value, self.span.clone()))
    }
}

/// A key whose name the file chooses, such as the name of a step.
pub(crate) type Key = Spanned<String>;

impl Key {
    pub(crate) fn as_str(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(SPANNED, SpannedVisitor(PhantomData))
    }
}

struct SpannedVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for SpannedVisitor<T> {
    type Value = Spanned<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value with its span")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Spanned<T>, A::Error> {
        let start = seq.next_element()?.unwrap_or_default();
        let end = seq.next_element()?.unwrap_or_default();
        // The reader has reported the error already.
        let value = seq.next_element().unwrap_or_default();
        Ok(Spanned { span: start..end, value })
    }
}

/// The value of a key that a table may leave out.
#[derive(Clone, Debug)]
pub(crate) struct Field<T>(Option<Spanned<T>>);

impl<T> Field<T> {
    /// Returns whether the file has the key, even if its value could not be deserialized.
    pub(crate) fn is_present(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn value(&self) -> Option<&T> {
        self.0.as_ref().and_then(|spanned| spanned.value.as_ref())
    }

    pub(crate) fn with_span(&self) -> Option<(&T, Range<usize>)> {
        self.0.as_ref().and_then(Spanned::with_span)
    }
}

impl<T> Default for Field<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(|spanned| Self(Some(spanned)))
    }
}

/// Gives a wrapper the JSON Schema of the value in it.
macro_rules! schema_of_value {
    ($($type:ident),+) => {$(
        impl<T: JsonSchema> JsonSchema for $type<T> {
            fn inline_schema() -> bool {
                T::inline_schema()
            }

            fn schema_name() -> Cow<'static, str> {
                T::schema_name()
            }

            fn schema_id() -> Cow<'static, str> {
                T::schema_id()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                T::json_schema(generator)
            }
        }
    )+};
}

schema_of_value!(Spanned, Field);

/// A table whose keys are names that the file chooses, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Entries<T>(pub(crate) Vec<(Key, Spanned<T>)>);

impl<T> Entries<T> {
    /// Iterates over the entries whose values could be deserialized: key, value, span of the value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &T, Range<usize>)> {
        self.0.iter().filter_map(|(key, spanned)| {
            let (value, span) = spanned.with_span()?;
            Some((key, value, span))
        })
    }
}

impl<T> Field<Entries<T>> {
    /// Iterates as [`Entries::iter`] does; over nothing if the table is missing.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&Key, &T, Range<usize>)> {
        self.value().into_iter().flat_map(Entries::iter)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

struct EntriesVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
    type Value = Entries<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Entries(entries))
    }
}

impl<T: JsonSchema> JsonSchema for Entries<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Table_of_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, T>::json_schema(generator)
    }
}

/// What may come before the first character of a string. TOML ignores a line break after three quotes.
const QUOTES: [&str; 8] =
    ["\"\"\"\r\n", "'''\r\n", "\"\"\"\n", "'''\n", "\"\"\"", "'''", "\"", "'"];

/// Returns the span of a part of a string, given the string's span in the file. A string with escapes
/// is not in the file literally; then the span of the whole string is returned.
pub(crate) fn span_within(
    source: &str,
    span: &Range<usize>,
    text: &str,
    part: Range<usize>,
) -> Range<usize> {
    let literal = source.get(span.clone()).unwrap_or_default();
    let quote = QUOTES.iter().find(|quote| literal.starts_with(**quote));
    let start = span.start + quote.map_or(0, |quote| quote.len());
    match source.get(start..start + text.len()) {
        Some(verbatim) if verbatim == text => start + part.start..start + part.end,
        _ => span.clone(),
    }
}

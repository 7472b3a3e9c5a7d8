//! A value with its place in the file.
//!
//! One that cannot be read is told as a mistake on the spot and counts as not given, so that the
//! rest of the file is read all the same.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Tells the reader that the place is asked for as well.
pub(crate) const WRITTEN: &str = "$windlass::Written";

#[derive(Clone, Debug)]
pub(crate) struct Written<T> {
    pub(crate) span: Range<usize>,
    /// None if it could not be read.
    pub(crate) value: Option<T>,
}

/// The name that a table gives to something, with its place.
pub(crate) type Key = Written<String>;

impl Key {
    pub(crate) fn as_str(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Written<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(WRITTEN, WrittenVisitor(PhantomData))
    }
}

struct WrittenVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for WrittenVisitor<T> {
    type Value = Written<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value with its place")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Written<T>, A::Error> {
        let start = seq.next_element()?.unwrap_or_default();
        let end = seq.next_element()?.unwrap_or_default();
        // The reader has told the mistake already.
        let value = seq.next_element().unwrap_or_default();
        Ok(Written { span: start..end, value })
    }
}

/// A key that may be left out.
#[derive(Clone, Debug)]
pub(crate) struct Given<T>(Option<Written<T>>);

impl<T> Given<T> {
    /// Whether the key stands there, readable or not.
    pub(crate) fn is_given(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn value(&self) -> Option<&T> {
        self.0.as_ref().and_then(|written| written.value.as_ref())
    }

    /// The value with its place.
    pub(crate) fn placed(&self) -> Option<(&T, Range<usize>)> {
        self.0.as_ref().and_then(Written::placed)
    }
}

impl<T> Written<T> {
    /// The value with its place.
    pub(crate) fn placed(&self) -> Option<(&T, Range<usize>)> {
        self.value.as_ref().map(|value| (value, self.span.clone()))
    }
}

impl<T> Default for Given<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Written::deserialize(deserializer).map(|written| Self(Some(written)))
    }
}

/// A place does not change what may be written there.
macro_rules! described_as_its_value {
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

described_as_its_value!(Written, Given);

/// A table whose keys are names that the file chooses, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Entries<T>(pub(crate) Vec<(Key, Written<T>)>);

impl<T> Entries<T> {
    /// The entries that can be read, each with the place of its value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &T, Range<usize>)> {
        let readable = |(key, written)| {
            let (value, span) = Written::placed(written)?;
            Some((key, value, span))
        };
        self.0.iter().map(|(key, written)| (key, written)).filter_map(readable)
    }
}

impl<T> Given<Entries<T>> {
    /// The entries that can be read; none if the table is left out.
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

/// Where a part of a string stands in the file: exactly, if the string is written there as it is,
/// otherwise the whole string.
pub(crate) fn within(
    source: &str,
    span: &Range<usize>,
    text: &str,
    part: Range<usize>,
) -> Range<usize> {
    let written = source.get(span.clone()).unwrap_or_default();
    let quotes = ["\"\"\"\n", "'''\n", "\"\"\"", "'''", "\"", "'"];
    let quote = quotes.iter().find(|quote| written.starts_with(**quote));
    let start = span.start + quote.map_or(0, |quote| quote.len());
    match source.get(start..start + text.len()) {
        Some(verbatim) if verbatim == text => start + part.start..start + part.end,
        _ => span.clone(),
    }
}

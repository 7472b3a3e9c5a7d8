//! Values with more than one form in the file: a string or a list, a number or a table.
//!
//! Each type implements the forms that it accepts and describes them in `EXPECTED`, which the error for
//! any other form quotes. Serde's own untagged enums would lose spans and error messages.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

/// A value that the file may write in more than one form.
pub(crate) trait Untagged: Sized {
    /// The accepted forms, for error messages.
    const EXPECTED: &'static str;
    /// The keys of its table form, if it has one with fixed keys.
    const FIELDS: &'static [&'static str] = &[];

    fn from_text(_text: &str) -> Option<Self> {
        None
    }

    fn from_integer(_number: i64) -> Option<Self> {
        None
    }

    fn from_float(_number: f64) -> Option<Self> {
        None
    }

    fn from_bool(_flag: bool) -> Option<Self> {
        None
    }

    fn from_list<'de, D: Deserializer<'de>>(_list: D) -> Option<Result<Self, D::Error>> {
        None
    }

    fn from_table<'de, D: Deserializer<'de>>(_table: D) -> Option<Result<Self, D::Error>> {
        None
    }

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As a struct, so that the reader reports unknown keys.
        match Self::FIELDS {
            [] => deserializer.deserialize_any(UntaggedVisitor(PhantomData)),
            fields => deserializer.deserialize_struct("", fields, UntaggedVisitor(PhantomData)),
        }
    }
}

struct UntaggedVisitor<T>(PhantomData<T>);

impl<'de, T: Untagged> Visitor<'de> for UntaggedVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).ok_or_else(|| E::invalid_type(Unexpected::Str(text), &self))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        T::from_integer(number).ok_or_else(|| E::invalid_type(Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        T::from_float(number).ok_or_else(|| E::invalid_type(Unexpected::Float(number), &self))
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<T, E> {
        T::from_bool(flag).ok_or_else(|| E::invalid_type(Unexpected::Bool(flag), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::from_list(SeqAccessDeserializer::new(list))
            .unwrap_or_else(|| Err(A::Error::invalid_type(Unexpected::Seq, &self)))
    }

    fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<T, A::Error> {
        T::from_table(MapAccessDeserializer::new(table))
            .unwrap_or_else(|| Err(A::Error::invalid_type(Unexpected::Map, &self)))
    }
}

macro_rules! deserialize_untagged {
    ($($type:ty),+) => {$(
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::read(deserializer)
            }
        }
    )+};
}

pub(crate) use deserialize_untagged;

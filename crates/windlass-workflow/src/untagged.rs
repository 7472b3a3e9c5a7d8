//! Values that may be written in more than one way: a text or a list, a number or a table.
//!
//! Each type says which ways it takes and what to call them; everything else is a mistake that
//! names them.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};

/// Something that may be written in more than one way.
pub(crate) trait Untagged: Sized {
    /// What to write, in a few words.
    const EXPECTED: &'static str;
    /// The keys, if it may be a table with keys of its own.
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
        // Asked for as a struct, so that the reader can tell an unknown key by itself.
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

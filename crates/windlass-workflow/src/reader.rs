//! Reads the types of a file out of its tables, and goes on after every mistake.
//!
//! The types say which keys there are, so an unknown one is found here, with the key that was
//! probably meant. Knows nothing of what the keys mean.

mod access;
mod unreadable;

use serde::Deserialize;
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::notes::Notes;
use crate::written::WRITTEN;
use access::{Elements, Fields, Place};
pub(crate) use unreadable::Unreadable;

/// What is written in `tables`, as far as it can be read.
pub(crate) fn read<'r, T: Deserialize<'r> + Default>(
    tables: &'r Spanned<DeTable<'_>>,
    notes: &'r Notes,
) -> T {
    T::deserialize(Root { tables: tables.get_ref(), notes }).unwrap_or_default()
}

/// Where a value stands: the keys that lead to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    key: &'p str,
}

impl<'p> Path<'p> {
    pub(crate) const ROOT: Path<'static> = Path { parent: None, key: "" };
    /// In place of a key, for what stands in a list.
    const ENTRY: &'static str = "[]";

    fn keys(&self) -> Vec<&'p str> {
        let mut keys = Vec::new();
        let mut path = *self;
        while let Some(parent) = path.parent {
            keys.push(path.key);
            path = *parent;
        }
        keys.reverse();
        keys
    }
}

/// One value, its path, and where to tell mistakes.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'r, 'i, 'p> {
    value: &'r Spanned<DeValue<'i>>,
    path: &'p Path<'p>,
    notes: &'r Notes,
}

impl<'r> Reader<'r, '_, '_> {
    fn visit<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        let span = self.value.span();
        let visited = match self.value.get_ref() {
            DeValue::String(text) if text.contains('\0') => Err(Unreadable::nul()),
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => visitor.visit_i64(number),
                    Err(_) => Err(Unreadable::too_large(number.as_str())),
                }
            }
            DeValue::Float(number) => {
                visitor.visit_f64(number.as_str().parse().unwrap_or(f64::NAN))
            }
            DeValue::Boolean(flag) => visitor.visit_bool(*flag),
            DeValue::Datetime(_) => Err(Unreadable::date(&visitor)),
            DeValue::Array(list) => visitor.visit_seq(Elements::new(list, self)),
            DeValue::Table(table) => {
                visitor.visit_map(Fields::of_map(table, self.path, self.notes))
            }
        };
        visited.map_err(|error| error.or_at(span))
    }
}

impl<'r> Deserializer<'r> for Reader<'r, '_, '_> {
    type Error = Unreadable;

    fn deserialize_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        self.visit(visitor)
    }

    fn deserialize_option<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'r>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Unreadable> {
        if name == WRITTEN {
            return visitor.visit_seq(Place::new(self.value.span(), self));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'r>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unreadable> {
        match self.value.get_ref() {
            DeValue::Table(table) => {
                visitor.visit_map(Fields::of_struct(table, fields, self.path, self.notes))
            }
            _ => self.visit(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'r>>(
        self,
        _name: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unreadable> {
        let error = match self.value.get_ref() {
            DeValue::String(word) if words.contains(&&**word) => {
                return visitor.visit_enum((&**word).into_deserializer());
            }
            DeValue::String(word) => Unreadable::unknown_word(word, words),
            other => Unreadable::not_a_word(other.type_str(), words),
        };
        Err(error.or_at(self.value.span()))
    }

    forward_to_deserialize_any! {
        <V: Visitor<'r>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

/// The whole file.
struct Root<'r, 'i> {
    tables: &'r DeTable<'i>,
    notes: &'r Notes,
}

impl<'r> Deserializer<'r> for Root<'r, '_> {
    type Error = Unreadable;

    fn deserialize_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, Unreadable> {
        visitor.visit_map(Fields::of_map(self.tables, &Path::ROOT, self.notes))
    }

    fn deserialize_struct<V: Visitor<'r>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unreadable> {
        visitor.visit_map(Fields::of_struct(self.tables, fields, &Path::ROOT, self.notes))
    }

    forward_to_deserialize_any! {
        <V: Visitor<'r>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

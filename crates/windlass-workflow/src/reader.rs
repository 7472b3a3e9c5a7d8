//! Reads the types of a file out of its tables, and goes on after every mistake.
//!
//! The types say which keys there are, so an unknown one is found here, with the key that was
//! probably meant. Knows nothing of what the keys mean.

mod access;
mod value_error;

use serde::Deserialize;
use serde::de::{Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use toml::de::{DeTable, DeValue};

use crate::diagnostics::Diagnostics;
use crate::spanned::SPANNED;
use access::{ListAccess, SpannedAccess, TableAccess};
pub(crate) use value_error::ValueError;

/// What is written in `tables`, as far as it can be read.
pub(crate) fn read<'r, T: Deserialize<'r> + Default>(
    tables: &'r toml::Spanned<DeTable<'_>>,
    diagnostics: &'r Diagnostics,
) -> T {
    T::deserialize(RootReader { tables: tables.get_ref(), diagnostics }).unwrap_or_default()
}

/// Where a value stands: the keys that lead to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPath<'p> {
    parent: Option<&'p KeyPath<'p>>,
    key: &'p str,
}

impl<'p> KeyPath<'p> {
    pub(crate) const ROOT: KeyPath<'static> = KeyPath { parent: None, key: "" };
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
pub(crate) struct ValueReader<'r, 'i, 'p> {
    value: &'r toml::Spanned<DeValue<'i>>,
    path: &'p KeyPath<'p>,
    diagnostics: &'r Diagnostics,
}

impl<'r> ValueReader<'r, '_, '_> {
    fn visit<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let span = self.value.span();
        let visited = match self.value.get_ref() {
            DeValue::String(text) if text.contains('\0') => Err(ValueError::nul()),
            DeValue::String(text) => visitor.visit_str(text),
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => visitor.visit_i64(number),
                    Err(_) => Err(ValueError::too_large(number.as_str())),
                }
            }
            DeValue::Float(number) => {
                visitor.visit_f64(number.as_str().parse().unwrap_or(f64::NAN))
            }
            DeValue::Boolean(flag) => visitor.visit_bool(*flag),
            DeValue::Datetime(_) => Err(ValueError::date(&visitor)),
            DeValue::Array(list) => visitor.visit_seq(ListAccess::new(list, self)),
            DeValue::Table(table) => {
                visitor.visit_map(TableAccess::of_map(table, self.path, self.diagnostics))
            }
        };
        visited.map_err(|error| error.or_at(span))
    }
}

impl<'r> Deserializer<'r> for ValueReader<'r, '_, '_> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, ValueError> {
        self.visit(visitor)
    }

    fn deserialize_option<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'r>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        if name == SPANNED {
            return visitor.visit_seq(SpannedAccess::new(self.value.span(), self));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'r>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        match self.value.get_ref() {
            DeValue::Table(table) => visitor.visit_map(TableAccess::of_struct(
                table,
                fields,
                self.path,
                self.diagnostics,
            )),
            _ => self.visit(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'r>>(
        self,
        _name: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        let error = match self.value.get_ref() {
            DeValue::String(word) if words.contains(&&**word) => {
                return visitor.visit_enum((&**word).into_deserializer());
            }
            DeValue::String(word) => ValueError::unknown_variant(word, words),
            other => ValueError::not_a_variant(other.type_str(), words),
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
struct RootReader<'r, 'i> {
    tables: &'r DeTable<'i>,
    diagnostics: &'r Diagnostics,
}

impl<'r> Deserializer<'r> for RootReader<'r, '_> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, ValueError> {
        visitor.visit_map(TableAccess::of_map(self.tables, &KeyPath::ROOT, self.diagnostics))
    }

    fn deserialize_struct<V: Visitor<'r>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        visitor.visit_map(TableAccess::of_struct(
            self.tables,
            fields,
            &KeyPath::ROOT,
            self.diagnostics,
        ))
    }

    forward_to_deserialize_any! {
        <V: Visitor<'r>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

//! Deserializes the types of `file` from TOML tables, and continues after every error.
//!
//! Reports values of the wrong type and unknown keys, each with a suggestion. Knows nothing of what the
//! keys mean.

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

/// Deserializes as much as possible, and reports the rest.
pub(crate) fn read<'r, T: Deserialize<'r> + Default>(
    tables: &'r toml::Spanned<DeTable<'_>>,
    diagnostics: &'r Diagnostics,
) -> T {
    T::deserialize(RootReader { tables: tables.get_ref(), diagnostics }).unwrap_or_default()
}

/// The keys that lead to a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyPath<'p> {
    parent: Option<&'p KeyPath<'p>>,
    key: &'p str,
}

impl<'p> KeyPath<'p> {
    pub(crate) const ROOT: KeyPath<'static> = KeyPath { parent: None, key: "" };
    /// Stands for a key in the path of a list's entry.
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

/// The deserializer of one value.
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
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        let error = match self.value.get_ref() {
            DeValue::String(text) if variants.contains(&&**text) => {
                return visitor.visit_enum((&**text).into_deserializer());
            }
            DeValue::String(text) => ValueError::unknown_variant(text, variants),
            other => ValueError::not_a_string(other.type_str(), variants),
        };
        Err(error.or_at(self.value.span()))
    }

    forward_to_deserialize_any! {
        <V: Visitor<'r>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

/// The deserializer of the whole file.
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

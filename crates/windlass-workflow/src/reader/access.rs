//! Serde's access to the parts of a value: entries of lists, keys of tables, spans.
//!
//! Tables are read in the order of the file. Unknown keys are reported here, because here the expected
//! keys are known.

use std::ops::Range;
use std::slice;
use std::vec;

use serde::de::value::{StrDeserializer, U64Deserializer};
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use toml::de::{DeString, DeTable, DeValue};

use super::value_error::description;
use super::{KeyPath, ValueError, ValueReader};
use crate::diagnostic::Diagnostic;
use crate::diagnostics::{Diagnostics, similar};
use crate::spanned::SPANNED;

/// The entries of a list.
pub(super) struct ListAccess<'r, 'i, 'p> {
    rest: slice::Iter<'r, toml::Spanned<DeValue<'i>>>,
    list: ValueReader<'r, 'i, 'p>,
}

impl<'r, 'i, 'p> ListAccess<'r, 'i, 'p> {
    pub(super) fn new(
        list: &'r [toml::Spanned<DeValue<'i>>],
        reader: ValueReader<'r, 'i, 'p>,
    ) -> Self {
        Self { rest: list.iter(), list: reader }
    }
}

impl<'r> SeqAccess<'r> for ListAccess<'r, '_, '_> {
    type Error = ValueError;

    fn next_element_seed<T: DeserializeSeed<'r>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ValueError> {
        let path = KeyPath { parent: Some(self.list.path), key: KeyPath::ENTRY };
        let diagnostics = self.list.diagnostics;
        let next = self.rest.next().map(|value| ValueReader { value, path: &path, diagnostics });
        next.map(|reader| seed.deserialize(reader)).transpose()
    }
}

#[derive(Clone, Copy)]
struct TableEntry<'r, 'i> {
    key: KeyReader<'r, 'i>,
    value: &'r toml::Spanned<DeValue<'i>>,
}

/// The entries of a table, in the order of the file.
pub(super) struct TableAccess<'r, 'i, 'p> {
    rest: vec::IntoIter<TableEntry<'r, 'i>>,
    value: Option<TableEntry<'r, 'i>>,
    path: &'p KeyPath<'p>,
    diagnostics: &'r Diagnostics,
}

impl<'r, 'i, 'p> TableAccess<'r, 'i, 'p> {
    pub(super) fn of_map(
        table: &'r DeTable<'i>,
        path: &'p KeyPath<'p>,
        diagnostics: &'r Diagnostics,
    ) -> Self {
        let entry = |(key, value)| TableEntry { key: KeyReader { key, meant: None }, value };
        let mut entries: Vec<_> = table.iter().map(entry).collect();
        entries.sort_by_key(|entry| entry.key.key.span().start);
        Self { rest: entries.into_iter(), value: None, path, diagnostics }
    }

    /// Keeps the entries whose keys are among `fields`, and reports the others. A misspelled key is
    /// read as the field that it resembles, unless the table has that one, too; otherwise a required
    /// field would also be reported as missing.
    pub(super) fn of_struct(
        table: &'r DeTable<'i>,
        fields: &'static [&'static str],
        path: &'p KeyPath<'p>,
        diagnostics: &'r Diagnostics,
    ) -> Self {
        let mut all = Self::of_map(table, path, diagnostics);
        let mut known = Vec::new();
        for mut entry in all.rest {
            let name = &**entry.key.key.get_ref();
            if fields.contains(&name) {
                known.push(entry);
                continue;
            }
            let meant = meant(name, fields);
            diagnostics.error(unknown_key(entry.key.key, meant, fields, path));
            entry.key.meant = meant.filter(|&meant| !table.contains_key(meant));
            known.extend(entry.key.meant.map(|_| entry));
        }
        all.rest = known.into_iter();
        all
    }
}

fn meant(name: &str, fields: &[&'static str]) -> Option<&'static str> {
    let foreign_key = foreign_key(name).filter(|known| fields.contains(known));
    foreign_key.or_else(|| similar(name, fields.iter().copied()))
}

fn unknown_key(
    key: &toml::Spanned<DeString<'_>>,
    meant: Option<&str>,
    fields: &[&str],
    path: &KeyPath<'_>,
) -> Diagnostic {
    let name = key.get_ref();
    let message = format!("{} has no key `{name}`", description(&path.keys()));
    let help = match meant {
        Some(meant) if foreign_key(name) == Some(meant) => format!("`{meant}` is the key for that"),
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("its keys are {}", fields.join(", ")),
    };
    Diagnostic::new(key.span(), message, "unknown key").help(help)
}

/// Returns the key that corresponds to a key of another tool.
fn foreign_key(key: &str) -> Option<&'static str> {
    Some(match key {
        "needs" | "depends" | "depends_on" | "dependencies" | "deps" | "requires" => "after",
        "cmd" | "command" | "script" | "exec" | "shell_command" | "sh" => "run",
        "environment" | "vars" | "variables" => "env",
        "cwd" | "workdir" | "working_dir" | "working-directory" | "directory" => "dir",
        "if" | "only_if" | "condition" => "when",
        "matrix" | "foreach" | "for_each" | "with_items" => "each",
        "steps" | "job" | "jobs" | "task" | "tasks" => "step",
        "retries" | "attempts" | "max_retries" => "retry",
        "resources" | "limits" => "resource",
        "inputs" | "parameters" | "args" => "params",
        "jobs_limit" | "parallel" | "max_parallel" | "workers" | "threads" => "concurrency",
        "on_error" | "fail_fast" => "on_failure",
        "mutex" | "locks" => "lock",
        "hooks" | "handlers" => "on",
        _ => return None,
    })
}

impl<'r> MapAccess<'r> for TableAccess<'r, '_, '_> {
    type Error = ValueError;

    fn next_key_seed<K: DeserializeSeed<'r>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ValueError> {
        self.value = self.rest.next();
        self.value.map(|entry| seed.deserialize(entry.key)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'r>>(&mut self, seed: V) -> Result<V::Value, ValueError> {
        let TableEntry { key, value } =
            self.value.take().expect("a value is asked for after its key");
        let path = KeyPath { parent: Some(self.path), key: key.name() };
        seed.deserialize(ValueReader { value, path: &path, diagnostics: self.diagnostics })
    }
}

/// The three elements of a [`Spanned`](crate::spanned::Spanned): start, end, value. An error of the
/// value is reported here, because here its span and path are known.
pub(super) struct SpannedAccess<V> {
    span: Range<usize>,
    next: u8,
    value: V,
}

impl<V> SpannedAccess<V> {
    pub(super) fn new(span: Range<usize>, value: V) -> Self {
        Self { span, next: 0, value }
    }
}

impl<'r, V: Deserializer<'r, Error = ValueError> + ReportError + Copy> SeqAccess<'r>
    for SpannedAccess<V>
{
    type Error = ValueError;

    fn next_element_seed<T: DeserializeSeed<'r>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ValueError> {
        self.next += 1;
        let number = match self.next {
            1 => self.span.start,
            2 => self.span.end,
            _ => {
                let value = self.value;
                return seed.deserialize(value).map(Some).inspect_err(|error| value.report(error));
            }
        };
        let number: U64Deserializer<ValueError> = (number as u64).into_deserializer();
        seed.deserialize(number).map(Some)
    }
}

/// A deserializer that can report an error of its value.
pub(super) trait ReportError {
    fn report(&self, error: &ValueError);
}

impl ReportError for ValueReader<'_, '_, '_> {
    fn report(&self, error: &ValueError) {
        self.diagnostics.error(error.diagnostic(self.path, self.value.span()));
    }
}

impl ReportError for KeyReader<'_, '_> {
    /// Does nothing: every type of a key accepts any text.
    fn report(&self, _error: &ValueError) {}
}

#[derive(Clone, Copy)]
struct KeyReader<'r, 'i> {
    key: &'r toml::Spanned<DeString<'i>>,
    /// The field that a misspelled key is read as.
    meant: Option<&'static str>,
}

impl<'r> KeyReader<'r, '_> {
    fn name(self) -> &'r str {
        self.meant.unwrap_or(self.key.get_ref())
    }
}

impl<'r> Deserializer<'r> for KeyReader<'r, '_> {
    type Error = ValueError;

    fn deserialize_any<V: Visitor<'r>>(self, visitor: V) -> Result<V::Value, ValueError> {
        let text: StrDeserializer<'_, ValueError> = self.name().into_deserializer();
        text.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'r>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ValueError> {
        if name == SPANNED {
            return visitor.visit_seq(SpannedAccess::new(self.key.span(), self));
        }
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        <V: Visitor<'r>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

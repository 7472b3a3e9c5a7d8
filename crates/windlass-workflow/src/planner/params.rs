//! Plans parameters: their types, choices and defaults.

use std::ops::Range;

use super::texts::TextReader;
use super::values::{is_identifier, scalar_text};
use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::file::{File, ParamEntry, ParamTable, Scalar};
use crate::param::{Param, ParamType};
use crate::spanned::{Key, Spanned};
use crate::variable::BUILT_IN;

pub(super) fn params(file: &File, diagnostics: &Diagnostics) -> Vec<Param> {
    let mut params = Vec::new();
    for (key, entry, span) in file.params.entries() {
        check_name(key, diagnostics);
        params.push(match entry {
            ParamEntry::Default(scalar) => Param {
                name: key.as_str().to_owned(),
                kind: kind_of(scalar),
                choices: Vec::new(),
                default: Some(scalar_text(scalar)),
                description: None,
            },
            ParamEntry::Table(table) => ParamReader { key, diagnostics }.param(table, span),
        });
    }
    params
}

/// Warns of parameters that no text refers to, neither by name nor by environment variable.
pub(super) fn warn_unused(file: &File, texts: &TextReader<'_>) {
    for (key, ..) in file.params.entries() {
        let name = key.as_str();
        let variable = format!("WINDLASS_PARAM_{name}");
        if !texts.uses_param(name) && !texts.mentions(&variable) {
            let message = format!("nothing in this file uses the parameter `{name}`");
            let help = format!("write {{{name}}} where its value belongs, or remove the parameter");
            texts.diagnostics.lint(Diagnostic::new(key.span.clone(), message, "unused").help(help));
        }
    }
}

fn check_name(key: &Key, diagnostics: &Diagnostics) {
    let name = key.as_str();
    let (message, help) = if BUILT_IN.contains(&name) {
        let message = format!("`{name}` cannot be a parameter: it is a built-in name");
        (message, "use another name")
    } else if !is_identifier(name) {
        let message = format!("`{name}` cannot be the name of a parameter");
        (message, "use letters, digits and _, beginning with a letter")
    } else {
        return;
    };
    diagnostics.error(Diagnostic::new(key.span.clone(), message, "invalid name").help(help));
}

fn kind_of(scalar: &Scalar) -> ParamType {
    match scalar {
        Scalar::Text(_) => ParamType::String,
        Scalar::Integer(_) => ParamType::Integer,
        Scalar::Float(_) => ParamType::Float,
        Scalar::Boolean(_) => ParamType::Boolean,
    }
}

struct ParamReader<'a> {
    key: &'a Key,
    diagnostics: &'a Diagnostics,
}

impl ParamReader<'_> {
    fn param(&self, table: &ParamTable, span: Range<usize>) -> Param {
        let choices = table.choices.value().map(Vec::as_slice).unwrap_or_default();
        let sample =
            table.default.value().or_else(|| choices.first().and_then(|c| c.value.as_ref()));
        let kind = table.kind.value().copied();
        let kind = kind.or(sample.map(kind_of)).unwrap_or(ParamType::String);
        if let (Some([]), false) = (table.choices.value().map(Vec::as_slice), span.is_empty()) {
            let message = format!("parameter `{}` has no choices", self.key.as_str());
            let help = "list the values it takes, or leave out `choices`";
            self.diagnostics.error(Diagnostic::new(span, message, "an empty list").help(help));
        }
        let texts = choices.iter().filter_map(Spanned::with_span);
        let choices: Vec<_> =
            texts.filter_map(|(choice, span)| self.value(choice, kind, span)).collect();
        Param {
            name: self.key.as_str().to_owned(),
            kind,
            default: self.default(table, kind, &choices),
            choices,
            description: table.description.value().cloned(),
        }
    }

    fn default(&self, table: &ParamTable, kind: ParamType, choices: &[String]) -> Option<String> {
        let (scalar, span) = table.default.with_span()?;
        let default = self.value(scalar, kind, span.clone())?;
        if !choices.is_empty() && !choices.contains(&default) {
            let name = self.key.as_str();
            let message = format!("the default of parameter `{name}` is none of its choices");
            let help = self.diagnostics.suggest(&default, choices.iter().map(String::as_str));
            let help = help.unwrap_or_else(|| format!("its choices are {}", choices.join(", ")));
            self.diagnostics.error(Diagnostic::new(span, message, "not a choice").help(help));
        }
        Some(default)
    }

    fn value(&self, scalar: &Scalar, kind: ParamType, span: Range<usize>) -> Option<String> {
        let fits = kind_of(scalar) == kind
            || (kind == ParamType::Float && kind_of(scalar) == ParamType::Integer);
        if !fits {
            let name = self.key.as_str();
            let message = format!("parameter `{name}` takes {kind}, and this is not one");
            let help = "set `type` to what it takes: string, integer, float or boolean";
            let error = Diagnostic::new(span, message, format!("not {kind}"));
            self.diagnostics.error(error.help(help));
        }
        fits.then(|| scalar_text(scalar))
    }
}

//! Texts whose placeholders are not replaced, because they are needed before any value is known.
//!
//! In the values of `each`, `{v}` is an error; elsewhere it stays as it is, with a warning.

use std::collections::BTreeSet;
use std::ops::Range;

use super::texts::TextReader;
use super::values::scalar_text;
use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::file::{File, OneOrMany, ParamEntry, ResourceEntry, Scalar};
use crate::spanned::{Spanned, span_within};
use crate::template::{Resolver, Template};
use crate::variable::Variable;

/// Parses the values of `each`. They are part of the names of steps, so no placeholder can be replaced.
pub(super) struct EachValueReader<'a> {
    source: &'a str,
    diagnostics: &'a Diagnostics,
    /// The names of all parameters.
    pub(super) params: BTreeSet<&'a str>,
    /// The names of all declared steps.
    steps: BTreeSet<&'a str>,
}

impl<'a> EachValueReader<'a> {
    pub(super) fn new(file: &'a File, source: &'a str, diagnostics: &'a Diagnostics) -> Self {
        let params = file.params.entries().map(|(key, ..)| key.as_str()).collect();
        let steps = file.step.entries().map(|(key, ..)| key.as_str()).collect();
        Self { source, diagnostics, params, steps }
    }

    /// Returns the text of one value of `step`, in which `{{v}}` is the text `{v}`. Reports each `{v}`
    /// of a known name, and then returns none.
    pub(super) fn read(&self, scalar: &Scalar, span: &Range<usize>, step: &str) -> Option<String> {
        let Scalar::Text(text) = scalar else { return Some(scalar_text(scalar)) };
        let template =
            Template::parse_with(text, &mut EachResolver { texts: self, text, span, step });
        template.fill(|_| None).ok()
    }

    fn variable(&self, name: &str) -> Option<Variable> {
        match name.split_once('.') {
            Some((step, key)) => self
                .steps
                .contains(step)
                .then(|| Variable::Output { step: step.to_owned(), key: key.to_owned() }),
            None if self.params.contains(name) => Some(Variable::Param(name.to_owned())),
            None => Variable::built_in(name),
        }
    }
}

struct EachResolver<'a> {
    texts: &'a EachValueReader<'a>,
    text: &'a str,
    span: &'a Range<usize>,
    step: &'a str,
}

impl Resolver for EachResolver<'_> {
    fn resolve(&mut self, name: &str, range: Range<usize>) -> Option<Variable> {
        let variable = self.texts.variable(name)?;
        let span = span_within(self.texts.source, self.span, self.text, range);
        let message = format!("step `{}`: its `each` uses `{{{name}}}`", self.step);
        let help = format!(
            "a value of `each` is part of a step's name, which cannot contain a placeholder; list the values \
             here and use {{{name}}} in the step's texts; {{{{{name}}}}} is the text {{{name}}}"
        );
        self.texts.diagnostics.error(Diagnostic::new(span, message, "not known yet").help(help));
        Some(variable)
    }

    fn is_known(&mut self, name: &str) -> bool {
        self.texts.variable(name).is_some()
    }

    fn dollar_name(&mut self, name: &str, range: Range<usize>) {
        if !self.is_known(name) {
            return;
        }
        let span = span_within(self.texts.source, self.span, self.text, range);
        let message = format!("step `{}`: `${{{name}}}` is not replaced", self.step);
        let help = "the values of `each` are literal, because they name steps";
        self.texts.diagnostics.warn(Diagnostic::new(span, message, "not a placeholder").help(help));
    }
}

/// Warns of each known `{v}` in texts that do not belong to a step, and in `shell`.
pub(super) fn warn(file: &File, texts: &TextReader<'_>) {
    let mut all: Vec<(String, String, Range<usize>)> = Vec::new();
    if let Some((name, span)) = file.name.with_span() {
        all.push(("`name`".to_owned(), name.clone(), span));
    }
    for (key, entry, span) in file.params.entries() {
        let owner = format!("parameter `{}`", key.as_str());
        let with_span: Vec<(&Scalar, Range<usize>)> = match entry {
            ParamEntry::Default(scalar) => vec![(scalar, span)],
            ParamEntry::Table(table) => {
                let choices = table.choices.value().into_iter().flatten();
                let choices = choices.filter_map(Spanned::with_span);
                table.default.with_span().into_iter().chain(choices).collect()
            }
        };
        all.extend(with_span.into_iter().map(|(s, span)| (owner.clone(), scalar_text(s), span)));
    }
    for (key, entry, _) in file.resource.entries() {
        let ResourceEntry::Table(table) = entry else { continue };
        let items = table.items.value().into_iter().flatten().filter_map(Spanned::with_span);
        let owner = format!("resource `{}`", key.as_str());
        all.extend(items.map(|(item, span)| (owner.clone(), scalar_text(item), span)));
    }
    for (key, ..) in file.semaphore.entries() {
        let owner = format!("semaphore `{}`", key.as_str());
        all.push((owner, key.as_str().to_owned(), key.span.clone()));
    }
    for (key, table, _) in file.step.entries() {
        let owner = format!("step `{}`: its `shell`", key.as_str());
        let Some((shell, span)) = table.shell.with_span() else { continue };
        let words = match shell {
            OneOrMany::One(text) => vec![(text, span)],
            OneOrMany::Many(list) => list.iter().filter_map(Spanned::with_span).collect(),
        };
        all.extend(words.into_iter().map(|(word, span)| (owner.clone(), word.clone(), span)));
    }
    for (owner, text, span) in &all {
        texts.warn_of_placeholders(owner, text, span);
    }
}

//! Parses texts with placeholders: which names are known where, and what to report about others.
//!
//! Records which parameters and outputs the texts refer to, for checks that need the whole file.

mod resolver;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::declared::DeclaredSteps;
use super::scope::{NameScope, ScopeKind};
use crate::diagnostic::Diagnostic;
use crate::diagnostics::{Diagnostics, similar};
use crate::param::Param;
use crate::shell::ShellText;
use crate::spanned::span_within;
use crate::template::{Template, placeholder};
use crate::variable::{BUILT_IN, Variable};
use resolver::{Consumer, TextResolver};

/// What happens to a `{name}` that is not known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UnknownName {
    /// It is an error.
    Reject,
    /// It stays as it is, with a warning if it is similar to a known name.
    Keep,
}

/// A reference to an output, `{source.key}`.
pub(super) struct OutputReference {
    /// The declared step in whose text it is.
    pub(super) user: usize,
    /// The declared step that writes the output.
    pub(super) source: usize,
    pub(super) key: String,
    pub(super) span: Range<usize>,
}

/// Parses the texts of one file.
pub(super) struct TextReader<'a> {
    pub(super) diagnostics: &'a Diagnostics,
    source: &'a str,
    params: BTreeMap<&'a str, &'a Param>,
    declared: &'a DeclaredSteps<'a>,
    used_params: RefCell<BTreeSet<String>>,
    pub(super) outputs: RefCell<Vec<OutputReference>>,
}

impl<'a> TextReader<'a> {
    pub(super) fn new(
        source: &'a str,
        diagnostics: &'a Diagnostics,
        params: &'a [Param],
        declared: &'a DeclaredSteps<'a>,
    ) -> Self {
        Self {
            diagnostics,
            source,
            params: params.iter().map(|param| (param.name.as_str(), param)).collect(),
            declared,
            used_params: RefCell::default(),
            outputs: RefCell::default(),
        }
    }

    pub(super) fn uses_param(&self, name: &str) -> bool {
        self.used_params.borrow().contains(name)
    }

    /// Returns whether the file contains `word` anywhere.
    pub(super) fn mentions(&self, word: &str) -> bool {
        self.source.contains(word)
    }

    /// Parses text for a POSIX shell. Reports every placeholder that cannot be quoted, and returns
    /// none if there is one.
    pub(super) fn shell(
        &self,
        text: &str,
        span: Range<usize>,
        scope: &NameScope<'_>,
    ) -> Option<ShellText> {
        self.warn_of_instances(text, &span, scope);
        let consumer = Consumer::Interpreter;
        ShellText::parse_with(text, &mut TextResolver { texts: self, text, span, scope, consumer })
    }

    /// Parses text for an interpreter, which may have a variable `${v}` of its own.
    pub(super) fn foreign(
        &self,
        text: &str,
        span: Range<usize>,
        scope: &NameScope<'_>,
    ) -> Template {
        self.warn_of_instances(text, &span, scope);
        let consumer = Consumer::Interpreter;
        Template::parse_with(text, &mut TextResolver { texts: self, text, span, scope, consumer })
    }

    /// Parses text into which values are inserted literally.
    pub(super) fn template(
        &self,
        text: &str,
        span: &Range<usize>,
        scope: &NameScope<'_>,
        unknown: UnknownName,
    ) -> Template {
        self.warn_of_instances(text, span, scope);
        let (span, consumer) = (span.clone(), Consumer::Windlass(unknown));
        Template::parse_with(text, &mut TextResolver { texts: self, text, span, scope, consumer })
    }

    fn variable(
        &self,
        name: &str,
        span: Range<usize>,
        scope: &NameScope<'_>,
        unknown: UnknownName,
    ) -> Option<Variable> {
        if let Some((step, key)) = name.split_once('.') {
            return self.output(step, key, span, scope, unknown);
        }
        if scope.has_each(name) {
            return Some(Variable::Each(name.to_owned()));
        }
        if self.params.contains_key(name) {
            self.used_params.borrow_mut().insert(name.to_owned());
            return Some(Variable::Param(name.to_owned()));
        }
        let variable = scope.built_in(name);
        if variable.is_none() {
            self.report_unknown(name, span, scope, unknown);
        }
        variable
    }

    /// Returns whether [`variable`](Self::variable) would resolve `name` or report that it has no
    /// value in this scope.
    fn is_known(&self, name: &str, scope: &NameScope<'_>) -> bool {
        match name.split_once('.') {
            Some((step, _)) => self.declared.position(step).is_some(),
            None => {
                scope.has_each(name) || self.params.contains_key(name) || BUILT_IN.contains(&name)
            }
        }
    }

    fn report_unknown(
        &self,
        name: &str,
        span: Range<usize>,
        scope: &NameScope<'_>,
        unknown: UnknownName,
    ) {
        let owner = &scope.owner;
        if BUILT_IN.contains(&name) {
            let message = format!("{owner} cannot use `{{{name}}}`: a hook belongs to no step");
            let help = "use it in the texts of a step or a guard";
            self.diagnostics.error(Diagnostic::new(span, message, "has no value here").help(help));
            return;
        }
        let built_in = BUILT_IN.into_iter().filter(|name| scope.built_in(name).is_some());
        let known = self.params.keys().copied().chain(scope.each_names()).chain(built_in);
        let known: Vec<_> = known.collect();
        match (unknown, similar(name, known.iter().copied())) {
            (UnknownName::Reject, similar) => {
                let message = format!("{owner}: `{{{name}}}` is not a known name");
                let help = similar.map_or_else(
                    || format!("the known names are {}", known.join(", ")),
                    |similar| format!("did you mean `{{{similar}}}`?"),
                );
                self.diagnostics.error(Diagnostic::new(span, message, "unknown name").help(help));
            }
            (UnknownName::Keep, Some(similar)) => {
                let message = format!("{owner}: `{{{name}}}` is not replaced");
                let help = format!("did you mean `{{{similar}}}`?");
                self.diagnostics.warn(Diagnostic::new(span, message, "unknown name").help(help));
            }
            (UnknownName::Keep, None) => {}
        }
    }

    /// Resolves `{step.key}`. Whether the step is upstream is checked once the order is known.
    fn output(
        &self,
        step: &str,
        key: &str,
        span: Range<usize>,
        scope: &NameScope<'_>,
        unknown: UnknownName,
    ) -> Option<Variable> {
        let Some(source) = self.declared.position(step) else {
            self.report_unknown_step(step, key, span, scope, unknown);
            return None;
        };
        let owner = &scope.owner;
        let instances = self.declared.steps[source].combinations.len();
        if instances != 1 || !self.declared.steps[source].each.is_empty() {
            let message =
                format!("{owner}: `{{{step}.{key}}}` could come from any of {instances} steps");
            let help = format!(
                "`{step}` has an `each`; let a step that follows it write one `{key}` for all"
            );
            let label = "which of them?";
            self.diagnostics.error(Diagnostic::new(span, message, label).help(help));
            return None;
        }
        match &scope.kind {
            ScopeKind::Step { declared: user, .. } => {
                let key = key.to_owned();
                self.outputs.borrow_mut().push(OutputReference { user: *user, source, key, span });
            }
            ScopeKind::Guard { .. } => {}
            ScopeKind::Steps | ScopeKind::Run => {
                let message = format!("{owner} cannot use `{{{step}.{key}}}`");
                let help = format!("use it in a step that comes after `{step}`");
                let label = "not known here";
                self.diagnostics.error(Diagnostic::new(span, message, label).help(help));
                return None;
            }
        }
        Some(Variable::Output { step: step.to_owned(), key: key.to_owned() })
    }

    /// Warns of `{step[value].key}`, which looks like an output and is not a placeholder.
    fn warn_of_instances(&self, text: &str, span: &Range<usize>, scope: &NameScope<'_>) {
        for (open, _) in text.match_indices('{') {
            let Some(step) = instance(&text[open..]) else { continue };
            if self.declared.position(step).is_none() || text[..open].ends_with('$') {
                continue;
            }
            let span = self.span_within(span, text, open..open + 1 + step.len());
            let message = format!("{}: `{{{step}[…].…}}` is not replaced", scope.owner);
            let help = format!("let a step that follows `{step}` write one value for all");
            self.diagnostics.warn(Diagnostic::new(span, message, "not a placeholder").help(help));
        }
    }

    fn report_unknown_step(
        &self,
        step: &str,
        key: &str,
        span: Range<usize>,
        scope: &NameScope<'_>,
        unknown: UnknownName,
    ) {
        let owner = &scope.owner;
        let similar = similar(step, self.declared.names());
        let help = similar.map(|similar| format!("did you mean `{{{similar}.{key}}}`?"));
        if unknown == UnknownName::Reject {
            let message = format!("{owner}: `{{{step}.{key}}}`: there is no step `{step}`");
            self.diagnostics.error(Diagnostic::new(span, message, "no such step").help_if(help));
        } else if similar.is_some() {
            let message = format!("{owner}: `{{{step}.{key}}}` is not replaced");
            self.diagnostics.warn(Diagnostic::new(span, message, "no such step").help_if(help));
        }
    }

    fn span_within(&self, span: &Range<usize>, text: &str, part: Range<usize>) -> Range<usize> {
        span_within(self.source, span, text, part)
    }

    /// Warns of each known name in a text whose placeholders are not replaced.
    pub(super) fn warn_of_placeholders(&self, owner: &str, text: &str, span: &Range<usize>) {
        for (open, _) in text.match_indices('{') {
            let Some(name) = placeholder(&text[open..]) else { continue };
            let scope = NameScope::steps(String::new());
            if text[..open].ends_with('$') || !self.is_known(name, &scope) {
                continue;
            }
            let span = self.span_within(span, text, open..open + name.len() + 2);
            let message = format!("{owner}: `{{{name}}}` is not replaced");
            let help =
                "placeholders are replaced in the texts of steps, guards and hooks, but not here";
            self.diagnostics.lint(Diagnostic::new(span, message, "not a placeholder").help(help));
        }
    }
}

/// Returns the name of the step if `text` begins like `{step[value].key}`.
fn instance(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('{')?;
    let end = inner.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-'))?;
    let values = inner[end..].strip_prefix('[')?.as_bytes();
    // A name of a step is short. The bound keeps a text with many braces from taking quadratic time.
    let values = &values[..values.len().min(256)];
    values.windows(2).any(|pair| pair == b"].").then_some(&inner[..end])
}

//! Reads texts with `{…}` in them: which names are known where, and what to say about others.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::declared::DeclaredSteps;
use crate::diagnostic::Diagnostic;
use crate::diagnostics::{Diagnostics, similar};
use crate::param::Param;
use crate::shell::{MisplacedValue, ShellResolver, ShellText};
use crate::spanned::span_within;
use crate::template::{Resolver, Template, placeholder};
use crate::variable::{BUILT_IN, Variable};

/// Whose text it is, and what can be referred to in it.
pub(super) struct NameScope<'a> {
    /// As people speak of it: step `deploy`.
    pub(super) owner: String,
    kind: ScopeKind<'a>,
}

enum ScopeKind<'a> {
    /// The text of one declared step.
    Step { declared: usize, each: &'a [String] },
    /// The text of a guard, which may be used by several steps.
    Guard { each: &'a BTreeSet<String> },
    /// A text that every step reads.
    Steps,
    /// A text that no step reads.
    Run,
}

impl<'a> NameScope<'a> {
    pub(super) fn step(owner: String, declared: usize, each: &'a [String]) -> Self {
        Self { owner, kind: ScopeKind::Step { declared, each } }
    }

    pub(super) fn guard(owner: String, each: &'a BTreeSet<String>) -> Self {
        Self { owner, kind: ScopeKind::Guard { each } }
    }

    pub(super) fn steps(owner: String) -> Self {
        Self { owner, kind: ScopeKind::Steps }
    }

    pub(super) fn run(owner: String) -> Self {
        Self { owner, kind: ScopeKind::Run }
    }

    fn has_each(&self, name: &str) -> bool {
        match &self.kind {
            ScopeKind::Step { each, .. } => each.iter().any(|known| known == name),
            ScopeKind::Guard { each } => each.contains(name),
            ScopeKind::Steps | ScopeKind::Run => false,
        }
    }

    fn each_names(&self) -> Vec<&str> {
        match &self.kind {
            ScopeKind::Step { each, .. } => each.iter().map(String::as_str).collect(),
            ScopeKind::Guard { each } => each.iter().map(String::as_str).collect(),
            ScopeKind::Steps | ScopeKind::Run => Vec::new(),
        }
    }

    fn built_in(&self, name: &str) -> Option<Variable> {
        let of_a_step = matches!(name, "step" | "attempt");
        let known = !of_a_step || !matches!(self.kind, ScopeKind::Run);
        Variable::built_in(name).filter(|_| known)
    }
}

/// What happens to a `{name}` that nobody knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UnknownName {
    /// It is a mistake.
    Reject,
    /// It is left alone, with a warning if it looks like one that is known.
    Keep,
}

/// A text says `{source.key}`.
pub(super) struct OutputReference {
    /// The declared step whose text it is.
    pub(super) user: usize,
    pub(super) source: usize,
    pub(super) key: String,
    pub(super) span: Range<usize>,
}

/// Reads the texts of one file.
pub(super) struct TextReader<'a> {
    pub(super) diagnostics: &'a Diagnostics,
    source: &'a str,
    params: BTreeMap<&'a str, &'a Param>,
    declared: &'a DeclaredSteps<'a>,
    used: RefCell<BTreeSet<String>>,
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
            used: RefCell::default(),
            outputs: RefCell::default(),
        }
    }

    pub(super) fn uses_param(&self, name: &str) -> bool {
        self.used.borrow().contains(name)
    }

    /// Whether the file has `word` in it anywhere.
    pub(super) fn mentions(&self, word: &str) -> bool {
        self.source.contains(word)
    }

    /// Shell text; none if a value cannot be put where it stands, which is told of each.
    pub(super) fn shell(
        &self,
        text: &str,
        span: Range<usize>,
        scope: &NameScope<'_>,
    ) -> Option<ShellText> {
        self.warn_of_instances(text, &span, scope);
        ShellText::parse_with(
            text,
            &mut TextResolver { texts: self, text, span, scope, consumer: Consumer::Interpreter },
        )
    }

    /// Text that an interpreter reads, whose own `${v}` may be.
    pub(super) fn foreign(
        &self,
        text: &str,
        span: Range<usize>,
        scope: &NameScope<'_>,
    ) -> Template {
        self.warn_of_instances(text, &span, scope);
        Template::parse_with(
            text,
            &mut TextResolver { texts: self, text, span, scope, consumer: Consumer::Interpreter },
        )
    }

    /// Text in which a value stands as it is.
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
        place: Range<usize>,
        scope: &NameScope<'_>,
        unknown: UnknownName,
    ) -> Option<Variable> {
        if let Some((step, key)) = name.split_once('.') {
            return self.output(step, key, place, scope, unknown);
        }
        if scope.has_each(name) {
            return Some(Variable::Each(name.to_owned()));
        }
        if self.params.contains_key(name) {
            self.used.borrow_mut().insert(name.to_owned());
            return Some(Variable::Param(name.to_owned()));
        }
        let variable = scope.built_in(name);
        if variable.is_none() {
            self.unknown(name, place, scope, unknown);
        }
        variable
    }

    /// Whether [`variable`](Self::variable) would take `name` for something, be it a mistake.
    fn is_known(&self, name: &str, scope: &NameScope<'_>) -> bool {
        match name.split_once('.') {
            Some((step, _)) => self.declared.place(step).is_some(),
            None => {
                scope.has_each(name) || self.params.contains_key(name) || BUILT_IN.contains(&name)
            }
        }
    }

    fn unknown(
        &self,
        name: &str,
        place: Range<usize>,
        scope: &NameScope<'_>,
        unknown: UnknownName,
    ) {
        let owner = &scope.owner;
        if BUILT_IN.contains(&name) {
            let message = format!("{owner} cannot use `{{{name}}}`: it belongs to no step");
            let help = "use it in the texts of a step or a guard";
            self.diagnostics
                .error(Diagnostic::new(place, message, "means nothing here").help(help));
            return;
        }
        let built_in = BUILT_IN.into_iter().filter(|name| scope.built_in(name).is_some());
        let known = self.params.keys().copied().chain(scope.each_names()).chain(built_in);
        let known: Vec<_> = known.collect();
        match (unknown, similar(name, known.iter().copied())) {
            (UnknownName::Reject, near) => {
                let message = format!("{owner}: `{{{name}}}` stands for nothing that is known");
                let help = near.map_or_else(
                    || format!("what is known here: {}", known.join(", ")),
                    |near| format!("did you mean `{{{near}}}`?"),
                );
                self.diagnostics.error(Diagnostic::new(place, message, "unknown name").help(help));
            }
            (UnknownName::Keep, Some(near)) => {
                let message = format!("{owner}: `{{{name}}}` is left as it is");
                let help = format!("did you mean `{{{near}}}`?");
                self.diagnostics.warn(Diagnostic::new(place, message, "unknown name").help(help));
            }
            (UnknownName::Keep, None) => {}
        }
    }

    /// `{step.key}`: whether the step is upstream is checked once the order is known.
    fn output(
        &self,
        step: &str,
        key: &str,
        span: Range<usize>,
        scope: &NameScope<'_>,
        unknown: UnknownName,
    ) -> Option<Variable> {
        let Some(source) = self.declared.place(step) else {
            self.unknown_step(step, key, span, scope, unknown);
            return None;
        };
        let owner = &scope.owner;
        let many = self.declared.steps[source].combinations.len();
        if many != 1 || !self.declared.steps[source].each.is_empty() {
            let message =
                format!("{owner}: `{{{step}.{key}}}` could come from any of {many} steps");
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

    /// `{step[value].key}` looks like a value, and is none.
    fn warn_of_instances(&self, text: &str, span: &Range<usize>, scope: &NameScope<'_>) {
        for (open, _) in text.match_indices('{') {
            let Some(step) = instance(&text[open..]) else { continue };
            if self.declared.place(step).is_none() || text[..open].ends_with('$') {
                continue;
            }
            let place = self.span_within(span, text, open..open + 1 + step.len());
            let message = format!("{}: `{{{step}[…].…}}` is left as it is", scope.owner);
            let help = format!("let a step that follows `{step}` write one value for all");
            self.diagnostics.warn(Diagnostic::new(place, message, "not a value").help(help));
        }
    }

    fn unknown_step(
        &self,
        step: &str,
        key: &str,
        place: Range<usize>,
        scope: &NameScope<'_>,
        unknown: UnknownName,
    ) {
        let owner = &scope.owner;
        let near = similar(step, self.declared.names());
        let help = near.map(|near| format!("did you mean `{{{near}.{key}}}`?"));
        if unknown == UnknownName::Reject {
            let message = format!("{owner}: `{{{step}.{key}}}`: there is no step `{step}`");
            self.diagnostics.error(Diagnostic::new(place, message, "no such step").help_if(help));
        } else if near.is_some() {
            let message = format!("{owner}: `{{{step}.{key}}}` is left as it is");
            self.diagnostics.warn(Diagnostic::new(place, message, "no such step").help_if(help));
        }
    }

    fn span_within(&self, span: &Range<usize>, text: &str, part: Range<usize>) -> Range<usize> {
        span_within(self.source, span, text, part)
    }

    /// Warns of each name in a text that is taken as it is written.
    pub(super) fn warn_fixed(&self, owner: &str, text: &str, span: &Range<usize>) {
        for (open, _) in text.match_indices('{') {
            let Some(name) = placeholder(&text[open..]) else { continue };
            if text[..open].ends_with('$') || !self.is_known(name, &NameScope::steps(String::new()))
            {
                continue;
            }
            let place = self.span_within(span, text, open..open + name.len() + 2);
            let message = format!("{owner}: `{{{name}}}` is left as it is");
            let help = "values stand in the texts of steps, guards and hooks; here they do not";
            self.diagnostics.lint(Diagnostic::new(place, message, "not a value").help(help));
        }
    }
}

/// The names in one text.
struct TextResolver<'a> {
    texts: &'a TextReader<'a>,
    text: &'a str,
    span: Range<usize>,
    scope: &'a NameScope<'a>,
    consumer: Consumer,
}

/// What reads a text once its values are in place.
#[derive(Clone, Copy)]
enum Consumer {
    /// A shell, or another interpreter, to which `${v}` may mean something.
    Interpreter,
    /// Windlass itself, or a program that gets the text as an argument.
    Windlass(UnknownName),
}

impl TextResolver<'_> {
    fn place(&self, range: Range<usize>) -> Range<usize> {
        self.texts.span_within(&self.span, self.text, range)
    }
}

impl Resolver for TextResolver<'_> {
    fn resolve(&mut self, name: &str, range: Range<usize>) -> Option<Variable> {
        let unknown = match self.consumer {
            Consumer::Interpreter => UnknownName::Keep,
            Consumer::Windlass(unknown) => unknown,
        };
        self.texts.variable(name, self.place(range), self.scope, unknown)
    }

    fn is_known(&mut self, name: &str) -> bool {
        self.texts.is_known(name, self.scope)
    }

    fn behind_dollar(&mut self, name: &str, range: Range<usize>) {
        if matches!(self.consumer, Consumer::Interpreter) || !self.is_known(name) {
            return;
        }
        let message = format!("{}: `${{{name}}}` is left as it is", self.scope.owner);
        let help = format!("write {{{name}}} for the value");
        let warning = Diagnostic::new(self.place(range), message, "not a value");
        self.texts.diagnostics.warn(warning.help(help));
    }
}

impl ShellResolver for TextResolver<'_> {
    fn refuse(&mut self, misplaced: MisplacedValue) {
        let message = format!("{}: {misplaced}", self.scope.owner);
        let MisplacedValue { name, range, place } = misplaced;
        let help = place.advice().replace("{name}", &format!("{{{name}}}"));
        let mistake = Diagnostic::new(self.place(range), message, "no quoting is safe here");
        self.texts.diagnostics.error(mistake.help(help));
    }
}

/// The name of the step if `text` begins like `{step[value].key}`.
fn instance(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('{')?;
    let end = inner.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-'))?;
    let values = inner[end..].strip_prefix('[')?.as_bytes();
    // Resolver of steps are short; so much of a hostile text is looked at and no more.
    let values = &values[..values.len().min(256)];
    values.windows(2).any(|pair| pair == b"].").then_some(&inner[..end])
}

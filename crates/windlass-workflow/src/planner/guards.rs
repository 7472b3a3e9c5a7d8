//! Plans the guards. Every step that names a guard must have the variables in the guard's texts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::declared::DeclaredSteps;
use super::scope::NameScope;
use super::texts::{OutputReference, TextReader, UnknownName};
use super::times::some_time;
use super::values::{names, script};
use crate::diagnostic::Diagnostic;
use crate::event::{EventPattern, EventPatternError};
use crate::file::{File, GuardRetryTable, GuardTable};
use crate::guard::{Guard, GuardAction, GuardRetry};
use crate::script::{Script, Shell};
use crate::shell::ShellText;
use crate::spanned::{Field, Key};
use crate::template::{Template, TemplatePart};
use crate::variable::Variable;

pub(super) fn guards(
    file: &File,
    texts: &TextReader<'_>,
    declared: &DeclaredSteps<'_>,
) -> Vec<Guard> {
    let users = users(declared);
    let mut guards = Vec::new();
    for (key, table, span) in file.guard.entries() {
        let none = Vec::new();
        let users = users.get(key.as_str()).unwrap_or(&none);
        guards.push(GuardReader { key, texts, declared, users }.guard(table, span));
    }
    guards
}

/// A declared step that names a guard.
#[derive(Clone, Copy)]
struct GuardUser {
    step: usize,
    phase: GuardPhase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GuardPhase {
    /// In `guard`: before the step runs.
    Before,
    /// In `ensure`: after it has run, so that the guard may refer to the step's own outputs.
    After,
}

fn users<'f>(declared: &DeclaredSteps<'f>) -> BTreeMap<&'f str, Vec<GuardUser>> {
    let mut users: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (step, declared) in declared.steps.iter().enumerate() {
        let before =
            names(&declared.table.guard).into_iter().map(|name| (name, GuardPhase::Before));
        let after = names(&declared.table.ensure).into_iter().map(|name| (name, GuardPhase::After));
        for ((name, _), phase) in before.chain(after) {
            users.entry(name).or_default().push(GuardUser { step, phase });
        }
    }
    users
}

struct GuardReader<'a> {
    key: &'a Key,
    texts: &'a TextReader<'a>,
    declared: &'a DeclaredSteps<'a>,
    users: &'a [GuardUser],
}

impl GuardReader<'_> {
    fn guard(&self, table: &GuardTable, span: Range<usize>) -> Guard {
        let subject = |key: &str| format!("{}: `{key}`", self.owner());
        self.check_on_timeout(table);
        Guard {
            name: self.key.as_str().to_owned(),
            condition: self.condition(table, span),
            wake_on: self.wake_on(table),
            retry: table.retry.with_span().and_then(|(table, span)| self.retry(table, span)),
            timeout: some_time(&table.timeout, &subject("timeout"), self.texts.diagnostics),
            on_timeout: table.on_timeout.value().copied().unwrap_or_default(),
        }
    }

    fn owner(&self) -> String {
        format!("guard `{}`", self.key.as_str())
    }

    fn condition(&self, table: &GuardTable, span: Range<usize>) -> Script {
        let empty = || {
            let text =
                ShellText { text: String::new(), source: String::new(), variables: Vec::new() };
            Script { shell: Shell::default(), text }
        };
        let diagnostics = self.texts.diagnostics;
        let help = "write a command that exits with 0 once the step may go on";
        if !table.condition.is_present() {
            let message = format!("{} has no `condition`", self.owner());
            diagnostics.error(Diagnostic::new(span, message, "incomplete").help(help));
        }
        let Some((text, span)) = table.condition.with_span() else { return empty() };
        if text.trim().is_empty() {
            let message = format!("{} has an empty `condition`", self.owner());
            diagnostics
                .error(Diagnostic::new(span.clone(), message, "nothing to check").help(help));
        }
        let each = self.each();
        let scope = NameScope::guard(self.owner(), &each);
        let read = script(text, span.clone(), &scope, &Shell::default(), self.texts);
        let read = read.unwrap_or_else(empty);
        read.text.variables.iter().for_each(|variable| self.check_users(variable, &span));
        read
    }

    /// Returns the `each` variables of all steps that use the guard.
    fn each(&self) -> BTreeSet<String> {
        let steps = self.users.iter().map(|user| &self.declared.steps[user.step]);
        steps.flat_map(|step| step.each.iter().cloned()).collect()
    }

    /// Checks that every step that uses the guard has a variable.
    fn check_users(&self, variable: &Variable, span: &Range<usize>) {
        for user in self.users {
            let step = &self.declared.steps[user.step];
            match variable {
                Variable::Each(name) if !step.each.contains(name) => {
                    let message = format!(
                        "{} uses `{{{name}}}`, which step `{}` does not have",
                        self.owner(),
                        step.key.as_str()
                    );
                    let help =
                        format!("every step that names this guard needs `{name}` in its `each`");
                    let error = Diagnostic::new(
                        span.clone(),
                        message,
                        "not known in every step that uses it",
                    );
                    self.texts.diagnostics.error(error.help(help));
                }
                Variable::Output { step: source, key } => {
                    let source = self.declared.position(source).expect("it was looked up");
                    let own = source == user.step && user.phase == GuardPhase::After;
                    if !own {
                        let (key, span) = (key.clone(), span.clone());
                        let output = OutputReference { user: user.step, source, key, span };
                        self.texts.outputs.borrow_mut().push(output);
                    }
                }
                _ => {}
            }
        }
    }

    fn wake_on(&self, table: &GuardTable) -> Vec<Template> {
        let each = self.each();
        let scope = NameScope::guard(self.owner(), &each);
        let mut patterns = Vec::new();
        for (text, span) in names(&table.wake_on) {
            let pattern = self.texts.template(text, &span, &scope, UnknownName::Reject);
            pattern.variables().for_each(|variable| self.check_users(variable, &span));
            self.check_pattern(&pattern, span);
            patterns.push(pattern);
        }
        patterns
    }

    /// Checks that a template is a pattern of events, with any values for its variables.
    fn check_pattern(&self, pattern: &Template, span: Range<usize>) {
        let part = |part: &TemplatePart| match part {
            TemplatePart::Text(text) | TemplatePart::Escaped(text) => text.clone(),
            TemplatePart::Variable(variable) => variable.environment_name(),
        };
        let sample: String = pattern.parts().iter().map(part).collect();
        let Err(error) = sample.parse::<EventPattern>() else { return };
        let (message, help) = match error {
            EventPatternError::EmptySegment { .. } => (
                "has an empty segment",
                "write names between single colons, such as \"build:web:done\"",
            ),
            EventPatternError::PartialStar { .. } => (
                "has a `*` next to other characters",
                "`*` matches a whole segment, as in \"build:*:done\"",
            ),
            EventPatternError::InnerDoubleStar { .. } => (
                "has a `**` that is not the last segment",
                "`**` matches all that follows, as in \"build:**\"; `*` matches one segment",
            ),
        };
        let message = format!("{}: the pattern \"{pattern}\" {message}", self.owner());
        self.texts
            .diagnostics
            .error(Diagnostic::new(span, message, "not a pattern of events").help(help));
    }

    fn retry(&self, table: &GuardRetryTable, span: Range<usize>) -> Option<GuardRetry> {
        let owner = self.owner();
        let missing = |present: bool, key: &str| {
            if !present {
                let message = format!("{owner}: its `retry` has no `{key}`");
                let help = "say both: retry = { max = 3, interval = \"10s\" }";
                let error = Diagnostic::new(span.clone(), message, "incomplete");
                self.texts.diagnostics.error(error.help(help));
            }
        };
        missing(table.max.is_present(), "max");
        missing(table.interval.is_present(), "interval");
        let subject = format!("{owner}: `retry.interval`");
        let interval = some_time(&table.interval, &subject, self.texts.diagnostics);
        Some(GuardRetry { max: *table.max.value()?, interval: interval? })
    }

    /// Warns of an `on_timeout` that has no effect because the guard never times out.
    fn check_on_timeout(&self, table: &GuardTable) {
        let Some((action, span)) = table.on_timeout.with_span() else { return };
        let never = !table.timeout.is_present() && !is_bounded(&table.retry);
        if never && *action != GuardAction::Block {
            let message = format!("{} never times out", self.owner());
            let help = "add a `timeout`, or a `retry` with `max`";
            self.texts.diagnostics.warn(Diagnostic::new(span, message, "has no effect").help(help));
        }
    }
}

fn is_bounded(retry: &Field<GuardRetryTable>) -> bool {
    retry.value().is_some_and(|retry| retry.max.is_present())
}

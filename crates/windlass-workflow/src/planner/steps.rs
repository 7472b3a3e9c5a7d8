//! Plans the steps: merges the defaults, resolves names, makes one step per combination of `each`.

use std::collections::HashSet;
use std::ops::Range;

use super::amounts::log_limit;
use super::declared::{DeclaredStep, DeclaredSteps};
use super::defaults::{Defaults, crash_limit, dir, retry};
use super::edges::{self, Dependencies, EdgeSpans};
use super::index::NameIndex;
use super::placement::Placement;
use super::resources::shared_name_error;
use super::scope::NameScope;
use super::texts::{TextReader, UnknownName};
use super::times::{any_time, some_time};
use super::values::{command, environment, names, script, shell};
use windlass_core::Selector;

use crate::diagnostic::Diagnostic;
use crate::file::{NamesOr, OneOrMany};
use crate::limits;
use crate::script::{Command, Shell};
use crate::spanned::Field;
use crate::step::{Execution, Needs, SemaphoreSlots, Step, StepEnding, StepGate};
use crate::template::Template;

/// Returns all steps, in the order of the file, with the spans of their edges. Stops at the step that
/// exceeds the limit of edges.
pub(super) fn steps(
    texts: &TextReader<'_>,
    declared: &DeclaredSteps<'_>,
    index: &NameIndex<'_>,
    defaults: &Defaults,
) -> Vec<(Step, EdgeSpans)> {
    let mut steps = Vec::with_capacity(declared.len());
    let mut edge_count = 0;
    for (position, step) in declared.steps.iter().enumerate() {
        let owner = format!("step `{}`", step.key.as_str());
        let scope = NameScope::step(owner, position, &step.each);
        let reader = StepReader { step, scope, texts, index, defaults };
        let common = reader.step();
        let after = Dependencies::new(step, declared, &reader.scope, texts);
        let placement = Placement::new(step, &reader.scope, texts);
        for combination in &step.combinations {
            let (mut edges, spans) = after.edges(combination);
            placement.mark(combination, &mut edges, |name| declared.indices(name));
            edge_count += edges.len();
            let each = step.each.iter().cloned().zip(combination.iter().cloned()).collect();
            let name = step.instance_name(combination);
            let needs = Needs { on: placement.on(combination), ..common.needs.clone() };
            steps.push((Step { name, each, after: edges, needs, ..common.clone() }, spans));
            if edge_count > limits::EDGES {
                texts.diagnostics.error(edges::too_many(step));
                return steps;
            }
        }
    }
    steps
}

/// Plans what all instances of one declared step have in common.
struct StepReader<'a> {
    step: &'a DeclaredStep<'a>,
    scope: NameScope<'a>,
    texts: &'a TextReader<'a>,
    index: &'a NameIndex<'a>,
    defaults: &'a Defaults,
}

impl StepReader<'_> {
    fn step(&self) -> Step {
        let (table, owner) = (self.step.table, &self.scope.owner);
        let shell = shell(&table.shell, owner, self.texts.diagnostics);
        let shell = shell.unwrap_or_else(|| self.defaults.shell.clone());
        // `when` and `finally` are always for a POSIX shell.
        let posix = if shell.is_posix() { shell.clone() } else { Shell::default() };
        Step {
            name: String::new(),
            declared: self.step.key.as_str().to_owned(),
            each: Vec::new(),
            after: Vec::new(),
            gate: self.gate(&posix),
            priority: table.priority.value().copied().unwrap_or(self.defaults.priority),
            needs: self.needs(),
            execution: self.execution(&shell),
            ending: self.ending(&posix),
        }
    }

    fn gate(&self, posix: &Shell) -> StepGate {
        let table = self.step.table;
        let when = table.when.with_span();
        let when = when.and_then(|(text, span)| script(text, span, &self.scope, posix, self.texts));
        StepGate { when, guards: self.guards(&table.guard), not_before_ms: None }
    }

    fn needs(&self) -> Needs {
        let (owner, diagnostics) = (&self.scope.owner, self.texts.diagnostics);
        let defaults = self.defaults.uses.clone();
        Needs {
            resources: self.index.uses(&self.step.table.uses, owner, diagnostics, defaults),
            locks: self.locks(),
            semaphores: self.semaphores(),
            on: Selector::default(),
        }
    }

    fn execution(&self, shell: &Shell) -> Execution {
        let Self { texts, scope, defaults, .. } = self;
        let table = self.step.table;
        let mut env = defaults.env.clone();
        environment(&table.env, scope, texts, &mut env);
        Execution {
            run: self.run(shell),
            env,
            dir: dir(&table.dir, scope, texts).or_else(|| defaults.dir.clone()),
            log_limit: log_limit(&table.log_limit, &self.subject("log_limit"), texts.diagnostics)
                .unwrap_or(defaults.log_limit),
        }
    }

    fn ending(&self, posix: &Shell) -> StepEnding {
        let Self { texts, scope, defaults, .. } = self;
        let (table, diagnostics) = (self.step.table, texts.diagnostics);
        let timeout = some_time(&table.timeout, &self.subject("timeout"), diagnostics);
        let grace = any_time(&table.grace, &self.subject("grace"), diagnostics);
        let linger = any_time(&table.linger, &self.subject("linger"), diagnostics);
        let retry = retry(&table.retry, &scope.owner, diagnostics);
        let crash_limit = crash_limit(&table.crash_limit, &scope.owner, diagnostics);
        StepEnding {
            timeout: timeout.or(defaults.timeout),
            grace: grace.or(defaults.grace),
            linger: linger.or(defaults.linger),
            ensures: self.guards(&table.ensure),
            retry: retry.unwrap_or_else(|| defaults.retry.clone()),
            crash_limit: crash_limit.unwrap_or(defaults.crash_limit),
            finally: command(&table.finally, scope, posix, texts),
        }
    }

    /// Returns what a diagnostic calls a key of the step.
    fn subject(&self, key: &str) -> String {
        format!("{}: `{key}`", self.scope.owner)
    }

    fn run(&self, shell: &Shell) -> Command {
        let table = self.step.table;
        if !table.run.is_present() {
            let message = format!("{} has no `run`", self.scope.owner);
            let help = "say what it runs: run = \"make all\"";
            let span = self.step.key.span.clone();
            self.texts.diagnostics.error(Diagnostic::new(span, message, "incomplete").help(help));
        }
        let run = command(&table.run, &self.scope, shell, self.texts);
        run.unwrap_or_else(|| Command::List(Vec::new()))
    }

    fn locks(&self) -> Vec<Template> {
        let mut locks = Vec::new();
        let mut seen = HashSet::new();
        for (name, span) in names(&self.step.table.lock) {
            let owner = &self.scope.owner;
            if let Some(error) = shared_name_error(name, span.clone(), "lock") {
                self.texts.diagnostics.error(error);
            }
            let lock = self.texts.template(name, &span, &self.scope, UnknownName::Reject);
            if !seen.insert(name) {
                let message = format!("{owner} takes the lock `{name}` twice");
                let error = Diagnostic::new(span, message, "named above already");
                self.texts.diagnostics.error(error.help("name it once"));
                continue;
            }
            locks.push(lock);
        }
        locks
    }

    fn semaphores(&self) -> Vec<SemaphoreSlots> {
        let mut all: Vec<SemaphoreSlots> = Vec::new();
        for (name, weight, name_span, weight_span) in semaphore_uses(&self.step.table.semaphore) {
            let slots = self.slots(name, weight, name_span.clone(), weight_span);
            let Some(slots) = slots else { continue };
            if all.iter().any(|known| known.semaphore == slots.semaphore) {
                let message = format!("{} names the semaphore `{name}` twice", self.scope.owner);
                let help = format!("say how many slots: semaphore = {{ {name} = 2 }}");
                let error = Diagnostic::new(name_span, message, "named above already");
                self.texts.diagnostics.error(error.help(help));
                continue;
            }
            all.push(slots);
        }
        all
    }

    fn slots(
        &self,
        name: &str,
        weight: i64,
        name_span: Range<usize>,
        weight_span: Range<usize>,
    ) -> Option<SemaphoreSlots> {
        let (owner, diagnostics) = (&self.scope.owner, self.texts.diagnostics);
        let Some(&(semaphore, declared)) = self.index.semaphores.get(name) else {
            let message = format!("{owner} uses the semaphore `{name}`, which is not declared");
            let help = diagnostics.suggest(name, self.index.semaphores.keys().copied());
            let help = help.unwrap_or_else(|| {
                format!("declare it: [semaphore.{name}], and below: capacity = 4")
            });
            diagnostics.error(Diagnostic::new(name_span, message, "no such semaphore").help(help));
            return None;
        };
        let capacity = declared.capacity;
        let fits = u32::try_from(weight).ok().filter(|weight| (1..=capacity).contains(weight));
        if fits.is_none() {
            let message = format!("{owner} takes {weight} slots of `{name}`, which has {capacity}");
            let help = format!("take from 1 to {capacity}");
            let error = Diagnostic::new(weight_span, message, "more than its capacity");
            diagnostics.error(error.help(help));
        }
        fits.map(|weight| SemaphoreSlots { semaphore, weight })
    }

    fn guards(&self, field: &Field<OneOrMany>) -> Vec<usize> {
        let (owner, diagnostics) = (&self.scope.owner, self.texts.diagnostics);
        let mut all = Vec::new();
        let mut seen = HashSet::new();
        for (name, span) in names(field) {
            let Some(&guard) = self.index.guards.get(name) else {
                let message = format!("{owner} waits for the guard `{name}`, which does not exist");
                let help = diagnostics.suggest(name, self.index.guards.keys().copied());
                let help = help.unwrap_or_else(|| {
                    format!("declare it: [guard.{name}], and below: condition = \"test -f ready\"")
                });
                diagnostics.error(Diagnostic::new(span, message, "no such guard").help(help));
                continue;
            };
            if !seen.insert(guard) {
                let message = format!("{owner} names the guard `{name}` twice");
                let error = Diagnostic::new(span, message, "named above already");
                diagnostics.error(error.help("name it once"));
                continue;
            }
            all.push(guard);
        }
        all
    }
}

/// Returns each semaphore with the number of slots, the span of its name and that of the number.
fn semaphore_uses(field: &Field<NamesOr<i64>>) -> Vec<(&str, i64, Range<usize>, Range<usize>)> {
    match field.with_span() {
        None => Vec::new(),
        Some((NamesOr::Names(names), span)) => {
            let names = names.with_spans(span).into_iter();
            names.map(|(name, span)| (name, 1, span.clone(), span)).collect()
        }
        Some((NamesOr::Table(table), _)) => {
            let slots = table.iter();
            slots
                .map(|(key, &weight, span)| (key.as_str(), weight, key.span.clone(), span))
                .collect()
        }
    }
}

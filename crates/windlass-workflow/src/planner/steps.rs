//! The steps themselves: defaults merged, names resolved, one for every combination of `each`.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use super::amounts::log_limit;
use super::declared::{DeclaredStep, DeclaredSteps};
use super::defaults::{Defaults, dir, retry};
use super::edges::{self, Dependencies, EdgeSpans};
use super::index::{Index, Known};
use super::resources::shared_name_mistake;
use super::texts::{NameScope, TextReader, UnknownName};
use super::times::{any_time, some_time};
use super::values::{command, environment, names, script, shell};
use crate::diagnostic::Diagnostic;
use crate::file::{File, NamesOr, OneOrMany};
use crate::limits;
use crate::script::{Command, Shell};
use crate::spanned::Field;
use crate::step::{SemaphoreSlots, Step};
use crate::template::Template;

/// All steps, in the order of the file, with the places of their edges.
pub(super) fn steps(
    file: &File,
    texts: &TextReader<'_>,
    declared: &DeclaredSteps<'_>,
    known: &Known<'_>,
    (env, plan_log_limit): (&BTreeMap<String, Template>, u64),
) -> Vec<(Step, EdgeSpans)> {
    let index = Index::new(known);
    let defaults = Defaults::new(file, texts, &index, (env.clone(), plan_log_limit));
    let mut steps = Vec::with_capacity(declared.len());
    let mut edge_count = 0;
    for (place, step) in declared.steps.iter().enumerate() {
        let owner = format!("step `{}`", step.key.as_str());
        let scope = NameScope::step(owner, place, &step.each);
        let reader = StepReader { step, scope, texts, index: &index, defaults: &defaults };
        let common = reader.step();
        let after = Dependencies::new(step, declared, &reader.scope, texts);
        for combination in &step.combinations {
            let (edges, places) = after.edges(combination);
            edge_count += edges.len();
            let each = step.each.iter().cloned().zip(combination.iter().cloned()).collect();
            let name = step.instance_name(combination);
            steps.push((Step { name, each, after: edges, ..common.clone() }, places));
        }
        if edge_count > limits::EDGES {
            texts.diagnostics.error(edges::too_many(step));
            break;
        }
    }
    steps
}

/// Reads what all the steps that one declared step stands for have in common.
struct StepReader<'a> {
    step: &'a DeclaredStep<'a>,
    scope: NameScope<'a>,
    texts: &'a TextReader<'a>,
    index: &'a Index<'a>,
    defaults: &'a Defaults,
}

impl StepReader<'_> {
    fn step(&self) -> Step {
        let Self { texts, scope, defaults, .. } = self;
        let (table, owner, diagnostics) = (self.step.table, &scope.owner, texts.diagnostics);
        let mut env = defaults.env.clone();
        environment(&table.env, scope, texts, &mut env);
        let shell =
            shell(&table.shell, owner, diagnostics).unwrap_or_else(|| defaults.shell.clone());
        let aside = if shell.is_posix() { shell.clone() } else { Shell::default() };
        let when = table.when.with_span();
        let time = |key: &str| format!("{owner}: `{key}`");
        Step {
            name: String::new(),
            declared: self.step.key.as_str().to_owned(),
            each: Vec::new(),
            run: self.run(&shell),
            after: Vec::new(),
            when: when.and_then(|(text, span)| script(text, span, scope, &aside, texts)),
            uses: self.index.uses(&table.uses, owner, diagnostics, defaults.uses.clone()),
            locks: self.locks(),
            semaphores: self.semaphores(),
            guards: self.guards(&table.guard),
            ensures: self.guards(&table.ensure),
            priority: table.priority.value().copied().unwrap_or(defaults.priority),
            timeout: some_time(&table.timeout, &time("timeout"), diagnostics).or(defaults.timeout),
            grace: any_time(&table.grace, &time("grace"), diagnostics).or(defaults.grace),
            linger: any_time(&table.linger, &time("linger"), diagnostics).or(defaults.linger),
            log_limit: log_limit(&table.log_limit, &time("log_limit"), diagnostics)
                .unwrap_or(defaults.log_limit),
            retry: retry(&table.retry, owner, diagnostics)
                .unwrap_or_else(|| defaults.retry.clone()),
            finally: command(&table.finally, scope, &aside, texts),
            env,
            dir: dir(&table.dir, scope, texts).or_else(|| defaults.dir.clone()),
        }
    }

    fn run(&self, shell: &Shell) -> Command {
        let table = self.step.table;
        if !table.run.is_present() {
            let message = format!("{} has no `run`", self.scope.owner);
            let help = "say what it runs: run = \"make all\"";
            let span = self.step.key.span.clone();
            self.texts.diagnostics.error(Diagnostic::new(span, message, "not complete").help(help));
        }
        let run = command(&table.run, &self.scope, shell, self.texts);
        run.unwrap_or_else(|| Command::List(Vec::new()))
    }

    fn locks(&self) -> Vec<Template> {
        let mut locks = Vec::new();
        let mut seen = HashSet::new();
        for (name, span) in names(&self.step.table.lock) {
            let owner = &self.scope.owner;
            if let Some(mistake) = shared_name_mistake(name, span.clone(), "lock") {
                self.texts.diagnostics.error(mistake);
            }
            let lock = self.texts.template(name, &span, &self.scope, UnknownName::Reject);
            if !seen.insert(name) {
                let message = format!("{owner} takes the lock `{name}` twice");
                let mistake = Diagnostic::new(span, message, "named above already");
                self.texts.diagnostics.error(mistake.help("name it once"));
                continue;
            }
            locks.push(lock);
        }
        locks
    }

    fn semaphores(&self) -> Vec<SemaphoreSlots> {
        let mut all: Vec<SemaphoreSlots> = Vec::new();
        for (name, weight, place, span) in semaphore_uses(&self.step.table.semaphore) {
            let slots = self.slots(name, weight, place.clone(), span);
            let Some(slots) = slots else { continue };
            if all.iter().any(|known| known.semaphore == slots.semaphore) {
                let message = format!("{} names the semaphore `{name}` twice", self.scope.owner);
                let help = format!("say how many slots: semaphore = {{ {name} = 2 }}");
                let mistake = Diagnostic::new(place, message, "named above already");
                self.texts.diagnostics.error(mistake.help(help));
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
        place: Range<usize>,
        span: Range<usize>,
    ) -> Option<SemaphoreSlots> {
        let (owner, diagnostics) = (&self.scope.owner, self.texts.diagnostics);
        let Some(&(semaphore, declared)) = self.index.semaphores.get(name) else {
            let message = format!("{owner} uses the semaphore `{name}`, which is not declared");
            let help = diagnostics.suggest(name, self.index.semaphores.keys().copied());
            let help = help.unwrap_or_else(|| {
                format!("declare it: [semaphore.{name}], and below: capacity = 4")
            });
            diagnostics.error(Diagnostic::new(place, message, "no such semaphore").help(help));
            return None;
        };
        let capacity = declared.capacity;
        let fits = u32::try_from(weight).ok().filter(|weight| (1..=capacity).contains(weight));
        if fits.is_none() {
            let message = format!("{owner} takes {weight} slots of `{name}`, which has {capacity}");
            let help = format!("take from 1 to {capacity}");
            diagnostics.error(Diagnostic::new(span, message, "could never be had").help(help));
        }
        fits.map(|weight| SemaphoreSlots { semaphore, weight })
    }

    fn guards(&self, written: &Field<OneOrMany>) -> Vec<usize> {
        let (owner, diagnostics) = (&self.scope.owner, self.texts.diagnostics);
        let mut all = Vec::new();
        let mut seen = HashSet::new();
        for (name, span) in names(written) {
            let Some(&place) = self.index.guards.get(name) else {
                let message = format!("{owner} waits for the guard `{name}`, which does not exist");
                let help = diagnostics.suggest(name, self.index.guards.keys().copied());
                let help = help.unwrap_or_else(|| {
                    format!("declare it: [guard.{name}], and below: condition = \"test -f ready\"")
                });
                diagnostics.error(Diagnostic::new(span, message, "no such guard").help(help));
                continue;
            };
            if !seen.insert(place) {
                let message = format!("{owner} names the guard `{name}` twice");
                let mistake = Diagnostic::new(span, message, "named above already");
                diagnostics.error(mistake.help("name it once"));
                continue;
            }
            all.push(place);
        }
        all
    }
}

/// Each semaphore with the slots asked for, the place of its name and that of the number.
fn semaphore_uses(written: &Field<NamesOr<i64>>) -> Vec<(&str, i64, Range<usize>, Range<usize>)> {
    match written.with_span() {
        None => Vec::new(),
        Some((NamesOr::Names(names), span)) => {
            let names = names.with_span(span).into_iter();
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

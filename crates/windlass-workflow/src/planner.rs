//! Builds a plan from a deserialized file: resolves every name and reports every error.
//!
//! First come the parts that refer to nothing, then the steps, then the checks that need all steps. A
//! part with an error is left out or replaced by a placeholder, so that one error does not hide another.
//! Runs nothing and reads no file.

mod amounts;
mod declared;
mod defaults;
mod each;
mod edges;
mod guards;
mod index;
mod literals;
mod outputs;
mod params;
mod placement;
mod resources;
mod scope;
mod steps;
mod texts;
mod times;
mod unused;
mod values;

use std::collections::BTreeMap;
use std::ops::Range;

use windlass_core::Unprintable;

use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::file::{File, HooksTable};
use crate::limits;
use crate::param::Param;
use crate::plan::{Hooks, Plan};
use crate::script::{Command, Shell};
use crate::step::Step;
use crate::topology;
use declared::DeclaredSteps;
pub(crate) use declared::no_steps;
pub(crate) use defaults::CRASH_LIMIT;
use defaults::Defaults;
use index::NameIndex;
use scope::NameScope;
use texts::TextReader;

/// The default of `log_limit`.
pub(crate) const LOG_LIMIT_BYTES: u64 = 1 << 30;

/// Returns the plan of a file and its parameters. After an error the plan is not to be used.
pub(crate) fn plan(
    file_name: &str,
    text: &str,
    file: &File,
    diagnostics: &Diagnostics,
) -> (Plan, Vec<Param>) {
    let params = params::params(file, diagnostics);
    let each = literals::EachValueReader::new(file, text, diagnostics);
    let declared = DeclaredSteps::expand(file, &each, diagnostics);
    let texts = TextReader::new(text, diagnostics, &params, &declared);
    let resources = resources::resources(file, diagnostics);
    let semaphores = resources::semaphores(file, diagnostics);
    let guards = guards::guards(file, &texts, &declared);
    let index = NameIndex::new(&resources, &semaphores, &guards);
    let env = defaults::env(file, &texts);
    let log_limit = amounts::log_limit(&file.log_limit, "`log_limit`", diagnostics);
    let log_limit = log_limit.unwrap_or(LOG_LIMIT_BYTES);
    let defaults = Defaults::new(file, &texts, &index, (env.clone(), log_limit));
    let steps = in_order(steps::steps(&texts, &declared, &index, &defaults), &texts, &declared);
    let plan = Plan {
        name: name(file_name, file, diagnostics),
        params: BTreeMap::new(),
        concurrency: concurrency(file, diagnostics),
        priority: priority(file, diagnostics),
        deadline: times::some_time(&file.deadline, "`deadline`", diagnostics),
        on_failure: file.on_failure.value().copied().unwrap_or_default(),
        log_limit,
        hooks: file.on.value().map(|table| hooks(table, &texts)).unwrap_or_default(),
        pass_env: pass_env(file, diagnostics),
        env,
        resources,
        semaphores,
        guards,
        steps,
    };
    if diagnostics.error_count() == 0 {
        params::warn_unused(file, &texts);
        literals::warn(file, &texts);
        unused::warn(file, &plan, &texts);
    }
    (plan, params)
}

fn name(file_name: &str, file: &File, diagnostics: &Diagnostics) -> String {
    let Some((name, span)) = file.name.with_span() else {
        let name = file_name.rsplit(['/', '\\']).next().unwrap_or(file_name);
        return name.strip_suffix(".toml").unwrap_or(name).to_owned();
    };
    if name.trim().is_empty() {
        let help = "remove `name` to use the name of the file";
        let empty = "the workflow's name is empty";
        diagnostics.error(Diagnostic::new(span.clone(), empty, "no name").help(help));
    }
    if name.len() > limits::NAME_BYTES {
        diagnostics.error(too_long("the workflow's name", name, span.clone()));
    }
    if let Some(found) = Unprintable::first_in(name) {
        let message = format!("the workflow's name has the unprintable character {found} in it");
        let help = "use printable characters only";
        diagnostics.error(Diagnostic::new(span, message, "invalid name").help(help));
    }
    name.clone()
}

/// Returns the error for a name that is too long to be shown and stored.
fn too_long(what: &str, name: &str, span: Range<usize>) -> Diagnostic {
    let message = format!("{what} has {} bytes", name.len());
    let help = format!("a name has at most {} bytes", limits::NAME_BYTES);
    Diagnostic::new(span, message, "too long").help(help)
}

fn concurrency(file: &File, diagnostics: &Diagnostics) -> Option<u32> {
    let (&number, span) = file.concurrency.with_span()?;
    let slots = u32::try_from(number).ok().filter(|&slots| slots > 0);
    if slots.is_none() && number > 0 {
        diagnostics.error(values::too_large(number, "`concurrency`", span));
    } else if slots.is_none() {
        let message = format!("`concurrency` is {number}, so no step could ever run");
        let help = "write 1 or more, or leave it out for one step per CPU";
        diagnostics.error(Diagnostic::new(span, message, "not a number of steps").help(help));
    }
    slots
}

fn priority(file: &File, diagnostics: &Diagnostics) -> i16 {
    let Some((&number, span)) = file.priority.with_span() else { return 0 };
    i16::try_from(number).unwrap_or_else(|_| {
        let message = format!("`priority` of the workflow is {number}, which is out of range");
        let help = format!("write a whole number from {} to {}", i16::MIN, i16::MAX);
        diagnostics.error(Diagnostic::new(span, message, "out of range").help(help));
        0
    })
}

fn pass_env(file: &File, diagnostics: &Diagnostics) -> Vec<String> {
    let names = values::names(&file.pass_env).into_iter();
    let name = |(name, span): (&str, _)| {
        values::check_env_name(name, span, "`pass_env`", diagnostics);
        name.to_owned()
    };
    names.map(name).collect()
}

fn hooks(table: &HooksTable, texts: &TextReader<'_>) -> Hooks {
    let hook = |field: &_, name: &str| -> Option<Command> {
        let scope = NameScope::run(format!("the hook `on.{name}`"));
        values::command(field, &scope, &Shell::default(), texts)
    };
    Hooks {
        success: hook(&table.success, "success"),
        failure: hook(&table.failure, "failure"),
        escalate: hook(&table.escalate, "escalate"),
        timeout: times::positive_time(
            &table.timeout,
            "`on.timeout`",
            "leave the key out for 30 s",
            texts.diagnostics,
        ),
    }
}

/// Returns the steps in topological order. Reports cycles, and outputs of steps that are not upstream.
fn in_order(
    steps: Vec<(Step, edges::EdgeSpans)>,
    texts: &TextReader<'_>,
    declared: &DeclaredSteps<'_>,
) -> Vec<Step> {
    let (mut steps, spans): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
    if steps.len() < declared.len() {
        // Planning stopped at a limit, so edges may lead to steps that are not here.
        return steps;
    }
    let sources: Vec<Vec<usize>> =
        steps.iter().map(|step| step.after.iter().map(|edge| edge.step).collect()).collect();
    match topology::sorted(&sources) {
        Err(cycles) => {
            for cycle in &cycles {
                texts.diagnostics.error(edges::cycle(cycle, &steps, &spans));
            }
        }
        Ok(order) => {
            outputs::check(texts, declared, &sources, &order);
            steps = topology::reordered(steps, &order);
        }
    }
    steps
}

//! From what is written to a plan: every name resolved, every mistake told.
//!
//! The parts are resolved one after the other: what stands alone first, then the steps, which
//! refer to it, then what can only be said about all steps together. A part that cannot be
//! resolved is told and left out, so that one mistake does not hide another.

mod amounts;
mod declared;
mod defaults;
mod each;
mod edges;
mod fixed;
mod guards;
mod index;
mod outputs;
mod params;
mod resources;
mod steps;
mod texts;
mod times;
mod unused;
mod values;

use std::collections::BTreeMap;

use windlass_core::Unprintable;

use crate::file::{File, HooksTable};
use crate::mistake::Mistake;
use crate::notes::Notes;
use crate::order;
use crate::param::Param;
use crate::plan::{Hooks, Plan};
use crate::script::{Command, Shell};
use crate::step::Step;
use declared::Declared;
pub(crate) use declared::no_steps;
use texts::{Scope, Texts};

/// How much of a log is kept where the file does not say.
const LOG_LIMIT_BYTES: u64 = 1 << 30;

/// The plan of a file, and its parameters. Means nothing if mistakes were told.
pub(crate) fn plan(file: &str, text: &str, written: &File, notes: &Notes) -> (Plan, Vec<Param>) {
    let params = params::params(written, notes);
    let each = fixed::EachTexts::new(written, text, notes);
    let declared = Declared::all(written, &each, notes);
    let texts = Texts::new(text, notes, &params, &declared);
    let resources = resources::resources(written, notes);
    let semaphores = resources::semaphores(written, notes);
    let guards = guards::guards(written, &texts, &declared);
    let known = index::Known { resources: &resources, semaphores: &semaphores, guards: &guards };
    let env = defaults::env(written, &texts);
    let log_limit = amounts::log_limit(&written.log_limit, "`log_limit`", notes);
    let log_limit = log_limit.unwrap_or(LOG_LIMIT_BYTES);
    let steps = steps::steps(written, &texts, &declared, &known, (&env, log_limit));
    let steps = in_order(steps, &texts, &declared);
    let plan = Plan {
        name: name(file, written, notes),
        params: BTreeMap::new(),
        concurrency: concurrency(written, notes),
        deadline: times::some_time(&written.deadline, "`deadline`", notes),
        on_failure: written.on_failure.value().copied().unwrap_or_default(),
        log_limit,
        hooks: written.on.value().map(|table| hooks(table, &texts)).unwrap_or_default(),
        env,
        resources,
        semaphores,
        guards,
        steps,
    };
    if notes.count() == 0 {
        params::warn_unused(written, &texts);
        fixed::warn(written, &texts);
        unused::warn(written, &plan, &texts);
    }
    (plan, params)
}

fn name(file: &str, written: &File, notes: &Notes) -> String {
    let Some((name, span)) = written.name.placed() else {
        let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
        return name.strip_suffix(".toml").unwrap_or(name).to_owned();
    };
    if name.trim().is_empty() {
        let help = "leave `name` out to call it after its file";
        let empty = "the workflow's name is empty";
        notes.mistake(Mistake::new(span.clone(), empty, "no name").help(help));
    }
    if let Some(found) = Unprintable::first_in(name) {
        let message = format!("the workflow's name has the unprintable character {found} in it");
        let help = "keep to what can be read on one line";
        notes.mistake(Mistake::new(span, message, "not a name").help(help));
    }
    name.clone()
}

fn concurrency(written: &File, notes: &Notes) -> Option<u32> {
    let (&number, span) = written.concurrency.placed()?;
    let slots = u32::try_from(number).ok().filter(|&slots| slots > 0);
    if slots.is_none() {
        let message = format!("`concurrency` is {number}, so no step could ever run");
        let help = "write 1 or more, or leave it out for one step per CPU";
        notes.mistake(Mistake::new(span, message, "not a number of steps").help(help));
    }
    slots
}

fn hooks(table: &HooksTable, texts: &Texts<'_>) -> Hooks {
    let hook = |written: &_, name: &str| -> Option<Command> {
        let scope = Scope::run(format!("the hook `on.{name}`"));
        values::command(written, &scope, &Shell::default(), texts)
    };
    Hooks {
        success: hook(&table.success, "success"),
        failure: hook(&table.failure, "failure"),
        escalate: hook(&table.escalate, "escalate"),
        timeout: times::positive_time(
            &table.timeout,
            "`on.timeout`",
            "leave the key out for 30 s",
            texts.notes,
        ),
    }
}

/// The steps behind those they follow, once that is possible and everything they refer to is
/// upstream.
fn in_order(
    steps: Vec<(Step, edges::Places)>,
    texts: &Texts<'_>,
    declared: &Declared<'_>,
) -> Vec<Step> {
    let (mut steps, places): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
    let sources: Vec<Vec<usize>> =
        steps.iter().map(|step| step.after.iter().map(|edge| edge.step).collect()).collect();
    match order::sorted(&sources) {
        Err(cycles) => {
            for cycle in &cycles {
                texts.notes.mistake(edges::cycle(cycle, &steps, &places));
            }
        }
        Ok(order) => {
            outputs::check(texts, declared, &sources, &order);
            steps = order::rearranged(steps, &order);
        }
    }
    steps
}

//! Warns of declarations that nothing in the file uses, and of keys without effect.

use std::collections::BTreeMap;
use std::ops::Range;

use super::texts::TextReader;
use crate::diagnostic::Diagnostic;
use crate::file::File;
use crate::guard::GuardAction;
use crate::plan::Plan;
use crate::step::Step;

pub(super) fn warn(file: &File, plan: &Plan, texts: &TextReader<'_>) {
    // A file without steps is for `windlass guard`.
    if !plan.steps.is_empty() {
        unused_guards(file, plan, texts);
        unused_resources(file, plan, texts);
    }
    empty_conditions(file, texts);
    escalations_without_hook(file, plan, texts);
    items_in_finally(file, plan, texts);
}

fn unused_guards(file: &File, plan: &Plan, texts: &TextReader<'_>) {
    for (place, (key, ..)) in file.guard.entries().enumerate() {
        let mut steps = plan.steps.iter();
        if !steps
            .any(|step| step.gate.guards.contains(&place) || step.ending.ensures.contains(&place))
        {
            let name = key.as_str();
            let message = format!("no step uses the guard `{name}`");
            let help = format!(
                "add guard = \"{name}\" to a step, or move it to a file without steps for `windlass guard`"
            );
            texts.diagnostics.lint(Diagnostic::new(key.span.clone(), message, "unused").help(help));
        }
    }
}

fn unused_resources(file: &File, plan: &Plan, texts: &TextReader<'_>) {
    for ((key, ..), resource) in file.resource.entries().zip(&plan.resources) {
        let (name, counted) = (key.as_str(), resource.counted_as());
        let uses = |step: &Step| step.needs.resources.amount(&counted).is_some();
        if !plan.steps.iter().any(uses) {
            let message = format!("no step uses the resource `{name}`");
            let help = format!("add use = {{ {name} = 1 }} to a step, or leave it out");
            texts.diagnostics.lint(Diagnostic::new(key.span.clone(), message, "unused").help(help));
        }
    }
}

/// An empty command succeeds, so an empty `when` never skips its step.
fn empty_conditions(file: &File, texts: &TextReader<'_>) {
    for (key, table, _) in file.step.entries() {
        let Some((when, span)) = table.when.with_span() else { continue };
        if when.trim().is_empty() {
            let message = format!("step `{}`: an empty `when` always holds", key.as_str());
            let help = "write a command that exits with 0 if the step is to run, or leave it out";
            texts.diagnostics.lint(Diagnostic::new(span, message, "nothing to check").help(help));
        }
    }
}

/// Warns of a guard that escalates without a hook that tells a user.
fn escalations_without_hook(file: &File, plan: &Plan, texts: &TextReader<'_>) {
    if plan.hooks.escalate.is_some() {
        return;
    }
    for (key, table, _) in file.guard.entries() {
        if let Some((GuardAction::Escalate, span)) = table.on_timeout.with_span() {
            let message =
                format!("guard `{}` escalates, but there is no hook for that", key.as_str());
            let help = "add a command that tells a person: [on] escalate = \"…\"";
            texts.diagnostics.lint(Diagnostic::new(span, message, "nothing is run").help(help));
        }
    }
}

/// `finally` runs without the items of its step, so their variables are not set in it.
fn items_in_finally(file: &File, plan: &Plan, texts: &TextReader<'_>) {
    let variables = plan.resources.iter().map(|resource| (&resource.name, resource.variable()));
    let variables: Vec<_> = variables.filter_map(|(name, item)| Some((name, item?))).collect();
    if variables.is_empty() {
        return;
    }
    let steps: BTreeMap<_, _> =
        plan.steps.iter().map(|step| (step.declared.as_str(), step)).collect();
    for (key, table, _) in file.step.entries() {
        let Some((finally, span)) = table.finally.with_span() else { continue };
        let Some(step) = steps.get(key.as_str()) else { continue };
        let has = |name: &str| step.needs.resources.iter().any(|(used, _)| used == name);
        for (_, variable) in variables.iter().filter(|(name, _)| has(name)) {
            let finally = finally.with_spans(span.clone());
            for (_, span) in finally.into_iter().filter(|(text, _)| refers_to(text, variable)) {
                // The step may set a variable of the same name itself.
                if !step.execution.env.contains_key(variable) {
                    texts.diagnostics.warn(unset_in_finally(key.as_str(), variable, span));
                }
            }
        }
    }
}

fn unset_in_finally(step: &str, variable: &str, span: Range<usize>) -> Diagnostic {
    let message = format!(
        "step `{step}`: `finally` has no items of its step, so {variable} is not set in it"
    );
    let help = "write the items to a file in `run` and read it in `finally`, or clean up in `run`";
    Diagnostic::new(span, message, "not set here").help(help)
}

/// Returns whether shell text has `$VARIABLE` or `${VARIABLE…}` in it.
fn refers_to(text: &str, variable: &str) -> bool {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split('$').skip(1).any(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        rest.strip_prefix(variable).is_some_and(|rest| !rest.starts_with(is_name))
    })
}

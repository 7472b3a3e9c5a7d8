//! Warns of what a file declares and nothing in it uses, or what has no effect as it stands.

use super::texts::TextReader;
use crate::diagnostic::Diagnostic;
use crate::file::File;
use crate::guard::GuardAction;
use crate::plan::Plan;

pub(super) fn warn(file: &File, plan: &Plan, texts: &TextReader<'_>) {
    // A file without steps is for `windlass guard`.
    if !plan.steps.is_empty() {
        unused_guards(file, plan, texts);
        unused_resources(file, plan, texts);
    }
    empty_conditions(file, texts);
    unheard_escalations(file, plan, texts);
}

fn unused_guards(file: &File, plan: &Plan, texts: &TextReader<'_>) {
    for (place, (key, ..)) in file.guard.entries().enumerate() {
        let mut steps = plan.steps.iter();
        if !steps.any(|step| step.guards.contains(&place) || step.ensures.contains(&place)) {
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
    for (key, ..) in file.resource.entries() {
        let name = key.as_str();
        if !plan.steps.iter().any(|step| step.uses.iter().any(|(used, _)| used == name)) {
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

/// A guard that escalates waits for a person, who has to hear of it.
fn unheard_escalations(file: &File, plan: &Plan, texts: &TextReader<'_>) {
    if plan.hooks.escalate.is_some() {
        return;
    }
    for (key, table, _) in file.guard.entries() {
        if let Some((GuardAction::Escalate, span)) = table.on_timeout.with_span() {
            let message =
                format!("guard `{}` escalates, but no hook notifies anyone", key.as_str());
            let help = "add a command that does: [on] escalate = \"…\"";
            texts.diagnostics.lint(Diagnostic::new(span, message, "nothing is run").help(help));
        }
    }
}

//! Draws the dependency graph of a plan.
//!
//! Reads the plan as it is; decides nothing about what it means.

mod picture;

use std::fmt::Write;

use serde_json::{Value, json};
use windlass_core::EdgeKind;

use crate::plan::Plan;
use crate::step::Step;

/// The format of a drawn plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphFormat {
    /// A drawing for the terminal, in which an `each` is one node.
    Text,
    /// The same drawing in ASCII, for a terminal without UTF-8.
    Ascii,
    /// Graphviz.
    Dot,
    /// Mermaid, which Markdown renderers draw.
    Mermaid,
    /// JSON, for programs.
    Json,
}

/// Draws the dependency graph of a plan.
///
/// ```
/// use windlass_workflow::{GraphFormat, graph};
///
/// let text = "[step.a]\nrun = 'true'\n[step.b]\nrun = 'true'\nafter = ['a']";
/// let workflow = windlass_workflow::parse("flow.toml", text)?;
/// assert_eq!(graph(workflow.plan(), GraphFormat::Text), "● a\n╰─● b\n");
/// # Ok::<(), windlass_workflow::ParseErrors>(())
/// ```
#[must_use]
pub fn graph(plan: &Plan, format: GraphFormat) -> String {
    match format {
        GraphFormat::Text => picture::draw(plan),
        GraphFormat::Ascii => picture::in_ascii(&picture::draw(plan)),
        GraphFormat::Dot => dot(plan),
        GraphFormat::Mermaid => mermaid(plan),
        GraphFormat::Json => format!("{:#}\n", as_json(plan)),
    }
}

fn dot(plan: &Plan) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut out =
        format!("digraph {} {{\n  rankdir=LR;\n  node [shape=box];\n", quoted(&plan.name));
    for step in &plan.steps {
        line(&mut out, format_args!("  {};", quoted(&step.name)));
    }
    for (from, to, condition) in edges(plan) {
        let style = match condition {
            EdgeKind::Success => String::new(),
            other => format!(" [style=dashed, label=\"{}\"]", other.word()),
        };
        let (from, to) = (quoted(&from.name), quoted(&to.name));
        line(&mut out, format_args!("  {from} -> {to}{style};"));
    }
    out + "}\n"
}

fn mermaid(plan: &Plan) -> String {
    // Escapes the characters that have a meaning in a Mermaid label.
    let label = |text: &str| {
        let entity = |c: char| match c {
            '"' | '#' | '<' | '>' | '&' | '`' => format!("#{};", u32::from(c)),
            c => c.to_string(),
        };
        text.chars().map(entity).collect::<String>()
    };
    let mut out = "flowchart LR\n".to_owned();
    for (index, step) in plan.steps.iter().enumerate() {
        line(&mut out, format_args!("  s{index}[\"{}\"]", label(&step.name)));
    }
    for (to, step) in plan.steps.iter().enumerate() {
        for edge in &step.after {
            let arrow = match edge.kind {
                EdgeKind::Success => "-->".to_owned(),
                other => format!("-.->|{}|", other.word()),
            };
            line(&mut out, format_args!("  s{} {arrow} s{to}", edge.step));
        }
    }
    out
}

fn as_json(plan: &Plan) -> Value {
    let steps: Vec<_> = plan.steps.iter().map(|step| step_json(plan, step)).collect();
    json!({ "schema": 1, "name": plan.name, "steps": steps })
}

fn step_json(plan: &Plan, step: &Step) -> Value {
    let after = step
        .after
        .iter()
        .map(|edge| json!({ "step": plan.steps[edge.step].name, "on": edge.kind.word() }));
    let each = step.each.iter().map(|(name, value)| (name.clone(), json!(value)));
    let names = |guards: &[usize]| -> Vec<_> {
        guards.iter().map(|&guard| plan.guards[guard].name.clone()).collect()
    };
    json!({
        "name": step.name,
        "declared": step.declared,
        "each": each.collect::<serde_json::Map<_, _>>(),
        "run": step.execution.run.to_string(),
        "after": after.collect::<Vec<_>>(),
        "lock": step.needs.locks.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "guard": names(&step.gate.guards),
        "ensure": names(&step.ending.ensures),
        "priority": step.priority,
    })
}

fn edges(plan: &Plan) -> impl Iterator<Item = (&Step, &Step, EdgeKind)> {
    plan.steps.iter().flat_map(move |to| {
        to.after.iter().map(move |edge| (&plan.steps[edge.step], to, edge.kind))
    })
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a string takes everything");
}

#[cfg(test)]
mod tests;

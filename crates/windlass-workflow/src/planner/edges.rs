//! What each step waits for, and the cycles that must not be.

use std::collections::HashSet;
use std::ops::Range;

use super::declared::{DeclaredStep, DeclaredSteps};
use super::texts::{NameScope, TextReader, UnknownName};
use crate::diagnostic::Diagnostic;
use crate::file::NamesOr;
use crate::limits;
use crate::step::{Edge, EdgeCondition, Step};
use crate::template::Template;
use crate::variable::Variable;

/// Where in the file each edge of a step stands.
pub(super) type EdgeSpans = Vec<Range<usize>>;

/// What one declared step waits for.
pub(super) struct Dependencies<'a> {
    step: &'a DeclaredStep<'a>,
    declared: &'a DeclaredSteps<'a>,
    texts: &'a TextReader<'a>,
    entries: Vec<Dependency>,
}

struct Dependency {
    name: Template,
    condition: EdgeCondition,
    span: Range<usize>,
}

impl<'a> Dependencies<'a> {
    pub(super) fn new(
        step: &'a DeclaredStep<'a>,
        declared: &'a DeclaredSteps<'a>,
        scope: &NameScope<'_>,
        texts: &'a TextReader<'a>,
    ) -> Self {
        let mut entries = Vec::new();
        for (name, condition, span) in written(step) {
            let name = texts.template(name, &span, scope, UnknownName::Reject);
            if let Some(variable) = name.variables().find(|v| !matches!(v, Variable::Each(_))) {
                let own = step.key.as_str();
                let message =
                    format!("step `{own}` waits for a step that depends on `{{{variable}}}`");
                let help = "only the variables of its own `each` can stand here";
                texts.diagnostics.error(Diagnostic::new(span, message, "not known yet").help(help));
                continue;
            }
            entries.push(Dependency { name, condition, span });
        }
        Self { step, declared, texts, entries }
    }

    /// The edges of the step with these values for its `each` variables.
    pub(super) fn edges(&self, combination: &[String]) -> (Vec<Edge>, EdgeSpans) {
        let (mut edges, mut places) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        for entry in &self.entries {
            let value = |variable: &Variable| {
                let place = self.step.each.iter().position(|name| *name == variable.to_string());
                place.map(|place| combination[place].clone())
            };
            let name = entry.name.fill(value).unwrap_or_default();
            let Some(sources) = self.sources(&name, &entry.span) else { continue };
            for source in sources {
                if seen.insert(source) {
                    edges.push(Edge { step: source, condition: entry.condition });
                    places.push(entry.span.clone());
                } else {
                    self.twice(&name, entry.span.clone());
                    break;
                }
            }
        }
        (edges, places)
    }

    fn sources(&self, name: &str, span: &Range<usize>) -> Option<Range<usize>> {
        let own = self.step.key.as_str();
        if name == own {
            let message = format!("step `{own}` waits for itself");
            let help = "leave it out of `after`";
            let mistake = Diagnostic::new(span.clone(), message, "the step itself");
            self.texts.diagnostics.error(mistake.help(help));
            return None;
        }
        let places = self.declared.places(name);
        if places.is_none() {
            self.no_such_step(name, span.clone());
        }
        places
    }

    fn no_such_step(&self, name: &str, span: Range<usize>) {
        let own = self.step.key.as_str();
        let diagnostics = self.texts.diagnostics;
        let message = format!("step `{own}` waits for `{name}`, which does not exist");
        let of_each = name.split_once('[').map(|(head, _)| self.declared.instance_names(head));
        let of_each = of_each.unwrap_or_default();
        let help = match of_each.as_slice() {
            [] => diagnostics
                .suggest(name, self.declared.names().filter(|name| *name != own))
                .or_else(|| self.others(own)),
            names => diagnostics
                .suggest(name, names.iter().map(String::as_str))
                .or_else(|| Some(format!("there are {}", first_few(names)))),
        };
        diagnostics.error(Diagnostic::new(span, message, "no such step").help_if(help));
    }

    /// The other steps, if there are only a few.
    fn others(&self, own: &str) -> Option<String> {
        let others = self.declared.names().filter(|name| *name != own);
        let others: Vec<_> = others.take(10).map(|name| format!("`{name}`")).collect();
        let help = match others.as_slice() {
            [] => format!("add [step.…] for it, or leave it out: `{own}` is the only step"),
            others => format!("the other steps are {}", others.join(", ")),
        };
        (others.len() < 10).then_some(help)
    }

    fn twice(&self, name: &str, span: Range<usize>) {
        let own = self.step.key.as_str();
        let message = format!("step `{own}` waits for `{name}` twice");
        let help = "name it once";
        self.texts
            .diagnostics
            .error(Diagnostic::new(span, message, "named above already").help(help));
    }
}

fn written<'a>(step: &'a DeclaredStep<'_>) -> Vec<(&'a str, EdgeCondition, Range<usize>)> {
    let success = EdgeCondition::Success;
    match step.table.after.with_span() {
        None => Vec::new(),
        Some((NamesOr::Names(names), span)) => {
            let names = names.with_span(span).into_iter();
            names.map(|(name, span)| (name, success, span)).collect()
        }
        Some((NamesOr::Table(table), _)) => {
            let names = table.iter();
            names.map(|(key, condition, _)| (key.as_str(), *condition, key.span.clone())).collect()
        }
    }
}

fn first_few(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(5).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > 5 { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// More edges than a workflow may have; told once, at the step that goes over.
pub(super) fn too_many(step: &DeclaredStep<'_>) -> Diagnostic {
    let message = format!("this workflow has more than {} edges between steps", limits::EDGES);
    let help = "put a step in between that waits for all of them, and let the others wait for that";
    Diagnostic::new(step.key.span.clone(), message, "one too many").help(help)
}

/// A cycle as its path.
pub(super) fn cycle(path: &[usize], steps: &[Step], places: &[EdgeSpans]) -> Diagnostic {
    const SHOWN: usize = 8;
    let first = path[0];
    let name = |place: &usize| format!("`{}`", steps[*place].name);
    let mut names: Vec<_> = path.iter().take(SHOWN).map(name).collect();
    if path.len() > SHOWN {
        names.push(format!("({} more)", path.len() - SHOWN));
    }
    names.push(name(&first));
    let message = format!("these steps wait for each other: {}", names.join(" -> "));
    let next = path[1 % path.len()];
    let edge = steps[first].after.iter().position(|edge| edge.step == next);
    let span = places[first][edge.expect("a path goes along edges")].clone();
    let label = format!("`{}` waits for `{}` here", steps[first].name, steps[next].name);
    let help = "an arrow leads to the step that is waited for; take one of them away";
    let cycle = path.iter().map(|place| steps[*place].name.clone()).collect();
    Diagnostic { cycle, ..Diagnostic::new(span, message, label).help(help) }
}

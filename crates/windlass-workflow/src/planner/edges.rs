//! Resolves the dependencies of each step, and reports cycles.

use std::collections::HashSet;
use std::ops::Range;

use windlass_core::EdgeKind;

use super::declared::{DeclaredStep, DeclaredSteps};
use super::scope::NameScope;
use super::texts::{TextReader, UnknownName};
use crate::diagnostic::Diagnostic;
use crate::file::NamesOr;
use crate::limits;
use crate::step::{Step, StepDependency};
use crate::template::Template;
use crate::variable::Variable;

/// The span of each edge of a step.
pub(super) type EdgeSpans = Vec<Range<usize>>;

/// The dependencies of one declared step.
pub(super) struct Dependencies<'a> {
    step: &'a DeclaredStep<'a>,
    declared: &'a DeclaredSteps<'a>,
    texts: &'a TextReader<'a>,
    entries: Vec<NamedDependency>,
}

struct NamedDependency {
    name: Template,
    kind: EdgeKind,
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
        for (name, kind, span) in after_entries(step) {
            let name = texts.template(name, &span, scope, UnknownName::Reject);
            if let Some(variable) = name.variables().find(|v| !matches!(v, Variable::Each(_))) {
                let own = step.key.as_str();
                let message =
                    format!("step `{own}` waits for a step that depends on `{{{variable}}}`");
                let help = "only variables of the step's own `each` can be used here";
                texts.diagnostics.error(Diagnostic::new(span, message, "not known yet").help(help));
                continue;
            }
            entries.push(NamedDependency { name, kind, span });
        }
        Self { step, declared, texts, entries }
    }

    /// Returns the edges of the instance with these values of its `each` variables.
    pub(super) fn edges(&self, combination: &[String]) -> (Vec<StepDependency>, EdgeSpans) {
        let (mut edges, mut spans) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        for entry in &self.entries {
            let value = |variable: &Variable| {
                let position = self.step.each.iter().position(|name| *name == variable.to_string());
                position.map(|position| combination[position].clone())
            };
            let name = entry.name.fill(value).unwrap_or_default();
            let Some(sources) = self.sources(&name, &entry.span) else { continue };
            for source in sources {
                if seen.insert(source) {
                    let kind = entry.kind;
                    edges.push(StepDependency { step: source, same_worker: false, kind });
                    spans.push(entry.span.clone());
                } else {
                    self.twice(&name, entry.span.clone());
                    break;
                }
            }
        }
        (edges, spans)
    }

    fn sources(&self, name: &str, span: &Range<usize>) -> Option<Range<usize>> {
        let own = self.step.key.as_str();
        if name == own {
            let message = format!("step `{own}` waits for itself");
            let help = "leave it out of `after`";
            let error = Diagnostic::new(span.clone(), message, "the step itself");
            self.texts.diagnostics.error(error.help(help));
            return None;
        }
        let indices = self.declared.indices(name);
        if indices.is_none() {
            self.unknown_step(name, span.clone());
        }
        indices
    }

    fn unknown_step(&self, name: &str, span: Range<usize>) {
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

    /// Returns a help text with the other steps, if there are fewer than ten.
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

fn after_entries<'a>(step: &'a DeclaredStep<'_>) -> Vec<(&'a str, EdgeKind, Range<usize>)> {
    let success = EdgeKind::Success;
    match step.table.after.with_span() {
        None => Vec::new(),
        Some((NamesOr::Names(names), span)) => {
            let names = names.with_spans(span).into_iter();
            names.map(|(name, span)| (name, success, span)).collect()
        }
        Some((NamesOr::Table(table), _)) => {
            let names = table.iter();
            names.map(|(key, word, _)| (key.as_str(), (*word).into(), key.span.clone())).collect()
        }
    }
}

fn first_few(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(5).map(|name| format!("`{name}`")).collect();
    let more = if names.len() > 5 { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// Returns the error for too many edges, at the step that exceeds the limit.
pub(super) fn too_many(step: &DeclaredStep<'_>) -> Diagnostic {
    let message = format!("this workflow has more than {} edges between steps", limits::EDGES);
    let help = "put a step in between that waits for all of them, and let the others wait for that";
    Diagnostic::new(step.key.span.clone(), message, "one too many").help(help)
}

/// Returns the error for a cycle; each step of `path` waits for the next one.
pub(super) fn cycle(path: &[usize], steps: &[Step], spans: &[EdgeSpans]) -> Diagnostic {
    const SHOWN: usize = 8;
    let first = path[0];
    let name = |index: &usize| format!("`{}`", steps[*index].name);
    let mut names: Vec<_> = path.iter().take(SHOWN).map(name).collect();
    if path.len() > SHOWN {
        names.push(format!("({} more)", path.len() - SHOWN));
    }
    names.push(name(&first));
    let message = format!("these steps wait for each other: {}", names.join(" -> "));
    let next = path[1 % path.len()];
    let edge = steps[first].after.iter().position(|edge| edge.step == next);
    let span = spans[first][edge.expect("a path goes along edges")].clone();
    let label = format!("`{}` waits for `{}` here", steps[first].name, steps[next].name);
    let help = "each step waits for the one after the arrow; remove one of these dependencies";
    let cycle = path.iter().map(|index| steps[*index].name.clone()).collect();
    Diagnostic { cycle, ..Diagnostic::new(span, message, label).help(help) }
}

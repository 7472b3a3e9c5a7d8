//! Plans to which workers steps may go: `on` and `with`.

use std::ops::Range;

use windlass_core::Selector;

use super::declared::DeclaredStep;
use super::scope::NameScope;
use super::texts::{TextReader, UnknownName};
use super::values::scalar_text;
use crate::diagnostic::Diagnostic;
use crate::file::{NamesOr, WorkersEntry};
use crate::step::StepDependency;
use crate::template::Template;
use crate::variable::Variable;

/// What one declared step asks of workers, before the values of its `each` variables are known.
pub(super) struct Placement<'a> {
    step: &'a DeclaredStep<'a>,
    texts: &'a TextReader<'a>,
    worker: Option<Template>,
    labels: Vec<(String, Template)>,
    beside: Option<(Template, Range<usize>)>,
}

impl<'a> Placement<'a> {
    pub(super) fn new(
        step: &'a DeclaredStep<'a>,
        scope: &NameScope<'_>,
        texts: &'a TextReader<'a>,
    ) -> Self {
        let text = |text: &str, span: Range<usize>| own_text(step, scope, texts, text, span);
        let (mut worker, mut labels) = (None, Vec::new());
        match step.table.on.with_span() {
            None => {}
            Some((WorkersEntry::Name(name), span)) => worker = text(name, span),
            Some((WorkersEntry::Labels(entries), _)) => {
                for (key, value, span) in entries.iter() {
                    let value = text(&scalar_text(value), span);
                    labels.extend(value.map(|value| (key.as_str().to_owned(), value)));
                }
            }
        }
        let beside = step.table.with.with_span();
        let beside = beside.and_then(|(name, span)| Some((text(name, span.clone())?, span)));
        Self { step, texts, worker, labels, beside }
    }

    /// Returns the workers to which the instance with these values of its `each` variables may go.
    pub(super) fn on(&self, combination: &[String]) -> Selector {
        let labels = self.labels.iter();
        let labels = labels.map(|(key, value)| (key.clone(), self.filled(value, combination)));
        Selector {
            labels: labels.collect(),
            worker: self.worker.as_ref().map(|name| self.filled(name, combination)),
        }
    }

    /// Marks the dependency of an instance to whose worker it goes. `sources` returns the steps of a name.
    pub(super) fn mark(
        &self,
        combination: &[String],
        edges: &mut [StepDependency],
        sources: impl Fn(&str) -> Option<Range<usize>>,
    ) {
        let Some((name, span)) = &self.beside else { return };
        let name = self.filled(name, combination);
        let found = sources(&name).unwrap_or_default();
        let edge = edges.iter_mut().find(|edge| found.contains(&edge.step));
        match edge {
            Some(edge) if found.len() == 1 => edge.same_worker = true,
            Some(_) => self.several(&name, found.len(), span.clone()),
            None => self.not_followed(&name, span.clone()),
        }
    }

    fn filled(&self, template: &Template, combination: &[String]) -> String {
        let value = |variable: &Variable| {
            let position = self.step.each.iter().position(|name| *name == variable.to_string());
            position.map(|position| combination[position].clone())
        };
        template.fill(value).unwrap_or_default()
    }

    fn several(&self, name: &str, count: usize, span: Range<usize>) {
        let own = self.step.key.as_str();
        let message = format!("step `{own}` goes with `{name}`, which is {count} steps");
        let help = format!("name one of them, such as with = \"{name}[…]\"");
        self.texts.diagnostics.error(Diagnostic::new(span, message, "more than one").help(help));
    }

    fn not_followed(&self, name: &str, span: Range<usize>) {
        let (own, diagnostics) = (self.step.key.as_str(), self.texts.diagnostics);
        let message = format!("step `{own}` goes with `{name}`, which it does not follow");
        let follows: Vec<_> = after_names(self.step).collect();
        let help = diagnostics.suggest(name, follows.iter().copied());
        let help = help.unwrap_or_else(|| {
            format!("a step goes where one was that it waits for: after = [\"{name}\"]")
        });
        let error = Diagnostic::new(span, message, "not in its `after`");
        diagnostics.error(error.help(help));
    }
}

/// Returns the names in the step's `after`.
fn after_names<'a>(step: &'a DeclaredStep<'_>) -> impl Iterator<Item = &'a str> {
    let (names, table) = match step.table.after.value() {
        Some(NamesOr::Names(names)) => (Some(names), None),
        Some(NamesOr::Table(table)) => (None, Some(table)),
        None => (None, None),
    };
    let names = names.map(|names| names.with_spans(0..0)).into_iter().flatten();
    let keys = table.into_iter().flat_map(|table| table.iter().map(|(key, ..)| key.as_str()));
    names.map(|(name, _)| name).chain(keys)
}

/// Returns a text in which only variables of the step's own `each` may be used.
fn own_text(
    step: &DeclaredStep<'_>,
    scope: &NameScope<'_>,
    texts: &TextReader<'_>,
    text: &str,
    span: Range<usize>,
) -> Option<Template> {
    if text.trim().is_empty() {
        let message = format!("step `{}` asks for a worker without a name", step.key.as_str());
        let help = "name a worker, on = \"gpu-1\", or labels, on = { zone = \"a\" }";
        texts.diagnostics.error(Diagnostic::new(span, message, "empty").help(help));
        return None;
    }
    let template = texts.template(text, &span, scope, UnknownName::Reject);
    if let Some(variable) = template.variables().find(|v| !matches!(v, Variable::Each(_))) {
        let own = step.key.as_str();
        let message = format!("where step `{own}` goes depends on `{{{variable}}}`");
        let help = "only variables of the step's own `each` can be used here";
        texts.diagnostics.error(Diagnostic::new(span, message, "not known yet").help(help));
        return None;
    }
    Some(template)
}

//! The steps as they are declared, and the places of the steps that each of them stands for.

use std::collections::HashMap;
use std::ops::Range;

use super::each::EachExpander;
use super::literals::EachValueReader;
use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::file::{File, StepTable};
use crate::limits;
use crate::spanned::Key;

/// All the steps of a file, in its order.
pub(super) struct DeclaredSteps<'f> {
    pub(super) steps: Vec<DeclaredStep<'f>>,
    places: HashMap<&'f str, usize>,
    instances: HashMap<String, usize>,
}

pub(super) struct DeclaredStep<'f> {
    pub(super) key: &'f Key,
    pub(super) table: &'f StepTable,
    /// The names of its `each` variables.
    pub(super) each: Vec<String>,
    /// The values of those variables, one list for each step that it stands for.
    pub(super) combinations: Vec<Vec<String>>,
    /// The place of the first step that it stands for; the others follow.
    pub(super) first: usize,
}

impl DeclaredStep<'_> {
    pub(super) fn places(&self) -> Range<usize> {
        self.first..self.first + self.combinations.len()
    }

    pub(super) fn instance_name(&self, combination: &[String]) -> String {
        let name = self.key.as_str();
        if self.each.is_empty() {
            return name.to_owned();
        }
        format!("{name}[{}]", combination.join(","))
    }
}

impl<'f> DeclaredSteps<'f> {
    pub(super) fn all(
        file: &'f File,
        each_texts: &EachValueReader<'_>,
        diagnostics: &Diagnostics,
    ) -> Self {
        let mut all = Self { steps: Vec::new(), places: HashMap::new(), instances: HashMap::new() };
        for (key, table, _) in file.step.entries() {
            check_name(key, diagnostics);
            let each = EachExpander { step: key.as_str(), texts: each_texts, diagnostics };
            let (each, combinations) =
                table.each.with_span().map_or_else(plain, |(table, span)| each.expand(table, span));
            all.add(key, table, each, combinations);
            if all.len() > limits::STEPS {
                diagnostics.error(too_many(key));
                break;
            }
        }
        // Guards alone are for `windlass guard`; what cannot be read is a mistake already.
        let steps = file.step.is_present() && file.step.value().is_none_or(|all| !all.0.is_empty());
        let guards =
            file.guard.is_present() && file.guard.value().is_none_or(|all| !all.0.is_empty());
        if all.steps.is_empty() && !steps && !guards {
            diagnostics.error(no_steps());
        }
        all
    }

    fn add(
        &mut self,
        key: &'f Key,
        table: &'f StepTable,
        each: Vec<String>,
        combinations: Vec<Vec<String>>,
    ) {
        let step = DeclaredStep { key, table, each, combinations, first: self.len() };
        self.places.insert(key.as_str(), self.steps.len());
        if !step.each.is_empty() {
            for (place, combination) in step.places().zip(&step.combinations) {
                self.instances.insert(step.instance_name(combination), place);
            }
        }
        self.steps.push(step);
    }

    /// How many steps they all stand for.
    pub(super) fn len(&self) -> usize {
        self.steps.last().map_or(0, |step| step.places().end)
    }

    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'f str> {
        self.steps.iter().map(|step| step.key.as_str())
    }

    /// The places of the steps that a name stands for: `test`, or one of them, `test[linux]`.
    pub(super) fn places(&self, name: &str) -> Option<Range<usize>> {
        let declared = self.place(name).map(|place| self.steps[place].places());
        declared.or_else(|| self.instances.get(name).map(|&place| place..place + 1))
    }

    /// The names of the steps that `name` stands for if it has an `each`.
    pub(super) fn instance_names(&self, name: &str) -> Vec<String> {
        let Some(place) = self.place(name) else { return Vec::new() };
        let step = &self.steps[place];
        step.combinations.iter().map(|values| step.instance_name(values)).collect()
    }
}

fn plain() -> (Vec<String>, Vec<Vec<String>>) {
    (Vec::new(), vec![Vec::new()])
}

/// There is nothing to run.
pub(crate) fn no_steps() -> Diagnostic {
    let help = "add one: [step.hello], and below it: run = \"echo hello\"";
    Diagnostic::new(0..0, "this workflow has no steps", "no [step.…] in this file").help(help)
}

fn too_many(key: &Key) -> Diagnostic {
    let message = format!("this workflow has more than {} steps", limits::STEPS);
    Diagnostic::new(key.span.clone(), message, "one too many")
}

/// Step names stand in `{step.key}`, in `run/step@attempt` and in the names of log files.
fn check_name(key: &Key, diagnostics: &Diagnostics) {
    let name = key.as_str();
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let begins = name.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    if !begins || !name.chars().all(plain) {
        let message = format!("`{name}` cannot be the name of a step");
        let help = "use letters, digits, - and _, such as build-all";
        diagnostics.error(Diagnostic::new(key.span.clone(), message, "not a name").help(help));
    }
}

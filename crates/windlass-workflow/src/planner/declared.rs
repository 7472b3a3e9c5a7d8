//! The steps that a file declares, and the indices of the steps that each of them expands to.
//!
//! A step without `each` expands to itself, one with `each` to an instance per combination of values.

use std::collections::HashMap;
use std::ops::Range;

use super::each::EachExpander;
use super::literals::EachValueReader;
use super::too_long;
use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::file::{File, StepTable};
use crate::limits;
use crate::spanned::Key;

/// The declared steps, in the order of the file.
pub(super) struct DeclaredSteps<'f> {
    pub(super) steps: Vec<DeclaredStep<'f>>,
    /// The position in `steps` of each name.
    positions: HashMap<&'f str, usize>,
    /// The index of each instance of an `each`, by its name.
    instances: HashMap<String, usize>,
}

pub(super) struct DeclaredStep<'f> {
    pub(super) key: &'f Key,
    pub(super) table: &'f StepTable,
    /// The names of its `each` variables.
    pub(super) each: Vec<String>,
    /// The values of those variables, one list for each instance.
    pub(super) combinations: Vec<Vec<String>>,
    /// The index of its first instance; the others follow.
    pub(super) first: usize,
}

impl DeclaredStep<'_> {
    /// Returns the indices of its instances.
    pub(super) fn indices(&self) -> Range<usize> {
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
    pub(super) fn expand(
        file: &'f File,
        each_values: &EachValueReader<'_>,
        diagnostics: &Diagnostics,
    ) -> Self {
        let mut all =
            Self { steps: Vec::new(), positions: HashMap::new(), instances: HashMap::new() };
        for (key, table, _) in file.step.entries() {
            check_name(key, diagnostics);
            let expander = EachExpander { step: key.as_str(), values: each_values, diagnostics };
            let (each, combinations) = match table.each.with_span() {
                Some((table, span)) => expander.expand(table, span),
                None => (Vec::new(), vec![Vec::new()]),
            };
            all.add(key, table, each, combinations);
            if all.len() > limits::STEPS {
                diagnostics.error(too_many(key));
                break;
            }
        }
        // A file with guards alone is for `windlass guard`. A table that could not be deserialized has
        // been reported already.
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
        self.positions.insert(key.as_str(), self.steps.len());
        if !step.each.is_empty() {
            for (index, combination) in step.indices().zip(&step.combinations) {
                self.instances.insert(step.instance_name(combination), index);
            }
        }
        self.steps.push(step);
    }

    /// Returns the number of steps that all of them expand to.
    pub(super) fn len(&self) -> usize {
        self.steps.last().map_or(0, |step| step.indices().end)
    }

    /// Returns the position in `steps` of a declared step.
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'f str> {
        self.steps.iter().map(|step| step.key.as_str())
    }

    /// Returns the indices that a name refers to: `test` to all instances, `test[linux]` to one.
    pub(super) fn indices(&self, name: &str) -> Option<Range<usize>> {
        let declared = self.position(name).map(|position| self.steps[position].indices());
        declared.or_else(|| self.instances.get(name).map(|&index| index..index + 1))
    }

    /// Returns the names of the instances of a declared step.
    pub(super) fn instance_names(&self, name: &str) -> Vec<String> {
        let Some(position) = self.position(name) else { return Vec::new() };
        let step = &self.steps[position];
        step.combinations.iter().map(|values| step.instance_name(values)).collect()
    }
}

/// Returns the error for a workflow without steps.
pub(crate) fn no_steps() -> Diagnostic {
    let help = "add one: [step.hello], and below it: run = \"echo hello\"";
    Diagnostic::new(0..0, "this workflow has no steps", "no [step.…] in this file").help(help)
}

fn too_many(key: &Key) -> Diagnostic {
    let message = format!("this workflow has more than {} steps", limits::STEPS);
    let help = "split it into several workflows";
    Diagnostic::new(key.span.clone(), message, "one too many").help(help)
}

/// Checks the name of a step, which is part of `{step.key}`, of `run/step@attempt` and of the names of log
/// files.
fn check_name(key: &Key, diagnostics: &Diagnostics) {
    let name = key.as_str();
    if name.len() > limits::NAME_BYTES {
        diagnostics.error(too_long("the name of a step", name, key.span.clone()));
        return;
    }
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let begins = name.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    if !begins || !name.chars().all(plain) {
        let message = format!("`{name}` cannot be the name of a step");
        let help = "use letters, digits, - and _, such as build-all";
        diagnostics.error(Diagnostic::new(key.span.clone(), message, "invalid name").help(help));
    }
}

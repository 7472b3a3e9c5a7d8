//! Expands `each`: every combination of its values, without those that `exclude` matches, and with those
//! that `include` adds.

use std::collections::HashSet;
use std::ops::Range;

use windlass_core::Unprintable;

use super::literals::EachValueReader;
use super::values::is_identifier;
use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::file::{EachTable, Scalar};
use crate::limits;
use crate::spanned::{Entries, Key, Spanned};
use crate::variable::BUILT_IN;

/// Expands the `each` of one step.
pub(super) struct EachExpander<'a> {
    pub(super) step: &'a str,
    pub(super) values: &'a EachValueReader<'a>,
    pub(super) diagnostics: &'a Diagnostics,
}

type VariableValues = Vec<(String, Vec<String>)>;

impl EachExpander<'_> {
    /// Returns the names of the variables, and the combinations of their values.
    pub(super) fn expand(
        &self,
        table: &EachTable,
        span: Range<usize>,
    ) -> (Vec<String>, Vec<Vec<String>>) {
        let errors_before = self.diagnostics.error_count();
        let values = self.values(table);
        let mut names: Vec<String> = values.iter().map(|(name, _)| name.clone()).collect();
        let product: usize =
            values.iter().map(|(_, list)| list.len()).fold(1, usize::saturating_mul);
        if product > limits::EACH_STEPS {
            self.too_many(product, span);
            return (names, Vec::new());
        }
        let excluded = self.excluded(table, &values);
        let mut combinations = if values.is_empty() { Vec::new() } else { product_of(&values) };
        combinations.retain(|combination| !excluded.iter().any(|rule| matches(rule, combination)));
        self.include(table, &mut names, &mut combinations);
        self.check_names(&combinations, &span);
        if combinations.len() > limits::EACH_STEPS {
            self.too_many(combinations.len(), span);
        } else if combinations.is_empty()
            && self.diagnostics.error_count() == errors_before
            && is_deserialized(table)
        {
            let message = format!("the `each` of step `{}` leaves nothing to run", self.step);
            let help = "give it a list of values, or leave out an `exclude`";
            self.diagnostics.error(Diagnostic::new(span, message, "an empty `each`").help(help));
        }
        (names, combinations)
    }

    /// Reports two combinations with the same name, which values with commas can have.
    fn check_names(&self, combinations: &[Vec<String>], span: &Range<usize>) {
        let mut seen = HashSet::new();
        let mut names = combinations.iter().map(|combination| combination.join(","));
        let Some(name) = names.find(|name| !seen.insert(name.clone())) else { return };
        let message = format!("step `{}`: two combinations have the name `{0}[{name}]`", self.step);
        let help = "a step's name has commas between the values; use values without commas";
        let error = Diagnostic::new(span.clone(), message, "the same name twice");
        self.diagnostics.error(error.help(help));
    }

    fn too_many(&self, count: usize, span: Range<usize>) {
        let message = format!("the `each` of step `{}` expands to {count} steps", self.step);
        let help = format!("an `each` expands to at most {} steps", limits::EACH_STEPS);
        self.diagnostics.error(Diagnostic::new(span, message, "too many").help(help));
    }

    fn values(&self, table: &EachTable) -> VariableValues {
        let mut all = Vec::new();
        for (key, list) in &table.variables.0 {
            self.check_variable(key);
            let Some((list, span)) = list.with_span() else { continue };
            if list.is_empty() {
                let message = format!("step `{}`: `{}` has no values", self.step, key.as_str());
                let help = "an `each` needs at least one value for every variable";
                self.diagnostics.error(Diagnostic::new(span, message, "an empty list").help(help));
            }
            let texts = self.distinct(key, list);
            all.push((key.as_str().to_owned(), texts));
        }
        all
    }

    fn check_variable(&self, key: &Key) {
        let name = key.as_str();
        let problem = match name {
            _ if self.values.params.contains(name) => "is a parameter already",
            _ if BUILT_IN.contains(&name) => "is a built-in name",
            _ if !is_identifier(name) => "cannot be the name of a variable",
            _ => return,
        };
        let message = format!("step `{}`: `{name}` {problem}", self.step);
        let help = "use another name, of letters, digits and _";
        let error = Diagnostic::new(key.span.clone(), message, "invalid name");
        self.diagnostics.error(error.help(help));
    }

    fn distinct(&self, key: &Key, list: &[Spanned<Scalar>]) -> Vec<String> {
        let mut seen = HashSet::new();
        let mut texts = Vec::new();
        for (scalar, span) in list.iter().filter_map(Spanned::with_span) {
            let Some(text) = self.value(key.as_str(), scalar, &span) else { continue };
            if seen.insert(text.clone()) {
                texts.push(text);
            } else {
                let problem = "has the same value twice";
                self.report_value(key.as_str(), problem, "already in the list", span);
            }
        }
        texts
    }

    /// Returns the text of a value of the variable `name`, or reports why it cannot be part of a
    /// step's name.
    fn value(&self, name: &str, scalar: &Scalar, span: &Range<usize>) -> Option<String> {
        let text = self.values.read(scalar, span, self.step)?;
        if let Some(found) = Unprintable::first_in(&text) {
            let problem = format!("has a value with the unprintable character {found} in it");
            self.report_value(name, &problem, "becomes part of a name", span.clone());
            return None;
        }
        if text.len() > limits::NAME_BYTES {
            let problem = format!("has a value of {} bytes", text.len());
            self.report_value(name, &problem, "too long for a part of a name", span.clone());
            return None;
        }
        Some(text)
    }

    fn report_value(&self, name: &str, problem: &str, label: &str, span: Range<usize>) {
        let message = format!("step `{}`: `{name}` {problem}", self.step);
        let help = "every value becomes part of a step's name; change or remove this one";
        self.diagnostics.error(Diagnostic::new(span, message, label).help(help));
    }

    /// Returns, for each `exclude`, the value of each variable, or none for one that it does not name.
    fn excluded(&self, table: &EachTable, values: &VariableValues) -> Vec<Vec<Option<String>>> {
        let rules = table.exclude.value().into_iter().flatten();
        rules.filter_map(|rule| self.rule(rule.with_span()?, values)).collect()
    }

    fn rule(
        &self,
        (rule, span): (&Entries<Scalar>, Range<usize>),
        values: &VariableValues,
    ) -> Option<Vec<Option<String>>> {
        if rule.0.is_empty() {
            let message = format!("step `{}`: an `exclude` names no variable", self.step);
            let help = "name the values to leave out, or remove it";
            self.diagnostics.error(Diagnostic::new(span, message, "excludes nothing").help(help));
            return None;
        }
        let mut wanted = vec![None; values.len()];
        let mut whole = true;
        for (key, scalar, span) in rule.iter() {
            let name = key.as_str();
            let Some(text) = self.values.read(scalar, &span, self.step) else {
                whole = false;
                continue;
            };
            let position = values.iter().position(|(known, _)| known == name);
            match position {
                Some(position) if values[position].1.contains(&text) => {
                    wanted[position] = Some(text);
                }
                Some(position) => {
                    self.unknown_value(name, &text, &values[position].1, span);
                    whole = false;
                }
                None => {
                    self.unknown_variable(
                        key,
                        "exclude",
                        values.iter().map(|(name, _)| name.as_str()),
                    );
                    whole = false;
                }
            }
        }
        whole.then_some(wanted)
    }

    fn unknown_value(&self, name: &str, text: &str, known: &[String], span: Range<usize>) {
        let message =
            format!("step `{}`: `exclude` names a value that `{name}` does not have", self.step);
        let help = self.diagnostics.suggest(text, known.iter().map(String::as_str));
        let help = help.unwrap_or_else(|| format!("its values are {}", known.join(", ")));
        self.diagnostics.error(Diagnostic::new(span, message, "no such value").help(help));
    }

    fn unknown_variable<'k>(&self, key: &Key, word: &str, known: impl Iterator<Item = &'k str>) {
        let name = key.as_str();
        let message = format!(
            "step `{}`: `{word}` names `{name}`, which is not a variable of this `each`",
            self.step
        );
        let known: Vec<_> = known.collect();
        let help = self.diagnostics.suggest(name, known.iter().copied());
        let help = help.unwrap_or_else(|| format!("the variables are {}", known.join(", ")));
        let error = Diagnostic::new(key.span.clone(), message, "no such variable");
        self.diagnostics.error(error.help(help));
    }

    fn include(
        &self,
        table: &EachTable,
        names: &mut Vec<String>,
        combinations: &mut Vec<Vec<String>>,
    ) {
        let mut seen: HashSet<Vec<String>> = combinations.iter().cloned().collect();
        let entries = table.include.value().into_iter().flatten();
        for (entry, span) in entries.filter_map(Spanned::with_span) {
            if names.is_empty() {
                *names = entry.0.iter().map(|(key, _)| key.as_str().to_owned()).collect();
                entry.0.iter().for_each(|(key, _)| self.check_variable(key));
            }
            let Some(combination) = self.combination(entry, names, span.clone()) else { continue };
            if !seen.insert(combination.clone()) {
                let message = format!(
                    "step `{}`: `include` adds a combination that exists already",
                    self.step
                );
                let help = "remove it";
                self.diagnostics.error(Diagnostic::new(span, message, "duplicate").help(help));
                continue;
            }
            combinations.push(combination);
        }
    }

    fn combination(
        &self,
        entry: &Entries<Scalar>,
        names: &[String],
        span: Range<usize>,
    ) -> Option<Vec<String>> {
        let known = || names.iter().map(String::as_str);
        let strange = entry.0.iter().find(|(key, _)| !known().any(|name| name == key.as_str()));
        if let Some((key, _)) = strange {
            self.unknown_variable(key, "include", known());
            return None;
        }
        let value = |name: &String| {
            let found = entry.iter().find(|(key, ..)| key.as_str() == name);
            let text = |(_, scalar, span): (_, _, _)| self.value(name, scalar, &span);
            // A value that cannot be part of a name has been reported already.
            found.map(text).map(Option::unwrap_or_default).ok_or_else(|| name.clone())
        };
        match names.iter().map(value).collect::<Result<Vec<_>, _>>() {
            Ok(combination) => Some(combination),
            Err(missing) => {
                let message =
                    format!("step `{}`: an `include` does not set `{missing}`", self.step);
                let help = format!("an `include` sets every variable: {}", names.join(", "));
                self.diagnostics.error(Diagnostic::new(span, message, "incomplete").help(help));
                None
            }
        }
    }
}

/// Returns whether every value could be deserialized; one that could not has been reported already.
fn is_deserialized(table: &EachTable) -> bool {
    let whole = |list: &Vec<Spanned<Scalar>>| list.iter().all(|value| value.value.is_some());
    table.variables.0.iter().all(|(_, list)| list.value.as_ref().is_some_and(whole))
}

/// Returns every combination; the last variable changes fastest.
fn product_of(values: &VariableValues) -> Vec<Vec<String>> {
    let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
    for (_, list) in values {
        let longer = |head: &Vec<String>| {
            let head = head.clone();
            list.iter().map(move |value| [head.as_slice(), std::slice::from_ref(value)].concat())
        };
        combinations = combinations.iter().flat_map(longer).collect();
    }
    combinations
}

fn matches(rule: &[Option<String>], combination: &[String]) -> bool {
    rule.iter().zip(combination).all(|(wanted, value)| wanted.as_ref().is_none_or(|w| w == value))
}

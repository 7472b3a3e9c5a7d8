//! What an `each` stands for: every combination of its lists, without those that `exclude` matches,
//! and with those that `include` adds.

use std::collections::HashSet;
use std::ops::Range;

use windlass_core::Unprintable;

use super::fixed::EachTexts;
use super::values::is_identifier;
use crate::file::{EachTable, Scalar};
use crate::limits;
use crate::mistake::Mistake;
use crate::notes::Notes;
use crate::variable::BUILT_IN;
use crate::written::{Entries, Key, Written};

/// Expands the `each` of one step.
pub(super) struct Each<'a> {
    pub(super) step: &'a str,
    pub(super) texts: &'a EachTexts<'a>,
    pub(super) notes: &'a Notes,
}

type Values = Vec<(String, Vec<String>)>;

impl Each<'_> {
    /// The names of the variables, and their values for each step.
    pub(super) fn expand(
        &self,
        table: &EachTable,
        span: Range<usize>,
    ) -> (Vec<String>, Vec<Vec<String>>) {
        let told = self.notes.count();
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
        if combinations.len() > limits::EACH_STEPS {
            self.too_many(combinations.len(), span);
        } else if combinations.is_empty() && self.notes.count() == told && is_readable(table) {
            let message = format!("the `each` of step `{}` leaves nothing to run", self.step);
            let help = "give it a list of values, or leave out an `exclude`";
            self.notes.mistake(Mistake::new(span, message, "an empty `each`").help(help));
        }
        (names, combinations)
    }

    fn too_many(&self, count: usize, span: Range<usize>) {
        let message = format!("the `each` of step `{}` stands for {count} steps", self.step);
        let help = format!("an `each` stands for at most {} steps", limits::EACH_STEPS);
        self.notes.mistake(Mistake::new(span, message, "too many").help(help));
    }

    fn values(&self, table: &EachTable) -> Values {
        let mut all = Vec::new();
        for (key, list) in &table.variables.0 {
            self.check_variable(key);
            let Some((list, span)) = list.placed() else { continue };
            if list.is_empty() {
                let message = format!("step `{}`: `{}` has no values", self.step, key.as_str());
                let help = "an `each` needs at least one value for every variable";
                self.notes.mistake(Mistake::new(span, message, "an empty list").help(help));
            }
            let texts = self.distinct(key, list);
            all.push((key.as_str().to_owned(), texts));
        }
        all
    }

    fn check_variable(&self, key: &Key) {
        let name = key.as_str();
        let taken = match name {
            _ if self.texts.params.contains(name) => "is a parameter already",
            _ if BUILT_IN.contains(&name) => "is known in every step already",
            _ if !is_identifier(name) => "cannot be the name of a variable",
            _ => return,
        };
        let message = format!("step `{}`: `{name}` {taken}", self.step);
        let help = "use another name, of letters, digits and _";
        let mistake = Mistake::new(key.span.clone(), message, "not a free name");
        self.notes.mistake(mistake.help(help));
    }

    fn distinct(&self, key: &Key, list: &[Written<Scalar>]) -> Vec<String> {
        let mut seen = HashSet::new();
        let mut texts = Vec::new();
        for (scalar, span) in list.iter().filter_map(Written::placed) {
            let Some(text) = self.texts.read(scalar, &span, self.step) else { continue };
            let wrong = if let Some(found) = Unprintable::first_in(&text) {
                let message = format!("has a value with the unprintable character {found} in it");
                Some((message, "becomes part of a name"))
            } else if !seen.insert(text.clone()) {
                Some(("has the same value twice".to_owned(), "it stands there already"))
            } else {
                None
            };
            if let Some((wrong, label)) = wrong {
                let message = format!("step `{}`: `{}` {wrong}", self.step, key.as_str());
                let help = "every value names a step of its own; leave this one out or change it";
                self.notes.mistake(Mistake::new(span, message, label).help(help));
            } else {
                texts.push(text);
            }
        }
        texts
    }

    /// For each `exclude`, the value of each variable that it names.
    fn excluded(&self, table: &EachTable, values: &Values) -> Vec<Vec<Option<String>>> {
        let rules = table.exclude.value().into_iter().flatten();
        rules.filter_map(|rule| self.rule(rule.placed()?.0, values)).collect()
    }

    fn rule(&self, rule: &Entries<Scalar>, values: &Values) -> Option<Vec<Option<String>>> {
        let mut wanted = vec![None; values.len()];
        let mut whole = !rule.0.is_empty();
        for (key, scalar, span) in rule.iter() {
            let name = key.as_str();
            let Some(text) = self.texts.read(scalar, &span, self.step) else {
                whole = false;
                continue;
            };
            let place = values.iter().position(|(known, _)| known == name);
            match place {
                Some(place) if values[place].1.contains(&text) => wanted[place] = Some(text),
                Some(place) => {
                    self.no_value(name, &text, &values[place].1, span);
                    whole = false;
                }
                None => {
                    self.no_variable(key, "exclude", values.iter().map(|(name, _)| name.as_str()));
                    whole = false;
                }
            }
        }
        whole.then_some(wanted)
    }

    fn no_value(&self, name: &str, text: &str, known: &[String], span: Range<usize>) {
        let message =
            format!("step `{}`: `exclude` names a value of `{name}` that is not there", self.step);
        let help = self.notes.suggest(text, known.iter().map(String::as_str));
        let help = help.unwrap_or_else(|| format!("its values are {}", known.join(", ")));
        self.notes.mistake(Mistake::new(span, message, "nothing to leave out").help(help));
    }

    fn no_variable<'k>(&self, key: &Key, word: &str, known: impl Iterator<Item = &'k str>) {
        let name = key.as_str();
        let message =
            format!("step `{}`: `{word}` names `{name}`, which is no variable", self.step);
        let known: Vec<_> = known.collect();
        let help = self.notes.suggest(name, known.iter().copied());
        let help = help.unwrap_or_else(|| format!("the variables are {}", known.join(", ")));
        let mistake = Mistake::new(key.span.clone(), message, "no such variable");
        self.notes.mistake(mistake.help(help));
    }

    fn include(
        &self,
        table: &EachTable,
        names: &mut Vec<String>,
        combinations: &mut Vec<Vec<String>>,
    ) {
        let mut seen: HashSet<Vec<String>> = combinations.iter().cloned().collect();
        let entries = table.include.value().into_iter().flatten();
        for (entry, span) in entries.filter_map(Written::placed) {
            if names.is_empty() {
                *names = entry.0.iter().map(|(key, _)| key.as_str().to_owned()).collect();
                entry.0.iter().for_each(|(key, _)| self.check_variable(key));
            }
            let Some(combination) = self.combination(entry, names, span.clone()) else { continue };
            if !seen.insert(combination.clone()) {
                let message = format!("step `{}`: `include` adds what is there already", self.step);
                let help = "leave it out";
                self.notes.mistake(Mistake::new(span, message, "there already").help(help));
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
            self.no_variable(key, "include", known());
            return None;
        }
        let value = |name: &String| {
            let found = entry.iter().find(|(key, ..)| key.as_str() == name);
            let text = |(_, scalar, span): (_, _, _)| self.texts.read(scalar, &span, self.step);
            // One that cannot be read has been told already.
            found.map(text).map(Option::unwrap_or_default).ok_or_else(|| name.clone())
        };
        match names.iter().map(value).collect::<Result<Vec<_>, _>>() {
            Ok(combination) => Some(combination),
            Err(missing) => {
                let message =
                    format!("step `{}`: an `include` does not give `{missing}`", self.step);
                let help = format!("each one gives every variable: {}", names.join(", "));
                self.notes.mistake(Mistake::new(span, message, "not complete").help(help));
                None
            }
        }
    }
}

/// Whether every value could be read; one that could not has been told already.
fn is_readable(table: &EachTable) -> bool {
    let whole = |list: &Vec<Written<Scalar>>| list.iter().all(|value| value.value.is_some());
    table.variables.0.iter().all(|(_, list)| list.value.as_ref().is_some_and(whole))
}

/// Every combination, the last variable changing fastest.
fn product_of(values: &Values) -> Vec<Vec<String>> {
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

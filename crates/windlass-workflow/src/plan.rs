//! The plan: what a file asks for, with every name resolved.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use toml::{Spanned, Value};
use windlass_core::{Amount, AmountError, ResourceCost, nearest};

use crate::duration::parse_duration;
use crate::file::{File, RetryTable, StepTable, Table};
use crate::mistake::{Mistake, Mistakes};

/// A workflow that can be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What the workflow is called.
    pub name: String,
    /// How many steps may run at once; none for one per CPU.
    pub concurrency: Option<u32>,
    /// What steps may use, all together.
    pub resources: ResourceCost,
    /// The steps, as they stand in the file, except that each comes after those it follows.
    pub steps: Vec<Step>,
}

/// One step of a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it is called.
    pub name: String,
    /// The shell command.
    pub run: String,
    /// The places in [`Plan::steps`] of those that must succeed first.
    pub after: Vec<usize>,
    /// What it takes while it runs, besides a slot.
    pub uses: ResourceCost,
    /// Larger is more urgent.
    pub priority: i64,
    /// Whether and when to try again.
    pub retry: Retry,
    /// The locks that it holds while it runs, taken together or not at all.
    pub locks: Vec<String>,
}

/// Whether and when a step is tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often, not counting the first attempt.
    pub count: u32,
    /// How long to wait in between.
    pub delay: Duration,
    /// Only after these exit codes; after any but 0 if none are named.
    pub on_exit: Option<Vec<i32>>,
}

/// Reads a workflow from its text. `file` is how to call it in mistakes.
pub fn parse(file: &str, text: &str) -> Result<Plan, Mistakes> {
    let read = toml::from_str(text).map_err(|error| vec![not_read(&error)]);
    let planned = read.and_then(|read| Planner::default().plan(file, read));
    planned.map_err(|mut mistakes| {
        mistakes.sort_by_key(|mistake| mistake.span.start);
        Mistakes { mistakes, file: file.to_owned(), text: text.to_owned() }
    })
}

fn not_read(error: &toml::de::Error) -> Mistake {
    let message = error.message().lines().next().unwrap_or("this is not TOML").to_owned();
    Mistake::new(error.span().unwrap_or(0..0), message, "here")
}

/// Turns what is written into a plan, and collects every mistake on the way.
#[derive(Default)]
struct Planner {
    mistakes: Vec<Mistake>,
}

impl Planner {
    fn plan(mut self, file: &str, read: File) -> Result<Plan, Vec<Mistake>> {
        let resources = self.amounts(&read.resource, |_| None);
        let tables = in_file_order(read.step);
        let names: Vec<_> = tables.iter().map(|(name, _)| name.get_ref().clone()).collect();
        let mut steps = Vec::new();
        for (name, table) in &tables {
            steps.push(self.step(name, table, &names, &resources));
        }
        let concurrency = self.concurrency(read.concurrency);
        if self.mistakes.is_empty() {
            steps = self.sorted(&tables, steps);
        }
        if !self.mistakes.is_empty() {
            return Err(self.mistakes);
        }
        let name = read.name.unwrap_or_else(|| stem(file).to_owned());
        Ok(Plan { name, concurrency, resources, steps })
    }

    fn concurrency(&mut self, written: Option<Spanned<i64>>) -> Option<u32> {
        let written = written?;
        let number = u32::try_from(*written.get_ref()).ok().filter(|&number| number > 0);
        if number.is_none() {
            let message = "`concurrency` is the number of steps that may run at once".to_owned();
            self.mistakes.push(Mistake::new(written.span(), message, "write 1 or more"));
        }
        number
    }

    fn step(
        &mut self,
        name: &Spanned<String>,
        table: &StepTable,
        names: &[String],
        resources: &ResourceCost,
    ) -> Step {
        let step = name.get_ref();
        if table.run.get_ref().trim().is_empty() {
            let message = format!("step `{step}` has an empty command");
            self.mistakes.push(Mistake::new(table.run.span(), message, "nothing to run"));
        }
        let known = || resources.iter().map(|(name, _)| name);
        let limit = |name: &str| resources.iter().find(|(known, _)| *known == name);
        let uses = self.amounts(&table.uses, |(name, amount)| match limit(name) {
            None => Some((
                format!("step `{step}` uses `{name}`, which is not declared"),
                "no such resource",
                suggestion(name, known())
                    .or_else(|| Some(format!("declare it under [resource]: {name} = {amount}"))),
            )),
            Some((_, limit)) if amount > limit => Some((
                format!("step `{step}` uses {amount} of `{name}`, and there are only {limit}"),
                "more than there is",
                None,
            )),
            Some(_) => None,
        });
        Step {
            name: step.clone(),
            run: table.run.get_ref().clone(),
            after: self.after(step, table, names),
            uses,
            priority: table.priority,
            retry: self.retry(&table.retry),
            locks: table.lock.as_ref().map(|lock| self.locks(step, lock)).unwrap_or_default(),
        }
    }

    fn after(&mut self, step: &str, table: &StepTable, names: &[String]) -> Vec<usize> {
        let mut places = Vec::new();
        for source in &table.after {
            let name = source.get_ref();
            if let Some(place) = names.iter().position(|known| known == name) {
                places.push(place);
                continue;
            }
            let message = format!("step `{step}` waits for `{name}`, which does not exist");
            let help = suggestion(name, names.iter().map(String::as_str));
            self.mistakes.push(Mistake::new(source.span(), message, "no such step").help(help));
        }
        places
    }

    fn retry(&mut self, table: &RetryTable) -> Retry {
        let mut delay = Duration::from_secs(1);
        if let Some(written) = &table.delay {
            match parse_duration(written.get_ref()) {
                Ok(duration) => delay = duration,
                Err(error) => {
                    let help =
                        Some("write a number and a unit, such as 250ms or 1h 30m".to_owned());
                    let mistake = Mistake::new(written.span(), error.to_string(), "not a duration");
                    self.mistakes.push(mistake.help(help));
                }
            }
        }
        Retry { count: table.count, delay, on_exit: table.on_exit.clone() }
    }

    fn locks(&mut self, step: &str, written: &Spanned<Value>) -> Vec<String> {
        let names: Option<Vec<_>> = match written.get_ref() {
            Value::String(name) => Some(vec![name.clone()]),
            Value::Array(names) => {
                names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
            }
            _ => None,
        };
        let names = names.filter(|names| names.iter().all(|name| !name.is_empty()));
        if names.is_none() {
            let message = format!("step `{step}`: `lock` is a name, or a list of names");
            self.mistakes.push(Mistake::new(written.span(), message, "not a name"));
        }
        names.unwrap_or_default()
    }

    /// The amounts of a table; `wrong` may find more to say about one that can be read.
    fn amounts<'a>(
        &mut self,
        table: &'a Table<Spanned<Value>>,
        wrong: impl Fn((&'a str, Amount)) -> Option<(String, &'static str, Option<String>)>,
    ) -> ResourceCost {
        let mut amounts = Vec::new();
        for (name, written) in table {
            match amount(written.get_ref()) {
                Ok(amount) => {
                    if let Some((message, label, help)) = wrong((name.get_ref(), amount)) {
                        self.mistakes.push(Mistake::new(name.span(), message, label).help(help));
                    }
                    amounts.push((name.get_ref().clone(), amount));
                }
                Err(error) => {
                    let message = error.to_string();
                    self.mistakes.push(Mistake::new(written.span(), message, "not an amount"));
                }
            }
        }
        amounts.into_iter().collect()
    }

    /// The steps with each behind those it follows, and otherwise as they stand in the file.
    fn sorted(&mut self, tables: &[(Spanned<String>, StepTable)], steps: Vec<Step>) -> Vec<Step> {
        let mut placed: BTreeMap<usize, usize> = BTreeMap::new();
        let mut waiting: BTreeSet<usize> = (0..steps.len()).collect();
        while !waiting.is_empty() {
            let before = waiting.len();
            waiting.retain(|&step| {
                let free = steps[step].after.iter().all(|source| placed.contains_key(source));
                if free {
                    placed.insert(step, placed.len());
                }
                !free
            });
            if waiting.len() == before {
                self.cycle(tables, &steps, &waiting);
                return steps;
            }
        }
        let mut steps: Vec<_> = steps.into_iter().enumerate().collect();
        steps.sort_by_key(|(step, _)| placed[step]);
        let renumber = |mut step: Step| {
            step.after.iter_mut().for_each(|source| *source = placed[source]);
            step
        };
        steps.into_iter().map(|(_, step)| renumber(step)).collect()
    }

    /// Names a cycle as its path. Each of the `waiting` steps follows another one of them.
    fn cycle(
        &mut self,
        tables: &[(Spanned<String>, StepTable)],
        steps: &[Step],
        waiting: &BTreeSet<usize>,
    ) {
        let source = |step: usize| steps[step].after.iter().find(|step| waiting.contains(step));
        let mut path: Vec<usize> = waiting.first().copied().into_iter().collect();
        let start = loop {
            let next = *source(path[path.len() - 1]).expect("it waits for one that waits");
            if let Some(start) = path.iter().position(|&step| step == next) {
                break start;
            }
            path.push(next);
        };
        let path = path.split_off(start);
        let names: Vec<_> = path.iter().map(|&step| format!("`{}`", steps[step].name)).collect();
        let message =
            format!("these steps wait for each other: {} -> {}", names.join(" -> "), names[0]);
        let span = tables[path[0]].0.span();
        self.mistakes.push(Mistake::new(span, message, "waits for itself in the end"));
    }
}

fn in_file_order<T>(table: Table<T>) -> Vec<(Spanned<String>, T)> {
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}

fn amount(value: &Value) -> Result<Amount, AmountError> {
    match value {
        Value::Integer(number) => number.to_string().parse(),
        Value::Float(number) => Amount::try_from(*number),
        other => Err(AmountError::NotANumber { text: other.to_string() }),
    }
}

fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(|known| format!("did you mean `{known}`?"))
}

fn stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".toml").unwrap_or(name)
}

#[cfg(test)]
mod tests;

//! Finds runs and steps by what users call them: the beginning of an id, or `last`; the name of a step,
//! or of a group of steps.

use std::collections::BTreeSet;

use std::path::Path;

use windlass_core::nearest;
use windlass_store::{RunRecord, Store, StoreError, Transaction};

use super::{LookError, RunView};
use crate::nesting::is_nested;

/// The name of the newest run that was started by hand.
const LAST: &str = "last";
/// The number of newest runs that are searched for a similar id.
const SEARCHED: usize = 1000;
/// A shorter text resembles everything.
const TELLING: usize = 3;
/// The number of suggestions.
const TOLD: usize = 5;

/// Returns the run that `text` names: the beginning of its id, or `last` for the newest that no step of
/// another run has started.
pub fn find_run(store: &mut Store, text: &str) -> Result<RunRecord, LookError> {
    let dir = store.dir().to_owned();
    store.read(|transaction| found(transaction, &dir, text))?
}

/// Returns `RUN/STEP` as it is to be typed: in single quotes where a shell would interpret it, as in
/// `test[linux]`.
#[must_use]
pub fn step_argument(run: &str, step: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.,:+@%".contains(c);
    match step.chars().all(is_plain) {
        true => format!("{run}/{step}"),
        false => format!("'{run}/{}'", step.replace('\'', r"'\''")),
    }
}

/// Returns the queues, and the newest runs with their workflows, for completion in a shell.
pub fn run_names(store: &mut Store, limit: usize) -> Result<Vec<(String, String)>, LookError> {
    Ok(store.read(|transaction| {
        let queues = transaction.queues().all()?;
        let mut runs = newest(transaction, limit)?;
        runs.retain(|(id, _)| queues.iter().all(|queue| queue.run != *id));
        let queues = queues.into_iter().map(|queue| (queue.name, "a queue".to_owned()));
        Ok(queues.chain(runs).collect())
    })?)
}

impl RunView {
    /// Returns the places of what `step` names among [`RunView::steps`]: one step, or all that a step
    /// of the file became through its `each`.
    pub fn places(&self, step: &str) -> Result<Vec<usize>, LookError> {
        let steps = || self.steps.iter().enumerate();
        if let Some((place, _)) = steps().find(|(_, known)| known.name == step) {
            return Ok(vec![place]);
        }
        let group: Vec<_> = steps().filter(|(_, known)| known.declared == step).collect();
        match group.is_empty() {
            true => Err(self.no_such_step(step)),
            false => Ok(group.into_iter().map(|(place, _)| place).collect()),
        }
    }

    fn no_such_step(&self, step: &str) -> LookError {
        if let (Some(queue), Ok(number)) = (&self.queue, step.parse::<u64>())
            && (1..=self.schedule.taken()).contains(&number)
        {
            return LookError::ForgottenStep { run: queue.clone(), step: step.to_owned() };
        }
        let names = self.steps.iter().flat_map(|known| [&known.name, &known.declared]);
        let nearest = nearest(step, names.map(String::as_str)).map(str::to_owned);
        let mut seen = BTreeSet::new();
        let known = self.steps.iter().map(|step| &step.declared).filter(|name| seen.insert(*name));
        let known = known.cloned().collect();
        LookError::UnknownStep { run: self.run.id.clone(), step: step.to_owned(), nearest, known }
    }
}

pub(super) fn found(
    transaction: &Transaction<'_>,
    dir: &Path,
    text: &str,
) -> Result<Result<RunRecord, LookError>, StoreError> {
    let run = || text.to_owned();
    let id = match text {
        LAST => last(transaction, dir)?,
        text => transaction.queues().find(text)?.map(|queue| queue.run),
    };
    if text == LAST && id.is_none() {
        return Ok(Err(LookError::NoRuns));
    }
    match transaction.runs().find(id.as_deref().unwrap_or(text)) {
        Ok(found) if !text.is_empty() => Ok(Ok(found)),
        Ok(_) | Err(StoreError::UnknownRun { .. }) => {
            let nearest = similar(text, &newest(transaction, SEARCHED)?);
            Ok(Err(LookError::UnknownRun { run: run(), nearest }))
        }
        Err(StoreError::AmbiguousRun { .. }) => {
            let mut candidates = newest(transaction, SEARCHED)?;
            candidates.retain(|(id, _)| id.starts_with(text));
            candidates.truncate(TOLD);
            Ok(Err(LookError::AmbiguousRun { run: run(), candidates }))
        }
        Err(error) => Err(error),
    }
}

/// Returns the newest run that is no queue and that no step of another one has started.
fn last(transaction: &Transaction<'_>, dir: &Path) -> Result<Option<String>, StoreError> {
    let queues: BTreeSet<_> = transaction.queues().all()?.into_iter().map(|q| q.run).collect();
    let runs = transaction.runs().latest(None, SEARCHED)?.into_iter();
    let mut runs = runs.filter(|run| !queues.contains(&run.id));
    Ok(runs.find(|run| !is_nested(dir, &run.id)).map(|run| run.id))
}

fn newest(
    transaction: &Transaction<'_>,
    limit: usize,
) -> Result<Vec<(String, String)>, StoreError> {
    let runs = transaction.runs().latest(None, limit)?.into_iter();
    Ok(runs.map(|run| (run.id, run.workflow)).collect())
}

/// Returns the runs whose ids begin almost like `text`, or else those of the workflow of that name.
fn similar(text: &str, runs: &[(String, String)]) -> Vec<(String, String)> {
    let beginning = |id: &str| id.chars().take(text.chars().count()).collect::<String>();
    let is_near = |id: &str| nearest(text, [beginning(id).as_str()]).is_some();
    let long_enough = text.chars().count() >= TELLING;
    let near: Vec<_> = runs.iter().filter(|(id, _)| long_enough && is_near(id)).collect();
    let of_workflow = runs.iter().filter(|(_, workflow)| workflow == text);
    let meant: Vec<_> = if near.is_empty() { of_workflow.collect() } else { near };
    meant.into_iter().take(TOLD).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_quoted_where_a_shell_would_change_it() {
        let check = |step: &str, argument: &str| assert_eq!(step_argument("3fa9", step), argument);
        check("test_1-a", "3fa9/test_1-a");
        check("test[linux]", "'3fa9/test[linux]'");
        check("a[it's $HOME]", r"'3fa9/a[it'\''s $HOME]'");
        check("a[ü]", "'3fa9/a[ü]'");
    }
}

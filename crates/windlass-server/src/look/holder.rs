//! Who holds and waits for names, as people call them.

use std::collections::BTreeMap;

use windlass_core::{Grant, HolderId, WorkId};
use windlass_store::{Process, Store, StoreError, Transaction};

use crate::coordinator::plan_of;

/// The attempt of a step that asks for names, as its holder is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attempt<'a> {
    pub(super) run: &'a str,
    pub(super) grant: Grant,
}

impl<'a> Attempt<'a> {
    /// Reads `run RUN/WORK@ATTEMPT epoch EPOCH`, as a run's leader calls its attempts.
    pub(super) fn read(holder: &'a str) -> Option<Self> {
        let (attempt, _epoch) = holder.strip_prefix("run ")?.split_once(" epoch ")?;
        let (run, attempt) = attempt.split_once('/')?;
        let (work, attempt) = attempt.split_once('@')?;
        let work = WorkId::new(work.parse().ok()?)?;
        Some(Self { run, grant: Grant { work, attempt: attempt.parse().ok()? } })
    }
}

/// Translates holders of names into what people call them: steps are `RUN/STEP`.
#[derive(Debug, Default)]
pub struct People {
    /// The steps of the runs that were asked for; none for a run that cannot be read.
    steps: BTreeMap<String, Vec<String>>,
}

impl People {
    /// Whoever is among `holders`, and can be told by `RUN/STEP`.
    pub fn among<'a>(
        store: &mut Store,
        holders: impl IntoIterator<Item = &'a HolderId>,
    ) -> Result<Self, StoreError> {
        let holders: Vec<_> = holders.into_iter().map(HolderId::as_str).collect();
        store.read(|transaction| Self::read(transaction, &holders))
    }

    pub(super) fn read(
        transaction: &Transaction<'_>,
        holders: &[&str],
    ) -> Result<Self, StoreError> {
        let mut people = Self::default();
        for Attempt { run, .. } in holders.iter().filter_map(|holder| Attempt::read(holder)) {
            if !people.steps.contains_key(run) {
                people.steps.insert(run.to_owned(), steps(transaction, run)?);
            }
        }
        Ok(people)
    }

    /// What people call a holder. What tells one life of a process from another is for machines.
    #[must_use]
    pub fn name(&self, holder: &HolderId) -> String {
        let process =
            holder.as_str().strip_prefix("process ").and_then(|text| text.split_once(' '));
        let process = process.map(|(pid, _)| format!("process {pid}"));
        self.step(holder).or(process).unwrap_or_else(|| holder.to_string())
    }

    /// The same, if it is a step of a run.
    #[must_use]
    pub fn step(&self, holder: &HolderId) -> Option<String> {
        let Attempt { run, grant } = Attempt::read(holder.as_str())?;
        let step = self.steps.get(run)?.get(grant.work.index())?;
        Some(format!("{run}/{step}"))
    }
}

/// Returns the command line of a process that is seen alive from here; of `windlass lock` and `windlass
/// sem`, that of the command that they run.
#[must_use]
pub fn command_line(process: &Process) -> Option<String> {
    let line = std::fs::read(format!("/proc/{}/cmdline", process.pid)).ok()?;
    // Asked afterwards, so that the line is not that of a later process with the same pid.
    if !process.is_visible() || process.is_gone() {
        return None;
    }
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    Some(wrapped(&words).join(" ").trim().to_owned()).filter(|line| !line.is_empty())
}

/// Returns the command that a wrapper runs; all words if they are not those of a wrapper.
fn wrapped<W: AsRef<str>>(words: &[W]) -> &[W] {
    let is_windlass = |word: &W| word.as_ref().rsplit('/').next() == Some("windlass");
    let dashes = words.iter().position(|word| word.as_ref() == "--");
    match dashes {
        Some(dashes) if words.first().is_some_and(is_windlass) => &words[dashes + 1..],
        _ => words,
    }
}

/// The steps of a run; none if it is gone, or this version cannot read it.
fn steps(transaction: &Transaction<'_>, run: &str) -> Result<Vec<String>, StoreError> {
    let record = match transaction.runs().find(run) {
        Err(StoreError::UnknownRun { .. } | StoreError::AmbiguousRun { .. }) => {
            return Ok(Vec::new());
        }
        record => record?,
    };
    let plan = plan_of(&record).ok();
    Ok(plan.map(|plan| plan.steps.into_iter().map(|step| step.name).collect()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapper_is_known_by_the_command_that_it_runs() {
        assert_eq!(wrapped(&["/bin/windlass", "lock", "x", "--", "make", "--"]), ["make", "--"]);
        assert_eq!(wrapped(&["windlass", "run", "flow.toml"]), ["windlass", "run", "flow.toml"]);
        assert_eq!(wrapped(&["sh", "--", "x"]), ["sh", "--", "x"]);
    }

    #[test]
    fn only_attempts_of_runs_are_read_as_such() {
        let work = WorkId::new(3).expect("not zero");
        let read = Attempt::read("run 3fa9c2d1/3@2 epoch 7");
        assert_eq!(read, Some(Attempt { run: "3fa9c2d1", grant: Grant { work, attempt: 2 } }));
        for holder in ["build-17", "run x", "run x/0@1 epoch 1", "run x/a@1 epoch 1", "run x/1@1"] {
            assert_eq!(Attempt::read(holder), None, "{holder}");
        }
    }
}

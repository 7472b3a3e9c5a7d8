//! Translates the holders of names into the words of their users: a step is `RUN/STEP`, a command is the
//! process that runs it.
//!
//! A holder's id is written for machines; it also distinguishes two processes with one pid. Nothing here
//! writes to the store. `holder_label` puts the result into messages.

use std::collections::BTreeMap;

use windlass_core::{Grant, HolderId, Token, WorkId};
use windlass_store::{Process, Store, StoreError, Transaction};

use crate::coordinator::plan_of;

/// The attempt of a step that claims names, as its holder id describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt<'a> {
    pub(crate) run: &'a str,
    pub(crate) grant: Grant,
    /// The fencing token of the leader that claimed the names.
    pub(crate) epoch: Token,
}

impl<'a> Attempt<'a> {
    /// Reads the id `run RUN/WORK@ATTEMPT epoch EPOCH`, which a run's leader gives to its attempts.
    pub(crate) fn read(holder: &'a str) -> Option<Self> {
        let (attempt, epoch) = holder.strip_prefix("run ")?.split_once(" epoch ")?;
        let (run, attempt) = attempt.split_once('/')?;
        let (work, attempt) = attempt.split_once('@')?;
        let work = WorkId::new(work.parse().ok()?)?;
        let grant = Grant { work, attempt: attempt.parse().ok()? };
        Some(Self { run, grant, epoch: Token(epoch.parse().ok()?) })
    }
}

/// Translates the ids of holders: that of a step into `RUN/STEP`, that of a command into `process PID`.
#[derive(Debug, Default)]
pub struct HolderNames {
    /// What the steps of the runs are called that hold something.
    steps: BTreeMap<String, StepNames>,
}

/// What the steps of a run are called.
#[derive(Debug)]
enum StepNames {
    /// By their names in the plan; none for a run that cannot be read.
    Planned(Vec<String>),
    /// By their numbers in the queue of this name.
    Queue(String),
}

impl HolderNames {
    /// Reads what is needed to translate `holders`.
    pub fn among<'a>(
        store: &mut Store,
        holders: impl IntoIterator<Item = &'a HolderId>,
    ) -> Result<Self, StoreError> {
        let holders: Vec<_> = holders.into_iter().map(HolderId::as_str).collect();
        store.read(|transaction| Self::read(transaction, &holders))
    }

    /// Reads the same within a transaction.
    pub(super) fn read(
        transaction: &Transaction<'_>,
        holders: &[&str],
    ) -> Result<Self, StoreError> {
        let mut names = Self::default();
        holders.iter().try_for_each(|holder| names.add(transaction, holder))?;
        Ok(names)
    }

    /// Reads what is needed to translate one more holder.
    pub(crate) fn add(
        &mut self,
        transaction: &Transaction<'_>,
        holder: &str,
    ) -> Result<(), StoreError> {
        if let Some(Attempt { run, .. }) = Attempt::read(holder)
            && !self.steps.contains_key(run)
        {
            self.steps.insert(run.to_owned(), steps(transaction, run)?);
        }
        Ok(())
    }

    /// Returns the name of a holder in its user's words, or else its id.
    #[must_use]
    pub fn name(&self, holder: &HolderId) -> String {
        let process =
            holder.as_str().strip_prefix("process ").and_then(|text| text.split_once(' '));
        let process = process.map(|(pid, _)| format!("process {pid}"));
        // A run that this version cannot read is known by its id alone.
        let run = || Attempt::read(holder.as_str()).map(|attempt| format!("run {}", attempt.run));
        self.step(holder).or(process).or_else(run).unwrap_or_else(|| holder.to_string())
    }

    /// Returns `RUN/STEP` if the holder is a step of a run.
    #[must_use]
    pub fn step(&self, holder: &HolderId) -> Option<String> {
        let Attempt { run, grant, .. } = Attempt::read(holder.as_str())?;
        match self.steps.get(run)? {
            StepNames::Planned(steps) => Some(format!("{run}/{}", steps.get(grant.work.index())?)),
            StepNames::Queue(queue) => Some(format!("{queue}/{}", grant.work)),
        }
    }
}

/// Returns the command line of a process that is alive and visible from here; of `windlass lock` and `windlass
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

/// Returns the name of the machine of a holder, if that is another one than this.
#[must_use]
pub fn other_host(host: Option<&str>) -> Option<String> {
    host.filter(|host| *host != windlass_store::host_name()).map(str::to_owned)
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

/// Returns what the steps of a run are called; none if it is gone, or this version cannot read it.
fn steps(transaction: &Transaction<'_>, run: &str) -> Result<StepNames, StoreError> {
    if let Some(queue) = transaction.queues().of_run(run)? {
        return Ok(StepNames::Queue(queue.name));
    }
    let record = match transaction.runs().find(run) {
        Err(StoreError::UnknownRun { .. } | StoreError::AmbiguousRun { .. }) => {
            return Ok(StepNames::Planned(Vec::new()));
        }
        record => record?,
    };
    let plan = plan_of(&record).ok();
    let names = plan.map(|plan| plan.steps.into_iter().map(|step| step.name).collect());
    Ok(StepNames::Planned(names.unwrap_or_default()))
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
    fn an_attempt_of_a_run_that_cannot_be_read_is_named_by_its_run() {
        let holder = HolderId::new("run 3fa9c2d1/3@2 epoch 7");
        assert_eq!(HolderNames::default().name(&holder), "run 3fa9c2d1");
    }

    #[test]
    fn only_attempts_of_runs_are_read_as_such() {
        let work = WorkId::new(3).expect("not zero");
        let read = Attempt::read("run 3fa9c2d1/3@2 epoch 7");
        let grant = Grant { work, attempt: 2 };
        assert_eq!(read, Some(Attempt { run: "3fa9c2d1", grant, epoch: Token(7) }));
        for holder in ["build-17", "run x", "run x/0@1 epoch 1", "run x/a@1 epoch 1", "run x/1@1"] {
            assert_eq!(Attempt::read(holder), None, "{holder}");
        }
    }
}

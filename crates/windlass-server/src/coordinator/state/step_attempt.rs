//! One attempt of a step: its command, what it has to ensure, and its `finally`.
//!
//! A step holds its slot and its resources while its command runs; its locks and slots of semaphores
//! until the end of the attempt. `finally` follows the last attempt, and an interrupt, but no attempt
//! that another one follows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_core::{Grant, Outcome, Timestamp, WorkId};
use windlass_store::{AttemptEnd, AttemptRecord};
use windlass_workflow::Retry;

use super::super::attempts::OrderId;
use super::super::journal::Start;
use crate::clock::millis;
use crate::ended::{Ended, Exit};

/// An attempt that is under way.
pub(super) struct StepAttempt {
    pub(super) start: Start,
    pub(super) stage: Stage,
    pub(super) began: Timestamp,
    /// How its command ended.
    ended: Option<Ended>,
    pub(super) outcome: Outcome,
    pub(super) why: Option<String>,
    /// What it left running that had to be ended. Changes nothing about the outcome.
    pub(super) note: Option<String>,
}

/// How far an attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its command runs.
    Command,
    /// What it has to ensure is checked.
    Ensuring,
    /// Its `finally` runs; then the attempt ends.
    Finally,
    /// The `finally` of a step runs whose last attempt has ended before.
    CleanUp,
}

impl StepAttempt {
    pub(super) fn new(start: Start, began: Timestamp) -> Self {
        Self {
            start,
            stage: Stage::Command,
            began,
            ended: None,
            outcome: Outcome::Interrupted,
            why: None,
            note: None,
        }
    }

    /// Restores an attempt whose command ended under an earlier leader, from what that has stored.
    pub(super) fn restored(start: Start, record: &AttemptRecord, retry: &Retry) -> Self {
        let exit = match (record.code, record.signal) {
            (Some(code), _) => Some(Exit::Code(code)),
            (None, signal) => signal.map(Exit::Signal),
        };
        let outcome = match exit {
            Some(exit) if record.why.is_none() || !exit.is_success() => {
                outcome(&exit.into(), retry, false)
            }
            _ => Outcome::Failed,
        };
        let began = Timestamp::from_millis(record.started_ms.unsigned_abs());
        let ended = exit.map(Ended::from);
        let why = record.why.clone();
        Self { stage: Stage::Finally, ended, outcome, why, ..Self::new(start, began) }
    }

    /// Returns the order that executes for the attempt; none while it is checked.
    pub(super) fn order(&self) -> Option<OrderId> {
        match self.stage {
            Stage::Command => Some(OrderId::Command(self.start.grant)),
            Stage::Finally | Stage::CleanUp => Some(OrderId::Finally(self.start.grant)),
            Stage::Ensuring => None,
        }
    }

    pub(super) fn note_command(&mut self, ended: &Ended) {
        self.ended = Some(ended.clone());
        self.note = ended.note();
    }

    pub(super) fn record(&self, step: &str, now: Timestamp, end: AttemptEnd) -> AttemptRecord {
        let (code, signal) = match self.ended.as_ref().map(|ended| ended.exit) {
            Some(Exit::Code(code)) => (Some(code), None),
            Some(Exit::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        let usage = self.ended.as_ref().map(|ended| ended.usage);
        let Grant { work, attempt } = self.start.grant;
        AttemptRecord {
            work,
            attempt,
            step: step.to_owned(),
            started_ms: millis(self.began),
            ended_ms: millis(now),
            end,
            code,
            signal,
            why: self.why.clone(),
            peak_kib: usage.and_then(|usage| usage.peak_memory).map(|bytes| bytes / 1024),
            cpu_ms: usage.map(|usage| u64::try_from(usage.cpu.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

/// Returns the outcome that an end has by the step's own rules.
pub(super) fn outcome(ended: &Ended, retry: &Retry, stopping: bool) -> Outcome {
    let named = |codes: &Vec<i32>| codes.contains(&ended.exit.code());
    let again = retry.count > 0 && retry.on_exit.as_ref().is_none_or(named);
    match ended.is_success() {
        true => Outcome::Success,
        false if stopping => Outcome::Interrupted,
        // The engine adds the delay of the step's policy.
        false if again => Outcome::Retry { delay: Duration::ZERO },
        false => Outcome::Failed,
    }
}

/// The attempts of a run that are under way, and what has to follow others.
#[derive(Default)]
pub(super) struct StepAttempts {
    running: BTreeMap<WorkId, StepAttempt>,
    /// The steps that have begun, and whose `finally` has not run since.
    uncleaned: BTreeSet<WorkId>,
    /// The steps whose `finally` starts after the next commit.
    due_finally: Vec<WorkId>,
    /// The steps whose checks behind the command were given up, and that have to end for it.
    interrupted: Vec<WorkId>,
}

impl StepAttempts {
    pub(super) fn insert(&mut self, attempt: StepAttempt) {
        self.running.insert(attempt.start.grant.work, attempt);
    }

    pub(super) fn get(&self, work: WorkId) -> Option<&StepAttempt> {
        self.running.get(&work)
    }

    /// Returns an attempt that is known to be under way.
    pub(super) fn running(&mut self, work: WorkId) -> &mut StepAttempt {
        self.running.get_mut(&work).expect("it is under way")
    }

    pub(super) fn remove(&mut self, work: WorkId) -> Option<StepAttempt> {
        self.running.remove(&work)
    }

    pub(super) fn works(&self) -> Vec<WorkId> {
        self.running.keys().copied().collect()
    }

    /// Returns whether no attempt is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Notes that a step has begun whose `finally` has to run in any case.
    pub(super) fn owe_finally(&mut self, work: WorkId) {
        self.uncleaned.insert(work);
    }

    /// Notes that the `finally` of a step has run.
    pub(super) fn note_cleaned(&mut self, work: WorkId) {
        self.uncleaned.remove(&work);
    }

    /// Has the `finally` of a step that is under way start after the next commit.
    pub(super) fn queue_finally(&mut self, work: WorkId) {
        self.due_finally.push(work);
    }

    pub(super) fn take_due_finally(&mut self) -> Vec<WorkId> {
        std::mem::take(&mut self.due_finally)
    }

    /// Returns the steps that are not under way and whose `finally` still has to run.
    pub(super) fn uncleaned(&self) -> Vec<WorkId> {
        let idle = |work: &&WorkId| !self.running.contains_key(work);
        self.uncleaned.iter().filter(idle).copied().collect()
    }

    /// Returns whether a `finally` has to run, now or later.
    pub(super) fn owes_finally(&self) -> bool {
        !self.uncleaned.is_empty() || !self.due_finally.is_empty()
    }

    pub(super) fn interrupt(&mut self, work: WorkId) {
        self.interrupted.push(work);
    }

    pub(super) fn take_interrupted(&mut self) -> Vec<WorkId> {
        std::mem::take(&mut self.interrupted)
    }

    pub(super) fn has_interrupted(&self) -> bool {
        !self.interrupted.is_empty()
    }
}

//! One attempt of a step: its command, what it has to ensure, and its `finally`.
//!
//! The engine knows the command as a running attempt, and the other two as a suspended one. So a step holds
//! its slot and its resources while its command runs, and its locks and semaphores until the end of the
//! attempt: a deploy that is being verified must neither let other deploys in nor keep other steps out. The
//! attempt's timeout does not run meanwhile.
//!
//! A `finally` is recorded as due in the commit that ends the command, so a kill loses neither. It follows
//! the last attempt, and also an interrupt, because a user who presses Ctrl-C may never resume. It does not
//! follow an attempt that another one follows.

use std::time::Duration;

use windlass_core::{Grant, Name, Outcome, Timestamp, Token};
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
    /// Its `finally` was stopped because the run is interrupted.
    pub(super) interrupted: bool,
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
            interrupted: false,
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

    /// Takes the limits of the store out of what the attempt holds: like resources, they are for its command
    /// alone.
    pub(super) fn let_limits_go(&mut self) -> Vec<(Name, Token)> {
        self.start.items.clear();
        let is_limit = |(name, _): &mut (Name, Token)| matches!(name, Name::Limit(_));
        self.start.names.extract_if(.., is_limit).collect()
    }

    /// Returns the attempt at another stage.
    pub(super) fn at(self, stage: Stage) -> Self {
        Self { stage, ..self }
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
    // No attempt begins beside another one.
    let over = ended.unended.is_empty();
    let again = over && retry.count > 0 && retry.on_exit.as_ref().is_none_or(named);
    match ended.is_success() {
        true => Outcome::Success,
        false if stopping => Outcome::Interrupted,
        // The engine adds the delay of the step's policy.
        false if again => Outcome::Retry { delay: Duration::ZERO },
        false => Outcome::Failed,
    }
}

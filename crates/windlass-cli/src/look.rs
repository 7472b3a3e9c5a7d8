//! Runs, steps and attempts as text and as JSON, for all verbs that show them.

use std::collections::BTreeMap;

use serde::Serialize;
use windlass_server::{
    AttemptEnd, AttemptView, Listed, RunEnd, RunListing, RunState, RunView, StepState, StepView,
    user_name,
};

use crate::output::json;
use crate::style::Ink;
use crate::times::{between, span};

/// Says that a scheduler, which may have stopped, does not lead a run so far.
pub(crate) fn not_taken(scheduler: u32) -> String {
    format!("the scheduler (process {scheduler}) has not taken it so far")
}

/// Returns the colour of a run's state.
pub(crate) fn run_ink(state: RunState) -> Option<Ink> {
    match state {
        RunState::UnderWay { .. } => Some(Ink::Cyan),
        RunState::Paused { .. } | RunState::Queued { .. } | RunState::Interrupted => {
            Some(Ink::Yellow)
        }
        RunState::Ended(end) => outcome_ink(end.outcome),
        _ => None,
    }
}

pub(crate) fn outcome_ink(outcome: windlass_server::RunOutcome) -> Option<Ink> {
    use windlass_server::RunOutcome::{Cancelled, Succeeded};
    match outcome {
        Succeeded => Some(Ink::Green),
        Cancelled => Some(Ink::Yellow),
        _ => Some(Ink::Red),
    }
}

/// Returns the colour of a step's state.
pub(crate) fn step_ink(state: StepState) -> Option<Ink> {
    match state {
        StepState::Running => Some(Ink::Cyan),
        StepState::Success => Some(Ink::Green),
        StepState::Failed => Some(Ink::Red),
        StepState::Blocked
        | StepState::Cancelled
        | StepState::Interrupted
        | StepState::Paused
        | StepState::Retrying { .. } => Some(Ink::Yellow),
        _ => Some(Ink::Dim),
    }
}

/// Returns the exit code, the signal or the reason of an attempt's end.
pub(crate) fn ending(attempt: &AttemptView) -> String {
    let why = attempt.why.as_deref().filter(|why| !why.is_empty());
    match (attempt.code, attempt.signal, why) {
        // A reason often repeats the exit code.
        (_, Some(_), Some(why)) | (Some(0) | None, None, Some(why)) => why.to_owned(),
        (_, Some(signal), None) => format!("signal {signal}"),
        (Some(code), None, Some(why)) if why.contains(&code.to_string()) => why.to_owned(),
        (Some(code), None, Some(why)) => format!("exit code {code}: {why}"),
        (Some(0) | None, None, None) => String::new(),
        (Some(code), None, None) => format!("exit code {code}"),
    }
}

/// Returns the end of an attempt and the reason: `failed: exit code 3`.
pub(crate) fn end_and_reason(attempt: &AttemptView) -> String {
    let end = attempt.end.map_or("running", AttemptEnd::word);
    match ending(attempt) {
        reason if reason.is_empty() || reason == end => end.to_owned(),
        reason => format!("{end}: {reason}"),
    }
}

/// Returns `attempt 2 of 3`, or `attempt 2` if the number of retries is unlimited.
pub(crate) fn attempt_of(number: u32, most: u32) -> String {
    match most {
        u32::MAX => format!("attempt {number}"),
        most => format!("attempt {number} of {most}"),
    }
}

/// Returns how long a step took.
pub(crate) fn took(step: &StepView, now_ms: i64) -> Option<String> {
    step.duration_ms(now_ms).map(|took| span(between(0, took)))
}

/// A run, for programs.
#[derive(Serialize)]
pub(crate) struct RunJson<'a> {
    run: &'a str,
    workflow: &'a str,
    file: &'a str,
    state: &'a str,
    created: i64,
    ended: Option<i64>,
    #[serde(flatten)]
    progress: Option<ProgressJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The directory of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<&'a str>,
}

/// The progress of a run, which is read from its journal.
#[derive(Serialize)]
struct ProgressJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    dir: String,
    params: &'a BTreeMap<String, String>,
    steps: Counts,
    running: Vec<&'a str>,
}

/// The number of steps, and of those that have ended and failed.
#[derive(Serialize)]
struct Counts {
    total: usize,
    done: usize,
    failed: usize,
}

impl<'a> RunJson<'a> {
    /// Returns an ended run of the list in a store.
    pub(crate) fn ended(listing: &'a RunListing, end: RunEnd) -> Self {
        Self {
            run: &listing.id,
            workflow: &listing.workflow,
            file: &listing.file,
            state: end.outcome.word(),
            created: listing.created_ms,
            ended: Some(end.at_ms),
            progress: None,
            error: None,
            user: listing.uid.map(user_name),
            store: None,
        }
    }

    pub(crate) fn of(view: &'a RunView) -> Self {
        Self {
            run: &view.run.id,
            workflow: &view.workflow,
            file: &view.run.file,
            state: view.state.word(),
            created: view.created_ms,
            ended: view.state.end().map(|end| end.at_ms),
            progress: Some(ProgressJson::of(view)),
            error: None,
            user: view.run.uid.map(user_name),
            store: None,
        }
    }

    /// Returns a run that has not ended, from the list in a store.
    pub(crate) fn listed(listed: &'a Listed, store: &'a str) -> Self {
        match &listed.view {
            Ok(view) => Self { store: Some(store), ..Self::of(view) },
            Err(error) => Self {
                run: &listed.id,
                workflow: &listed.workflow,
                file: &listed.file,
                state: "unreadable",
                created: listed.created_ms,
                ended: None,
                progress: None,
                error: Some(error.to_string()),
                user: None,
                store: Some(store),
            },
        }
    }

    /// Returns the line to print.
    pub(crate) fn line(&self) -> String {
        json("run_view", self)
    }
}

impl<'a> ProgressJson<'a> {
    fn of(view: &'a RunView) -> Self {
        let failed = |step: &&StepView| step.state == StepState::Failed;
        Self {
            pid: pid(view.state),
            dir: view.run.dir.display().to_string(),
            params: &view.run.params,
            steps: Counts {
                total: view.steps.len(),
                done: view.done(),
                failed: view.steps.iter().filter(failed).count(),
            },
            running: running(view),
        }
    }
}

fn pid(state: RunState) -> Option<u32> {
    match state {
        RunState::UnderWay { pid } | RunState::Paused { pid } => pid,
        _ => None,
    }
}

/// Returns the names of the running steps.
pub(crate) fn running(view: &RunView) -> Vec<&str> {
    let running = view.steps.iter().filter(|step| step.state == StepState::Running);
    running.map(|step| step.name.as_str()).collect()
}

/// Returns the running steps for users: `pay (finally)`.
pub(crate) fn running_shown(view: &RunView) -> Vec<String> {
    let running = view.steps.iter().filter(|step| step.state == StepState::Running);
    let shown = |step: &StepView| match step.is_finishing() {
        true => format!("{} (finally)", step.name),
        false => step.name.clone(),
    };
    running.map(shown).collect()
}

/// A step, for programs.
#[derive(Serialize)]
pub(crate) struct StepJson<'a> {
    run: &'a str,
    step: &'a str,
    state: &'static str,
    after: Vec<&'a str>,
    started: Option<i64>,
    ended: Option<i64>,
    retry_at: Option<i64>,
    why: Option<&'a str>,
    attempts: Vec<AttemptJson<'a>>,
}

/// An attempt, for programs.
#[derive(Serialize)]
struct AttemptJson<'a> {
    attempt: u32,
    started: i64,
    ended: Option<i64>,
    end: Option<&'static str>,
    code: Option<i32>,
    signal: Option<i32>,
    why: Option<&'a str>,
    peak_kib: Option<u64>,
    cpu_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worker: Option<&'a str>,
    /// None if it is on another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<String>,
}

impl<'a> StepJson<'a> {
    pub(crate) fn of(view: &'a RunView, step: &'a StepView) -> Self {
        let retry_at = match step.state {
            StepState::Retrying { at_ms } => Some(at_ms),
            _ => None,
        };
        let name = |edge: &windlass_workflow::StepDependency| view.steps[edge.step].name.as_str();
        let last = step.unbegun.as_ref().or(step.attempts.last());
        Self {
            run: &view.run.id,
            step: &step.name,
            state: json_word(step.state),
            after: step.after.iter().map(name).collect(),
            started: step.started_ms(),
            ended: step.ended_ms(),
            retry_at,
            why: last.and_then(|attempt| attempt.why.as_deref()),
            attempts: step.attempts.iter().map(|own| AttemptJson::of(view, own)).collect(),
        }
    }

    /// Returns the line to print.
    pub(crate) fn line(&self) -> String {
        json("step_view", self)
    }
}

impl<'a> AttemptJson<'a> {
    fn of(view: &RunView, attempt: &'a AttemptView) -> Self {
        Self {
            attempt: attempt.number,
            started: attempt.started_ms,
            ended: attempt.ended_ms,
            end: attempt.end.map(AttemptEnd::word),
            code: attempt.code,
            signal: attempt.signal,
            why: attempt.why.as_deref(),
            peak_kib: attempt.peak_kib,
            cpu_ms: attempt.cpu_ms,
            worker: attempt.worker.as_deref(),
            log: view.log_here(attempt).map(|log| log.display().to_string()),
        }
    }
}

/// Returns the state for programs: that of `run --json`, or `skipped`.
pub(crate) fn json_word(state: StepState) -> &'static str {
    match state {
        StepState::Waiting | StepState::Retrying { .. } | StepState::Interrupted => "pending",
        state => state.word(),
    }
}

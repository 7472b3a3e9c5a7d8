//! `windlass approve` and `windlass reject`: a user decides about a guard.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use serde::Serialize;
use thiserror::Error as ThisError;
use windlass_server::{
    Decided, DecidedBefore, GuardDecision, RunState, RunView, StepState, Store, Verdict, decide,
    decide_steps, nearest, step_argument, user_name, waiting_guards,
};

use crate::arguments::{Form, Target};
use crate::exit::Exit;
use crate::output::{json, print};
use crate::state;
use crate::style::plain;
use crate::times::Times;

pub(crate) fn verdict(
    state: Option<&Path>,
    target: &Target,
    verdict: Verdict,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::open(state)?;
    let decided = match target {
        Target::Guard(name) => about_guard(&mut store, name, verdict)?,
        Target::Step { run, step } => about_steps(&mut store, run, step, verdict)?,
    };
    match form {
        Form::Json => print(&json("decided", &decided)),
        Form::Text => eprintln!("{}", plain(&decided.text())),
    }
    Ok(Exit::Success)
}

/// A decision about a guard.
#[derive(Serialize)]
struct DecidedJson {
    /// `approved` or `rejected`.
    decision: &'static str,
    /// An earlier decision was the same.
    already: bool,
    /// The guard of a `windlass guard`; none for the guards of steps.
    guard: Option<String>,
    run: Option<String>,
    steps: Vec<String>,
    /// The steps with their guards, for people.
    #[serde(skip)]
    described: Vec<String>,
}

impl DecidedJson {
    fn new(verdict: Verdict) -> Self {
        Self {
            decision: word(verdict),
            already: false,
            guard: None,
            run: None,
            steps: Vec::new(),
            described: Vec::new(),
        }
    }

    fn text(&self) -> String {
        let Self { decision, already, guard, run, described, .. } = self;
        let already = if *already { "already " } else { "" };
        match (guard, run) {
            (Some(guard), _) => format!("{already}{decision} guard {guard:?}"),
            (None, run) => {
                let run = run.as_deref().unwrap_or_default();
                format!("{already}{decision} in run {run}: {}", described.join(", "))
            }
        }
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Approve => "approved",
        Verdict::Reject => "rejected",
    }
}

fn about_guard(
    store: &mut Store,
    name: &str,
    verdict: Verdict,
) -> Result<DecidedJson, Box<dyn Error>> {
    let waiting: BTreeSet<_> = waiting_guards(store.dir())?.into_keys().collect();
    if !waiting.contains(name) {
        return Err(NotWaiting { guard: name.to_owned(), waiting }.into());
    }
    let guard = name.to_owned();
    let already = match decide(store, name, verdict)? {
        Ok(()) => false,
        Err(DecidedBefore { verdict: before, .. }) if before == verdict => true,
        Err(DecidedBefore { verdict: before, .. }) => {
            return Err(Otherwise::Guard { guard, decision: word(before) }.into());
        }
    };
    Ok(DecidedJson { already, guard: Some(guard), ..DecidedJson::new(verdict) })
}

fn about_steps(
    store: &mut Store,
    run: &str,
    step: &str,
    verdict: Verdict,
) -> Result<DecidedJson, Box<dyn Error>> {
    let (view, places, decided) = decide_steps(store, run, step, verdict)?;
    let run = view.run.id.clone();
    let (already, decisions) = match decided {
        Decided::Now(decisions) => (false, decisions),
        Decided::Before(decisions) => (true, decisions),
        Decided::Nothing => return Err(NotAtGuard::of(&view, &places).into()),
    };
    if let Some(other) = decisions.iter().find(|decision| decision.verdict != verdict) {
        return Err(Otherwise::step(&run, other).into());
    }
    let steps = decisions.iter().map(|decision| decision.step.clone()).collect();
    let described = decisions.iter().map(|decision| described(decision, already)).collect();
    Ok(DecidedJson { already, run: Some(run), steps, described, ..DecidedJson::new(verdict) })
}

/// Returns the step of a decision with its guard, and with who decided when if that was earlier.
fn described(decision: &GuardDecision, already: bool) -> String {
    let GuardDecision { step, guard, uid, at_ms, .. } = decision;
    let (by, when) = (user_name(*uid), Times::now().ago(*at_ms));
    match already {
        true => format!("{step} (guard {guard}, by {by}, {when})"),
        false => format!("{step} (guard {guard})"),
    }
}

/// Another decision came first.
#[derive(Debug, ThisError)]
pub(crate) enum Otherwise {
    #[error(
        "guard {guard:?} was {decision} already, which the process that waits for it has not taken in yet"
    )]
    Guard { guard: String, decision: &'static str },
    #[error("step {step:?} of run {run} was {decision} already, by {by}, {when}: guard {guard}")]
    Step {
        step: String,
        run: String,
        decision: &'static str,
        by: String,
        when: String,
        guard: String,
    },
}

impl Otherwise {
    fn step(run: &str, decision: &GuardDecision) -> Self {
        Otherwise::Step {
            step: decision.step.clone(),
            run: run.to_owned(),
            decision: word(decision.verdict),
            by: user_name(decision.uid),
            when: Times::now().ago(decision.at_ms),
            guard: decision.guard.clone(),
        }
    }
}

/// No process waits for the guard.
#[derive(Debug, ThisError)]
#[error("no `windlass guard` waits for {guard:?}{}", hint(guard, waiting))]
pub(crate) struct NotWaiting {
    guard: String,
    waiting: BTreeSet<String>,
}

/// Returns a similar guard, or how to name the guard of a step.
fn hint(guard: &str, waiting: &BTreeSet<String>) -> String {
    let known: Vec<_> = waiting.iter().map(String::as_str).collect();
    match (nearest(guard, known.iter().copied()), known.as_slice()) {
        (Some(near), _) => format!("; did you mean guard/{near}?"),
        (None, []) => "; decide about the guard of a step with RUN/STEP".to_owned(),
        (None, known) => format!("; processes wait for {}", known.join(", ")),
    }
}

/// The step has no guard to decide about.
#[derive(Debug, ThisError)]
#[error("step {step:?} of run {run} {why}")]
pub(crate) struct NotAtGuard {
    run: String,
    step: String,
    why: String,
}

impl NotAtGuard {
    /// Returns an error that says where the first open step is, or the first step if all have ended.
    fn of(view: &RunView, places: &[usize]) -> Self {
        let open = places.iter().find(|place| !view.steps[**place].state.is_end());
        let place = *open.unwrap_or(&places[0]);
        let (run, step) = (view.run.id.clone(), &view.steps[place]);
        let guards = view.guards(place);
        let state = step.state;
        let target = step_argument(&run, &step.name);
        let why = match view.state {
            _ if guards.is_empty() => "has no guard".to_owned(),
            _ if state.is_end() => format!("has ended: {}", state.word()),
            RunState::Interrupted => {
                format!(
                    "is not at a guard: the run is interrupted; to resume: windlass resume {run}"
                )
            }
            _ if state == StepState::Running => "is running: it is not at a guard now".to_owned(),
            _ => format!(
                "is not at its guard {} yet; what it waits for: windlass why {target}",
                guards.join(", ")
            ),
        };
        Self { run, step: step.name.clone(), why }
    }
}

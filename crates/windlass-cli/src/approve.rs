//! `windlass approve` and `windlass reject`: a user decides about a guard.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

use serde::Serialize;
use thiserror::Error as ThisError;
use windlass_server::{
    Ask, RunState, RunView, StepState, Store, Verdict, ask, decide, nearest, step_argument,
    waiting_guards,
};

use crate::arguments::{Form, Target};
use crate::exit::Exit;
use crate::output::{json, print};
use crate::state;
use crate::style::plain;

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
struct Decided {
    /// `approved` or `rejected`.
    decision: &'static str,
    /// The guard of a `windlass guard`; none for the guards of steps.
    guard: Option<String>,
    run: Option<String>,
    steps: Vec<String>,
}

impl Decided {
    fn new(verdict: Verdict) -> Self {
        let decision = match verdict {
            Verdict::Approve => "approved",
            Verdict::Reject => "rejected",
        };
        Self { decision, guard: None, run: None, steps: Vec::new() }
    }

    fn text(&self) -> String {
        let Self { decision, guard, run, steps, .. } = self;
        match (guard, run) {
            (Some(guard), _) => format!("{decision} guard {guard:?}"),
            (None, run) => {
                let run = run.as_deref().unwrap_or_default();
                format!("{decision} in run {run}: {}", steps.join(", "))
            }
        }
    }
}

fn about_guard(store: &mut Store, name: &str, verdict: Verdict) -> Result<Decided, Box<dyn Error>> {
    let waiting = waiting_guards(store.dir())?;
    if !waiting.contains(name) {
        return Err(NotWaiting { guard: name.to_owned(), waiting }.into());
    }
    decide(store, &format!("guard/{name}"), verdict)?;
    Ok(Decided { guard: Some(name.to_owned()), ..Decided::new(verdict) })
}

fn about_steps(
    store: &mut Store,
    run: &str,
    step: &str,
    verdict: Verdict,
) -> Result<Decided, Box<dyn Error>> {
    let view = RunView::find(store, run)?;
    let (run, steps) = (view.run.id.clone(), at_guards(&view, step)?);
    let asks: Vec<_> = steps.iter().map(|step| Ask::Decide(step.clone(), verdict)).collect();
    ask(store, &run, &asks)?;
    Ok(Decided { run: Some(run), steps, ..Decided::new(verdict) })
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

/// Returns the steps that `step` names and that wait at a guard. No step of an interrupted run does:
/// `resume` checks its guards again.
fn at_guards(view: &RunView, step: &str) -> Result<Vec<String>, Box<dyn Error>> {
    let places = view.places(step)?;
    let guarded = view.guarded().into_iter().filter(|_| view.state.goes_on());
    let waiting: BTreeSet<_> = guarded.map(|(step, _)| step).collect();
    let names = places.iter().map(|place| view.steps[*place].name.as_str());
    let steps: Vec<_> = names.filter(|step| waiting.contains(step)).map(str::to_owned).collect();
    match steps.is_empty() {
        true => Err(NotAtGuard::of(view, &places).into()),
        false => Ok(steps),
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

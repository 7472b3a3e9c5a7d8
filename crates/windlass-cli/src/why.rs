//! `windlass why`: every reason why a step waits, or why it ended as it did.

use std::error::Error;
use std::path::Path;

use windlass_server::{Explanation, RunState, RunView, StepExplanation, Store, WaitReason};

use crate::arguments::{Form, StepTarget, WhyArguments};
use crate::exit::Exit;
use crate::look::running_shown;
use crate::output::print;
use crate::ps::names;
use crate::state;
use crate::style::{Style, plain};
use crate::times::Times;

mod json;
mod short;
mod words;

use self::json::WhyJson;
use self::short::short;
use self::words::Words;

/// The maximum number of steps to explain.
const SHOWN: usize = 50;

pub(crate) fn why(
    state: Option<&Path>,
    arguments: &WhyArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let StepTarget { run, step } = &arguments.target;
    let mut store = state::look(state)?;
    let why = match step {
        Some(step) => Explanation::of_step(&mut store, run, step)?,
        None => Explanation::of_run(&mut store, run)?,
    };
    let times = Times::now();
    let words = |step| Words { why: &why, step, times: &times };
    match form {
        Form::Json => {
            let line = |step| WhyJson::of(&words(step)).line();
            print(&why.steps.iter().map(line).collect::<String>());
        }
        Form::Text if why.steps.is_empty() => eprintln!("{}", nothing(&why.view)),
        Form::Text => {
            let most = if step.is_some() { usize::MAX } else { SHOWN };
            let shown: Vec<_> = chosen(&why.steps, most).into_iter().map(words).collect();
            print(&page(&shown, why.steps.len() - shown.len(), &Style::of_stdout()));
        }
    }
    Ok(Exit::Success)
}

/// Returns the most informative wait of a run in which nothing runs: `deploy (lock x)`. Returns none if
/// no step waits, or if the run cannot be read any more.
pub(crate) fn first_wait(store: &mut Store, run: &str, times: &Times) -> Option<String> {
    let Explanation { view, steps, .. } = Explanation::of_run(store, run).ok()?;
    let step = *chosen(&steps, 1).first()?;
    let reason = short_reason(step, &view, times)?;
    Some(format!("{} ({reason})", view.steps[step.place].name))
}

/// Returns the most important reason why a step waits, in a few words.
pub(crate) fn short_reason(
    step: &StepExplanation,
    view: &RunView,
    times: &Times,
) -> Option<String> {
    let reason = step.reasons.iter().min_by_key(|reason| rank(reason))?;
    Some(short(reason, view, times))
}

/// Returns the explanations one below the other, and what applies to all of them at the end.
fn page(shown: &[Words<'_>], hidden: usize, style: &Style) -> String {
    let mut page: String = shown.iter().map(|words| text(words, style)).collect();
    if let (1.., Some(words)) = (hidden, shown.first()) {
        let run = words.why.view.target();
        let more = format!("and {hidden} more steps; explain one with: windlass why {run}/STEP");
        page += &format!("{}\n", style.dim(&more));
    }
    if let Some(retry) = shown.iter().find_map(Words::retry) {
        page += &format!("{retry}\n");
    }
    page
}

/// Returns the steps to show. Of many, those that wait for something besides other steps come first.
fn chosen(all: &[StepExplanation], most: usize) -> Vec<&StepExplanation> {
    let mut steps: Vec<_> = all.iter().collect();
    steps.sort_by_key(|step| step.reasons.iter().map(rank).min());
    steps.truncate(most);
    steps.sort_by_key(|step| step.place);
    steps
}

/// Returns how informative a reason is for a run in which many steps wait; 0 is the most informative.
fn rank(reason: &WaitReason) -> u8 {
    match reason {
        WaitReason::Step { .. } | WaitReason::Interrupted | WaitReason::NoScheduler => 2,
        WaitReason::Queue { .. } | WaitReason::Resource { .. } | WaitReason::Workers { .. } => 1,
        _ => 0,
    }
}

/// Returns the message for a run in which no step waits.
fn nothing(view: &RunView) -> String {
    let id = &view.run.id;
    let running = running_shown(view);
    if let Some(hook) = view.end_hook() {
        return format!("no step of run {id} waits; running: hook {hook}");
    }
    match view.state {
        RunState::Ended(end) => format!("run {id} has ended: {}", end.outcome.word()),
        _ if running.is_empty() => format!("no step of run {id} waits"),
        _ => format!("no step of run {id} waits; running: {}", plain(&names(&running))),
    }
}

fn text(words: &Words<'_>, style: &Style) -> String {
    let mut text = format!("{}\n", style.bold(&words.head()));
    for line in words.lines() {
        text += &format!("  - {line}\n");
    }
    for line in words.tail() {
        text += &format!("{line}\n");
    }
    text
}

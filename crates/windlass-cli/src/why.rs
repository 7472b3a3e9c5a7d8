//! `windlass why`: every reason why a step waits, or why it ended as it did.

use std::error::Error;
use std::path::Path;

use serde::Serialize;
use windlass_server::{
    Explanation, HolderView, RunState, RunView, StepExplanation, Store, WaitReason,
};

use crate::arguments::{Form, StepTarget, WhyArguments};
use crate::exit::Exit;
use crate::look::{json_word, running_shown};
use crate::output::{json, print};
use crate::ps::names;
use crate::state;
use crate::style::{Style, plain};
use crate::times::Times;

mod short;
mod words;

use self::short::short;
use self::words::{Words, label};

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
            let line = |step| json("why", &WhyJson::of(&words(step)));
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

/// The explanation of a step, for programs.
#[derive(Serialize)]
struct WhyJson<'a> {
    run: &'a str,
    step: &'a str,
    state: &'static str,
    text: String,
    reasons: Vec<ReasonJson<'a>>,
    causes: Vec<CauseJson<'a>>,
    may_start_in_ms: Option<i64>,
    usually_ms: Option<i64>,
}

/// A reason, with the fields of its kind.
#[derive(Default, Serialize)]
struct ReasonJson<'a> {
    kind: &'static str,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempt: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holders: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wanted: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    escalated: Option<bool>,
}

/// A step that has blocked another.
#[derive(Serialize)]
struct CauseJson<'a> {
    step: &'a str,
    state: &'static str,
    through: Vec<&'a str>,
}

impl<'a> WhyJson<'a> {
    fn of(words: &Words<'a>) -> Self {
        let Words { why, step: explained, .. } = *words;
        let step = &why.view.steps[explained.place];
        let name = |place: &usize| why.view.steps[*place].name.as_str();
        let cause = |cause: &'a windlass_server::Cause| CauseJson {
            step: name(&cause.place),
            state: json_word(why.view.steps[cause.place].state),
            through: cause.through.iter().map(name).collect(),
        };
        Self {
            run: &why.view.run.id,
            step: &step.name,
            state: json_word(step.state),
            text: words.head(),
            reasons: explained.reasons.iter().map(|reason| reason_json(words, reason)).collect(),
            causes: explained.causes.iter().map(cause).collect(),
            may_start_in_ms: why.estimate(explained).map(|estimate| estimate.in_ms),
            usually_ms: explained.expected.map(|expected| expected.median_ms),
        }
    }
}

fn reason_json<'a>(words: &Words<'a>, reason: &'a WaitReason) -> ReasonJson<'a> {
    let text = words.reason(reason);
    let base = |kind| ReasonJson { kind, text, ..ReasonJson::default() };
    match reason {
        WaitReason::Interrupted => base("interrupted"),
        WaitReason::RunPaused | WaitReason::Paused => base("paused"),
        WaitReason::NoScheduler => base("no_scheduler"),
        WaitReason::Scheduler { .. } => base("scheduler"),
        WaitReason::Workers { holders, .. } => {
            ReasonJson { holders: Some(holders.clone()), ..base("workers") }
        }
        WaitReason::NoWorker { .. } => base("worker"),
        WaitReason::Step { place, kind } => ReasonJson {
            name: Some(&words.why.view.steps[*place].name),
            condition: Some(kind.word()),
            ..base("step")
        },
        WaitReason::Guard { guard, since_ms, escalated, .. } => ReasonJson {
            name: Some(guard),
            since: Some(*since_ms),
            escalated: Some(*escalated),
            ..base("guard")
        },
        WaitReason::Time { at_ms } => ReasonJson { at: Some(*at_ms), ..base("time") },
        WaitReason::Gate { guards } => {
            ReasonJson { name: guards.first().map(String::as_str), ..base("gate") }
        }
        WaitReason::Retry { at_ms, attempt } => {
            ReasonJson { at: Some(*at_ms), attempt: Some(*attempt), ..base("retry") }
        }
        WaitReason::Resource { name, wanted, free, holders, .. } => ReasonJson {
            name: Some(name),
            wanted: Some(wanted.to_string()),
            free: Some(free.to_string()),
            holders: Some(holders.clone()),
            ..base("resource")
        },
        WaitReason::Rate { name, wanted, at_ms } => ReasonJson {
            name: Some(name),
            wanted: Some(wanted.to_string()),
            at: *at_ms,
            ..base("rate")
        },
        WaitReason::Queue { ahead, first } => {
            ReasonJson { ahead: Some(*ahead), name: Some(first), ..base("queue") }
        }
        WaitReason::Name { name, holders, ahead, since_ms } => ReasonJson {
            name: Some(name.text()),
            since: Some(*since_ms),
            ahead: Some(ahead.len()),
            holders: Some(holders.iter().map(called).collect()),
            ..base(name.kind())
        },
        WaitReason::Limit { name, wanted, free, holders, ahead, .. } => ReasonJson {
            name: Some(name),
            wanted: Some(wanted.to_string()),
            free: Some(free.to_string()),
            ahead: Some(ahead.len()),
            holders: Some(holders.iter().map(called).collect()),
            ..base("limit")
        },
        _ => base("starting"),
    }
}

/// Returns the name of a holder for programs.
fn called(holder: &HolderView) -> String {
    label(holder).id()
}

//! `windlass why`: every reason why a step waits, or why it ended as it did.

use std::error::Error;
use std::path::Path;

use serde::Serialize;
use windlass_server::{Explanation, WaitReason};

use crate::arguments::{Form, WhyArguments};
use crate::exit::Exit;
use crate::look::json_word;
use crate::output::{json, print};
use crate::state;
use crate::style::Style;
use crate::times::Times;

mod words;

use self::words::Words;

pub(crate) fn why(
    state: Option<&Path>,
    arguments: &WhyArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let (run, step) = &arguments.target;
    let why = Explanation::of(&mut state::look(state)?, run, step)?;
    let words = Words { why: &why, times: &Times::now() };
    match form {
        Form::Json => print(&json(&WhyJson::of(&why, &words))),
        Form::Text => print(&text(&words, &Style::of_stdout())),
    }
    Ok(Exit::Success)
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

/// Why a step is where it is, for programs.
#[derive(Serialize)]
struct WhyJson<'a> {
    schema: u32,
    event: &'static str,
    run: &'a str,
    step: &'a str,
    state: &'static str,
    text: String,
    reasons: Vec<ReasonJson<'a>>,
    causes: Vec<CauseJson<'a>>,
    may_start_in_ms: Option<i64>,
    usually_ms: Option<i64>,
}

/// One reason. Only the fields of its kind are there.
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
    holders: Option<Vec<&'a str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wanted: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    escalated: Option<bool>,
}

/// A step that is to blame for a block.
#[derive(Serialize)]
struct CauseJson<'a> {
    step: &'a str,
    state: &'static str,
    through: Vec<&'a str>,
}

impl<'a> WhyJson<'a> {
    fn of(why: &'a Explanation, words: &Words<'_>) -> Self {
        let step = why.step();
        let name = |place: &usize| why.view.steps[*place].name.as_str();
        let cause = |cause: &'a windlass_server::Cause| CauseJson {
            step: name(&cause.place),
            state: json_word(why.view.steps[cause.place].state),
            through: cause.through.iter().map(name).collect(),
        };
        Self {
            schema: 1,
            event: "why",
            run: &why.view.run.id,
            step: &step.name,
            state: json_word(step.state),
            text: words.head(),
            reasons: why.reasons.iter().map(|reason| reason_json(why, words, reason)).collect(),
            causes: why.causes.iter().map(cause).collect(),
            may_start_in_ms: why.estimate.as_ref().map(|estimate| estimate.in_ms),
            usually_ms: why.expected.map(|expected| expected.median_ms),
        }
    }
}

fn reason_json<'a>(
    why: &'a Explanation,
    words: &Words<'_>,
    reason: &'a WaitReason,
) -> ReasonJson<'a> {
    let text = words.reason(reason);
    let base = |kind| ReasonJson { kind, text, ..ReasonJson::default() };
    match reason {
        WaitReason::Interrupted => base("interrupted"),
        WaitReason::Step { place, condition } => ReasonJson {
            name: Some(&why.view.steps[*place].name),
            condition: Some(condition.word()),
            ..base("step")
        },
        WaitReason::Guard { guard, since_ms, escalated, .. } => ReasonJson {
            name: Some(guard),
            since: Some(*since_ms),
            escalated: Some(*escalated),
            ..base("guard")
        },
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
            holders: Some(holders.iter().map(String::as_str).collect()),
            ..base("resource")
        },
        WaitReason::Rate { name, wanted, at_ms } => ReasonJson {
            name: Some(name),
            wanted: Some(wanted.to_string()),
            at: *at_ms,
            ..base("rate")
        },
        WaitReason::Line { ahead, first } => {
            ReasonJson { ahead: Some(*ahead), name: Some(first), ..base("line") }
        }
        WaitReason::Name { name, holders, ahead, since_ms } => ReasonJson {
            name: Some(name.text()),
            since: Some(*since_ms),
            ahead: Some(ahead.len()),
            holders: Some(holders.iter().map(|holder| holder.name.as_str()).collect()),
            ..base(name.kind())
        },
        _ => base("starting"),
    }
}

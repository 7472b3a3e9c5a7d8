//! The explanation of a step for programs: each reason as a kind with its fields, beside its sentence.

use serde::Serialize;
use windlass_server::{Amount, Cause, HolderView, Lack, WaitReason, WorkerKind};

use super::words::{Words, label};
use crate::look::json_word;
use crate::output::json;

/// The explanation of a step, for programs.
#[derive(Serialize)]
pub(super) struct WhyJson<'a> {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    checks: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    said: Option<&'a str>,
    /// The step for which the rest is reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved_for: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<String>,
    /// What is paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    paused: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slots: Option<u64>,
    /// How many of the slots have steps of other runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    others: Option<u64>,
    /// The step to whose worker it has to go.
    #[serde(skip_serializing_if = "Option::is_none")]
    beside: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kinds: Option<Vec<KindJson<'a>>>,
}

/// Workers that lack the same.
#[derive(Serialize)]
struct KindJson<'a> {
    workers: &'a [String],
    lacks: Vec<LackJson<'a>>,
}

/// Something that a worker lacks, with the fields of its kind.
#[derive(Default, Serialize)]
struct LackJson<'a> {
    kind: &'static str,
    /// The resource, or the key of the label.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wanted: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free: Option<String>,
    /// How much of what is free is reserved for earlier steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    reserved: Option<String>,
}

/// A step that has blocked another.
#[derive(Serialize)]
struct CauseJson<'a> {
    step: &'a str,
    state: &'static str,
    through: Vec<&'a str>,
}

impl<'a> WhyJson<'a> {
    pub(super) fn of(words: &Words<'a>) -> Self {
        let Words { why, step: explained, .. } = *words;
        let step = &why.view.steps[explained.place];
        let name = |place: &usize| why.view.steps[*place].name.as_str();
        let cause = |cause: &'a Cause| CauseJson {
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

impl WhyJson<'_> {
    /// Returns the line to print.
    pub(super) fn line(&self) -> String {
        json("why", self)
    }
}

fn reason_json<'a>(words: &Words<'a>, reason: &'a WaitReason) -> ReasonJson<'a> {
    let text = words.reason(reason);
    let base = |kind| ReasonJson { kind, text, ..ReasonJson::default() };
    match reason {
        WaitReason::Interrupted => base("interrupted"),
        WaitReason::RunPaused => ReasonJson { paused: Some("run"), ..base("paused") },
        WaitReason::Paused => ReasonJson { paused: Some("step"), ..base("paused") },
        WaitReason::NoScheduler => base("no_scheduler"),
        WaitReason::Scheduler { pid } => ReasonJson { pid: Some(*pid), ..base("scheduler") },
        WaitReason::Workers { slots, others, holders } => ReasonJson {
            slots: Some(*slots),
            others: Some(*others),
            holders: Some(holders.clone()),
            ..base("workers")
        },
        WaitReason::NoWorker { kinds, beside } => ReasonJson {
            beside: beside.as_deref(),
            kinds: Some(kinds.iter().map(KindJson::of).collect()),
            ..base("worker")
        },
        WaitReason::Step { place, kind } => ReasonJson {
            name: Some(&words.why.view.steps[*place].name),
            condition: Some(kind.word()),
            ..base("step")
        },
        WaitReason::Guard { guard, since_ms, checks, said, escalated } => ReasonJson {
            name: Some(guard),
            since: Some(*since_ms),
            checks: Some(*checks),
            said: said.as_deref(),
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
        WaitReason::Resource { name, wanted, free, holders, reserved_for } => ReasonJson {
            name: Some(name),
            wanted: Some(wanted.to_string()),
            free: Some(free.to_string()),
            holders: Some(holders.clone()),
            reserved_for: reserved_for.as_deref(),
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
        WaitReason::Limit { name, wanted, limit, free, holders, ahead } => ReasonJson {
            name: Some(name),
            wanted: Some(wanted.to_string()),
            limit: limit.as_ref().map(Amount::to_string),
            free: Some(free.to_string()),
            ahead: Some(ahead.len()),
            holders: Some(holders.iter().map(called).collect()),
            ..base("limit")
        },
        _ => base("starting"),
    }
}

impl<'a> KindJson<'a> {
    fn of(kind: &'a WorkerKind) -> Self {
        Self { workers: &kind.workers, lacks: kind.lacks.iter().map(LackJson::of).collect() }
    }
}

impl<'a> LackJson<'a> {
    fn of(lack: &'a Lack) -> Self {
        let base = |kind| Self { kind, ..Self::default() };
        let of_resource = |name: &'a String, wanted: &Amount| Self {
            name: Some(name),
            wanted: Some(wanted.to_string()),
            ..Self::default()
        };
        match lack {
            Lack::Intake => base("intake"),
            Lack::Name { wanted } => Self { wanted: Some(wanted.clone()), ..base("name") },
            Lack::Label { key, wanted } => {
                Self { name: Some(key), wanted: Some(wanted.clone()), ..base("label") }
            }
            Lack::Total { resource, wanted, total } => Self {
                kind: "total",
                total: Some(total.to_string()),
                ..of_resource(resource, wanted)
            },
            Lack::Free { resource, wanted, free, reserved } => Self {
                kind: "free",
                free: Some(free.to_string()),
                reserved: Some(reserved.to_string()),
                ..of_resource(resource, wanted)
            },
            _ => base("other"),
        }
    }
}

/// Returns the name of a holder for programs.
fn called(holder: &HolderView) -> String {
    label(holder).id()
}

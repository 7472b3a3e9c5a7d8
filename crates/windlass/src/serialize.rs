//! `Serialize` for what a program shows or stores of its works: times as seconds, ids as numbers, states and
//! phases as lower-case words.
//!
//! Written by hand, so that the core needs no serde and the names are a decision of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use windlass_core::{Children, Phase, RefusalCounts, StopReason, Timestamp, WorkState};

use crate::capacity::{CapacityMetrics, RollingRates};
use crate::event::WorkEvent;
use crate::id::WorkId;
use crate::metrics::WorkSchedulerMetrics;
use crate::reference::WorkFailure;
use crate::snapshot::WorkSnapshot;
use crate::summary::RunSummary;

/// `serialize!(Type, this => { name: value, .. })` writes these fields in this order.
macro_rules! serialize {
    ($type:ident, $this:ident => { $($name:ident: $value:expr),+ $(,)? }) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $this = self;
                let fields = [$(stringify!($name)),+].len();
                let mut shown = serializer.serialize_struct(stringify!($type), fields)?;
                $(shown.serialize_field(stringify!($name), &$value)?;)+
                shown.end()
            }
        }
    };
}

serialize!(WorkSnapshot, work => {
    id: work.id.number(),
    name: work.name.as_str(),
    state: state(work.state),
    phase: phase(work.phase),
    stop_reason: stop_reason(work.phase),
    skipped: work.skipped,
    deps: numbers(&work.deps),
    dependents: numbers(&work.dependents),
    attempts: work.attempts,
    retries_left: work.retries_left,
    last_error: work.last_error,
    last_duration: work.last_duration.map(seconds),
    total_duration: seconds(work.total_duration),
    retry_in: work.retry_in().map(seconds),
    children: children(work.children),
    status: work.status(),
});

serialize!(WorkEvent, event => {
    id: event.id.number(),
    name: event.name.as_str(),
    state: state(event.state),
    phase: phase(event.phase),
    stop_reason: stop_reason(event.phase),
    previous: event.previous.map(state),
    attempt: event.attempt,
    number: event.number,
    at: since_start(event.at),
});

serialize!(WorkSchedulerMetrics, metrics => {
    total: metrics.total,
    pending: metrics.pending,
    running: metrics.running,
    success: metrics.success,
    failed: metrics.failed,
    blocked: metrics.blocked,
    cancelled: metrics.cancelled,
    attempts: metrics.attempts,
    retries_left: metrics.retries_left,
    forgotten: metrics.forgotten,
    events_dropped: metrics.events_dropped,
});

serialize!(RunSummary, run => {
    success: run.success,
    skipped: run.skipped,
    failed: run.failed,
    blocked: run.blocked,
    cancelled: run.cancelled,
    failures: run.failures,
});

serialize!(WorkFailure, failure => {
    id: failure.id.number(),
    name: failure.name.as_str(),
    state: state(failure.state),
    error: failure.error,
});

serialize!(CapacityMetrics, capacity => {
    accepted: capacity.accepted,
    refused: refusals(capacity.refused),
    in_flight: capacity.in_flight,
    waiting: capacity.waiting,
    utilization: capacity.utilization,
    rolling: capacity.rolling,
});

serialize!(RollingRates, rates => {
    over: seconds(rates.over),
    accepted_per_second: rates.accepted_per_second,
    refused_per_second: rates.refused_per_second,
});

fn children(Children { total, succeeded, failed, .. }: Children) -> BTreeMap<&'static str, usize> {
    BTreeMap::from([("total", total), ("succeeded", succeeded), ("failed", failed)])
}

fn refusals(refused: RefusalCounts) -> BTreeMap<&'static str, u64> {
    let RefusalCounts { limit, reserved, rate, quota, .. } = refused;
    BTreeMap::from([("limit", limit), ("reserved", reserved), ("rate", rate), ("quota", quota)])
}

fn seconds(length: Duration) -> f64 {
    length.as_secs_f64()
}

fn since_start(at: Timestamp) -> f64 {
    seconds(at.since(Timestamp::ZERO))
}

fn numbers(works: &[WorkId]) -> Vec<u64> {
    works.iter().map(|work| work.number()).collect()
}

fn state(state: WorkState) -> &'static str {
    match state {
        WorkState::Pending => "pending",
        WorkState::Running => "running",
        WorkState::Success => "success",
        WorkState::Failed => "failed",
        WorkState::Blocked => "blocked",
        WorkState::Cancelled => "cancelled",
    }
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "waiting",
        Phase::Gated => "gated",
        Phase::Ready => "ready",
        Phase::Granted => "granted",
        Phase::WaitingOutside => "waiting_outside",
        Phase::Paused => "paused",
        Phase::Halted => "halted",
        Phase::Delayed { .. } => "delayed",
        Phase::Running => "running",
        Phase::Suspended => "suspended",
        Phase::Resuming => "resuming",
        Phase::Joining => "joining",
        Phase::Cancelling { .. } => "cancelling",
        Phase::Skipped => "skipped",
        other => state(other.state()),
    }
}

/// Why an attempt is asked to stop, while it is.
fn stop_reason(phase: Phase) -> Option<&'static str> {
    match phase {
        Phase::Cancelling { why: StopReason::Timeout, .. } => Some("timeout"),
        Phase::Cancelling { why: StopReason::Deadline, .. } => Some("deadline"),
        Phase::Cancelling { .. } => Some("cancel"),
        _ => None,
    }
}

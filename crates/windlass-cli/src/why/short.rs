//! Reasons in a few words, for lists.

use windlass_server::{RunView, WaitReason};

use super::words::{SLOTS, WHEN};
use crate::times::Times;

/// Returns what a step waits for: `lock x`, `retry in 20 s`.
pub(super) fn short(reason: &WaitReason, view: &RunView, times: &Times) -> String {
    let guarded = |guard: &str| match guard {
        WHEN => WHEN.to_owned(),
        guard => format!("guard {guard}"),
    };
    match reason {
        WaitReason::Interrupted => "interrupted".to_owned(),
        WaitReason::RunPaused | WaitReason::Paused => "paused".to_owned(),
        WaitReason::NoScheduler => "scheduler".to_owned(),
        WaitReason::Workers { slots: 0, .. } => "worker".to_owned(),
        WaitReason::Workers { .. } => "slot of a worker".to_owned(),
        WaitReason::NoWorker { .. } => "worker that can take it".to_owned(),
        WaitReason::Step { place, .. } => format!("step {}", view.steps[*place].name),
        WaitReason::Guard { guard, .. } => guarded(guard),
        WaitReason::Time { at_ms } => format!("time, {}", times.ahead(*at_ms)),
        WaitReason::Gate { guards } => guarded(guards.first().map_or(WHEN, String::as_str)),
        WaitReason::Retry { at_ms, .. } => format!("retry {}", times.ahead(*at_ms)),
        WaitReason::Resource { name, .. } if name == SLOTS => "slot".to_owned(),
        WaitReason::Resource { name, .. } => format!("resource {name}"),
        WaitReason::Rate { name, .. } => format!("rate {name}"),
        WaitReason::Limit { name, .. } => format!("limit {name}"),
        WaitReason::Queue { first, .. } => format!("behind {first}"),
        WaitReason::Name { name, .. } => format!("{} {}", name.kind(), name.text()),
        _ => "starting".to_owned(),
    }
}

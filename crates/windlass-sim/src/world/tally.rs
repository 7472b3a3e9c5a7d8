//! The names of facts, phases and shortages in the report.

use windlass_core::{Ending, Fact, Happening, Phase, Short, StopReason};

pub(super) fn fact_name(fact: &Fact) -> &'static str {
    match fact.what {
        Happening::Submitted { .. } => "fact: submitted",
        Happening::EdgeAdded { .. } => "fact: edge added",
        Happening::EdgeRemoved { .. } => "fact: edge removed",
        Happening::Started { .. } => "fact: started",
        Happening::Ended { ending: Ending::Success, .. } => "fact: succeeded",
        Happening::Ended { ending: Ending::Failed, .. } => "fact: failed",
        Happening::Ended { ending: Ending::Retry { .. }, .. } => "fact: retried",
        Happening::Ended { ending: Ending::Cancelled, .. } => "fact: stopped",
        Happening::Ended { ending: Ending::Interrupted, .. } => "fact: interrupted",
        Happening::GateOpened { .. } => "fact: gate opened",
        Happening::GateRejected { .. } => "fact: gate rejected",
        Happening::GateSkipped { .. } => "fact: gate skipped",
        Happening::Suspended { .. } => "fact: suspended",
        Happening::WaitOver { .. } => "fact: wait over",
        Happening::Resumed { .. } => "fact: resumed",
        Happening::Joined { .. } => "fact: joined",
        Happening::Reopened { .. } => "fact: reopened",
        Happening::CancelAsked { .. } => "fact: cancel asked",
        Happening::LimitSet { .. } => "fact: limit set",
        Happening::Halted { .. } => "fact: halted",
        Happening::Continued { .. } => "fact: continued",
        Happening::WorkPaused { .. } => "fact: work paused",
        Happening::Moved { .. } => "fact: moved",
        Happening::Replaced { .. } => "fact: replaced",
        Happening::WorkUnpaused { .. } => "fact: work unpaused",
        Happening::Paused => "fact: paused",
        Happening::Unpaused => "fact: unpaused",
        Happening::Forgotten { .. } => "fact: forgotten",
        _ => "fact: unknown",
    }
}

pub(super) fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Waiting => "phase: waiting",
        Phase::Gated => "phase: gated",
        Phase::Ready => "phase: ready",
        Phase::Granted => "phase: granted",
        Phase::WaitingOutside => "phase: ticketed",
        Phase::Paused => "phase: paused",
        Phase::Halted => "phase: halted",
        Phase::Delayed { .. } => "phase: delayed",
        Phase::Running => "phase: running",
        Phase::Suspended => "phase: suspended",
        Phase::Resuming => "phase: resuming",
        Phase::Joining => "phase: joining",
        Phase::Cancelling { why: StopReason::Timeout, .. } => "phase: out of time",
        Phase::Cancelling { why: StopReason::Deadline, .. } => "phase: past its deadline",
        Phase::Cancelling { holds: false, .. } => "phase: cancelled while it waits",
        Phase::Cancelling { .. } => "phase: cancelling",
        phase if phase.state().is_terminal() => "phase: ended",
        _ => "phase: unknown",
    }
}

pub(super) fn short_name(why: &Short) -> &'static str {
    match why {
        Short::Limit { reserved, .. } if *reserved > 0 => "refused: reserved",
        Short::Limit { .. } => "refused: limit",
        Short::Rate { .. } => "refused: rate",
        Short::Quota { .. } => "refused: quota",
        _ => "refused: unknown",
    }
}

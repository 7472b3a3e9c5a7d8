//! What things are called in the report.

use windlass_core::{Ending, Fact, Happening, Short};

pub(super) fn fact_name(fact: &Fact) -> &'static str {
    match fact.what {
        Happening::Submitted { .. } => "fact: submitted",
        Happening::EdgeAdded { .. } => "fact: edge added",
        Happening::Started { .. } => "fact: started",
        Happening::Ended { ending: Ending::Success, .. } => "fact: succeeded",
        Happening::Ended { ending: Ending::Failed, .. } => "fact: failed",
        Happening::Ended { ending: Ending::Retry { .. }, .. } => "fact: retried",
        Happening::Ended { ending: Ending::Cancelled, .. } => "fact: stopped",
        Happening::Ended { ending: Ending::Interrupted, .. } => "fact: interrupted",
        Happening::CancelAsked { .. } => "fact: cancel asked",
        Happening::LimitSet { .. } => "fact: limit set",
        Happening::Forgotten { .. } => "fact: forgotten",
        _ => "fact: unknown",
    }
}

pub(super) fn short_name(why: &Short) -> &'static str {
    match why {
        Short::Limit { set_aside, .. } if *set_aside > 0 => "refused: set aside",
        Short::Limit { .. } => "refused: limit",
        Short::Rate { .. } => "refused: rate",
        Short::Quota { .. } => "refused: quota",
        _ => "refused: unknown",
    }
}

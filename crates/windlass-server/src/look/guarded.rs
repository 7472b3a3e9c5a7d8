//! Computes from the journal how long steps waited for their guards.

use std::collections::BTreeMap;

use windlass_core::{Fact, Happening, Phase, WorkId};

use super::StepView;
use crate::clock::millis;
use crate::schedule::Schedule;

/// When gates were decided, and users had steps tried again.
pub(super) struct GuardTimes {
    decided: BTreeMap<WorkId, i64>,
    reopened: BTreeMap<WorkId, i64>,
    created_ms: i64,
    now_ms: i64,
}

impl GuardTimes {
    pub(super) fn of(facts: &[Fact], created_ms: i64, now_ms: i64) -> Self {
        let (mut decided, mut reopened) = (BTreeMap::new(), BTreeMap::new());
        for fact in facts {
            match fact.what {
                Happening::GateOpened { work }
                | Happening::GateRejected { work }
                | Happening::GateSkipped { work } => decided.insert(work, millis(fact.at)),
                Happening::Reopened { work } => reopened.insert(work, millis(fact.at)),
                _ => None,
            };
        }
        Self { decided, reopened, created_ms, now_ms }
    }

    /// Sets how long each step that has guards waited for them.
    pub(super) fn tell(&self, schedule: &Schedule, works: &[WorkId], steps: &mut [StepView]) {
        for (place, &work) in works.iter().enumerate() {
            if schedule.step(work).gate.guards.is_empty() {
                continue;
            }
            let gated = schedule.engine().phase(work) == Some(Phase::Gated);
            let until = if gated { Some(self.now_ms) } else { self.decided.get(&work).copied() };
            let since = self.reached(work, place, steps);
            steps[place].guarded_ms = until.map(|until| until.saturating_sub(since).max(0));
        }
    }

    /// Returns when everything that a step waits for had ended, or a user had it tried again.
    fn reached(&self, work: WorkId, place: usize, steps: &[StepView]) -> i64 {
        let before = steps[place].after.iter().filter_map(|edge| steps[edge.step].ended_ms());
        let again = self.reopened.get(&work).copied();
        before.chain(again).fold(self.created_ms, i64::max)
    }
}

//! Tells everybody who watches what has become of the steps, once the disk is sure of it.

use windlass_core::{Grant, Phase, Transition, WorkId, WorkState};

use super::condition::Side;
use super::leader::Start;
use super::{Change, Coordinator, Update};
use crate::attempt::log_path;

/// Something to tell besides changes of states.
pub(super) enum Notice {
    Waits(WorkId, String),
    Stopping,
    Said(String),
}

impl Coordinator {
    /// Tells of every step that begins to wait for a name.
    pub(super) fn note_refusals(&mut self, refusals: Vec<(WorkId, String)>, starts: &[Start]) {
        for start in starts {
            self.refused.remove(&start.grant.work);
        }
        for (work, what) in refusals {
            if self.refused.insert(work) {
                self.notices.push(Notice::Waits(work, what));
            }
        }
    }

    /// Tells of every change; the steps that have to end, because their time is up or somebody
    /// wants it.
    pub(super) fn show(&mut self, watch: &mut impl FnMut(&Update<'_>)) -> Vec<WorkId> {
        self.explain_ends();
        self.explained = 0;
        let mut late = Vec::new();
        for transition in self.schedule.take_transitions() {
            let Transition { work, to, .. } = transition;
            match to {
                Phase::Cancelling { .. } => late.push(work),
                Phase::Gated => self.begin_conditions(work),
                _ if self.conditions.side(work) == Some(Side::Before) => {
                    self.conditions.forget(work);
                }
                _ => {}
            }
            self.show_change(&transition, watch);
        }
        for notice in std::mem::take(&mut self.notices) {
            match notice {
                // It goes on or has ended by now, and that was told.
                Notice::Waits(work, _) if !self.waits(work) => {}
                Notice::Waits(work, what) => {
                    let step = &self.schedule.step(work).name;
                    let at_nanos = self.schedule.now().as_nanos();
                    watch(&Update::Waits { step, what: &what, at_nanos });
                }
                Notice::Stopping => watch(&Update::Stopping),
                Notice::Said(what) => watch(&Update::Notice(&what)),
            }
        }
        late
    }

    /// Whether a step waits for a guard, or for names.
    fn waits(&self, work: WorkId) -> bool {
        let lives = self.schedule.engine().phase(work).is_some_and(|p| !p.state().is_terminal());
        lives && (self.conditions.side(work).is_some() || self.refused.contains(&work))
    }

    fn show_change(&mut self, transition: &Transition, watch: &mut impl FnMut(&Update<'_>)) {
        let Transition { at, work, attempt, from, to } = *transition;
        let state = to.state();
        let submitted = from.is_none() && !state.is_terminal();
        if from == Some(state) || submitted {
            return;
        }
        // A start may be told together with the end that follows it, and only ends have reasons; so may
        // that a step waits anew, and that it is blocked again.
        let why = match state {
            WorkState::Running => None,
            WorkState::Pending if self.lost.remove(&(work, attempt)) => {
                Some(format!("attempt {attempt} was interrupted"))
            }
            _ => self.whys.remove(&(work, attempt)),
        };
        let why = match to {
            Phase::Blocked => why.or_else(|| self.schedule.why_blocked(work)),
            _ => why,
        };
        let step = self.schedule.step(work).name.as_str();
        let log = log_path(&self.logs, Grant { work, attempt }, step);
        // Of an attempt that has printed nothing and ended well there is none, whatever became of its step.
        let well = matches!(state, WorkState::Running | WorkState::Success);
        let log = (attempt > 0 && !is_old(from, state)).then_some(log);
        let log = log.filter(|log| well || log.exists());
        let skipped = to == Phase::Skipped;
        let due_nanos = match to {
            Phase::Delayed { due } => Some(due.as_nanos()),
            _ => None,
        };
        let at_nanos = at.as_nanos();
        let change = Change { step, state, attempt, at_nanos, log, skipped, due_nanos, why };
        watch(&Update::Changed(change));
    }
}

/// Whether the latest attempt of a step was over before it changed its state, and told then: somebody
/// has it tried again, or it ends while it waits.
fn is_old(from: Option<WorkState>, to: WorkState) -> bool {
    match from {
        Some(WorkState::Pending) => matches!(to, WorkState::Blocked | WorkState::Cancelled),
        from => from.is_some_and(WorkState::is_terminal),
    }
}

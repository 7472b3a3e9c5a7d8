//! How steps wait for their conditions, and what users are told of it.

use windlass_core::{Grant, Input, WorkId};
use windlass_store::AttemptEnd;

use super::super::journal::Record;
use super::super::observer::Notice;
use super::RunState;
use super::condition::{Conclusion, Condition, ConditionNews, Side, Specs};
use crate::guard::UsedUp;
use crate::look::step_argument;

impl RunState {
    /// Has a step wait for its `when` and its guards.
    pub(super) fn begin_conditions(&mut self, work: WorkId) {
        let Grant { attempt, .. } = self.latest(work);
        let specs = self.condition_specs(Grant { work, attempt: attempt + 1 }, Side::Before);
        self.conditions.begin(work, Side::Before, specs, self.schedule.now());
    }

    pub(super) fn condition_specs(&self, grant: Grant, side: Side) -> Specs {
        let step = self.schedule.step(grant.work);
        self.identity.resolve(&self.schedule, |all| {
            let when = step.when.as_ref().filter(|_| side == Side::Before);
            let when = when.map(|script| (Condition::When, all.when(grant, script)));
            let guards = if side == Side::Before { &step.guards } else { &step.ensures };
            let guards =
                guards.iter().map(|&place| (Condition::Guard(place), all.guard(grant, place)));
            when.into_iter().chain(guards).collect()
        })
    }

    pub(super) fn on_condition(&mut self, news: Option<ConditionNews>) {
        match news {
            None => {}
            Some(ConditionNews::Concluded(work, side, conclusion)) => {
                self.on_concluded(work, side, conclusion);
            }
            Some(ConditionNews::NotYet(work)) => self.note_wait(work, ""),
            Some(ConditionNews::Blocked(work, used_up)) => {
                self.note_wait(work, &format!("; it {used_up}, and is still checked"));
            }
            Some(ConditionNews::Escalated(work, used_up)) => self.escalate(work, used_up),
        }
    }

    /// Takes in what became of the conditions of a step. The step may have ended meanwhile.
    pub(super) fn on_concluded(&mut self, work: WorkId, side: Side, conclusion: Conclusion) {
        self.effects.records.push(Record::WaitOver(work));
        match (side, conclusion) {
            (Side::Before, Conclusion::Passed) => {
                // It may have been cancelled a moment ago.
                let _ = self.schedule.apply(Input::Open(work));
            }
            (Side::Before, Conclusion::Skip) => {
                if self.schedule.apply(Input::Skip(work)).is_ok() {
                    self.note_reason(work, "when says so".to_owned());
                }
            }
            (Side::Before, Conclusion::Failed(why)) => {
                if self.schedule.apply(Input::Reject(work)).is_ok() {
                    self.record_reason(work, AttemptEnd::Failed, why);
                }
            }
            (Side::After, conclusion) => self.on_ensured(work, conclusion),
        }
    }

    /// Tells users and hooks that a guard waits for a user's decision.
    fn escalate(&mut self, work: WorkId, used_up: UsedUp) {
        let Some(wait) = self.conditions.shown(work) else { return };
        let step = self.schedule.step(work).name.clone();
        let target = step_argument(self.identity.id(), &step);
        self.effects.records.push(Record::Emit(format!("guard:{}:escalated", wait.guard)));
        let what = format!(
            "guard {}: it {used_up}; decide with: windlass approve {target}, or windlass reject {target}",
            wait.guard
        );
        self.observer.notice(Notice::Waits(work, what));
        if let Some(hook) = self.schedule.plan().hooks.escalate.clone() {
            let about = [("WINDLASS_GUARD", wait.guard.as_str()), ("WINDLASS_STEP", &step)];
            self.call_hook("on.escalate", &hook, &about);
        }
        self.effects.records.push(Record::Wait(wait));
    }

    /// Stores that a step waits for a guard; a user who watches is told once.
    fn note_wait(&mut self, work: WorkId, more: &str) {
        let Some(wait) = self.conditions.shown(work) else { return };
        if wait.checks == 1 || !more.is_empty() {
            let said = wait.said.as_deref().map(|said| format!(": {said}")).unwrap_or_default();
            let target = step_argument(self.identity.id(), &self.schedule.step(work).name);
            let person = format!("\nto decide it now: windlass approve {target}");
            let what = format!("guard {}{said}{more}{person}", wait.guard);
            self.observer.notice(Notice::Waits(work, what));
        }
        self.effects.records.push(Record::Wait(wait));
    }
}

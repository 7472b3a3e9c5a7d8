//! One step that waits for its conditions.

use windlass_core::Timestamp;
use windlass_workflow::Guard;

use super::{Condition, Side, Specs};
use crate::command::ConditionSpec;
use crate::guard::{GuardPoll, NotYet};

/// A step that waits for conditions.
pub(super) struct Wait {
    pub(super) side: Side,
    /// The attempt that it precedes or follows.
    pub(super) attempt: u32,
    /// The condition that the step waits for, and those behind it.
    pub(super) specs: Specs,
    /// One of them may be woken by an event.
    pub(super) heeding: bool,
    pub(super) poll: Option<GuardPoll>,
    /// The check that runs.
    pub(super) check: Option<u64>,
    /// An event came while a check ran.
    pub(super) woken: bool,
    /// When the step's condition is checked again, if ever.
    pub(super) due: Option<Timestamp>,
    pub(super) since: Timestamp,
    pub(super) checks: u32,
    pub(super) said: Option<String>,
    pub(super) escalated: bool,
}

impl Wait {
    pub(super) fn new(side: Side, attempt: u32, specs: Specs, now: Timestamp) -> Self {
        let wakes = |spec: &ConditionSpec| !spec.wake_on.is_empty();
        let heeding = specs.iter().any(|(_, spec)| spec.as_ref().is_ok_and(wakes));
        Self {
            side,
            attempt,
            specs,
            heeding,
            poll: None,
            check: None,
            woken: false,
            due: None,
            since: now,
            checks: 0,
            said: None,
            escalated: false,
        }
    }

    pub(super) fn not_yet(&mut self, why: &NotYet, now: Timestamp) {
        self.said = Some(why.to_string());
        let Some(poll) = &mut self.poll else { return };
        poll.not_yet(now);
        if std::mem::take(&mut self.woken) {
            poll.wake(now);
        }
    }

    pub(super) fn heeds(&self, event: &str) -> bool {
        let spec = self.specs.front().and_then(|(_, spec)| spec.as_ref().ok());
        spec.is_some_and(|spec| spec.wake_on.iter().any(|pattern| pattern.matches(event)))
    }

    /// Says what happened to the condition, with what last check printed.
    pub(super) fn in_words(&self, guards: &[Guard], what: &str) -> String {
        let name = match self.specs.front() {
            Some((Condition::Guard(place), _)) => format!("guard {}", guards[*place].name),
            _ => "when".to_owned(),
        };
        match &self.said {
            Some(said) => format!("{name}: {what}; last check: {said}"),
            None => format!("{name}: {what}"),
        }
    }
}

//! What users are shown of a run, and why: changes of steps, waits, notices.
//!
//! Reasons are noted when they are decided, and shown once the disk has the change they explain.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use windlass_core::{Grant, Phase, Transition, WorkId, WorkState};

use super::{Change, Update};
use crate::attempt::{finally_log, log_path};
use crate::look::step_argument;
use crate::schedule::Schedule;

/// Why a step is skipped that has a `when`.
pub(super) const SKIPPED_BY_WHEN: &str = "when says so";

/// Something to show besides changes of states.
#[derive(Debug)]
pub(super) enum Notice {
    /// A step waits for this.
    Waits(WorkId, String),
    /// A signal has come, and everything that runs was asked to end.
    Stopping,
    /// A sentence about the run itself.
    Run(String),
}

/// Where the logs of a run are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LogPlace {
    /// In files of this machine.
    #[default]
    Here,
    /// Perhaps on other machines.
    Anywhere,
}

/// What is to be shown of one run.
#[derive(Default)]
pub(super) struct Observer {
    logs: LogPlace,
    /// Why attempts ended as they did, and steps after them, until that is shown.
    reasons: BTreeMap<(WorkId, u32), String>,
    /// Lost attempts that were not shown yet.
    lost: BTreeSet<(WorkId, u32)>,
    /// Attempts that failed because of their `finally` and were not shown yet.
    failed_finally: BTreeSet<(WorkId, u32)>,
    /// How many of the transitions that are not shown yet have been given to
    /// [`Observer::unexplained`].
    explained: usize,
    notices: Vec<Notice>,
    /// The steps that wait for names, as was shown.
    refused: BTreeSet<WorkId>,
    /// The steps that are paused by themselves, as was shown.
    paused: BTreeSet<WorkId>,
    /// Whether everything is paused, as was shown.
    all_paused: bool,
}

impl Observer {
    pub(super) fn new(logs: LogPlace) -> Self {
        Self { logs, ..Self::default() }
    }

    /// Notes why an attempt has ended, or its step after it.
    pub(super) fn note_reason(&mut self, work: WorkId, attempt: u32, why: String) {
        self.reasons.insert((work, attempt), why);
    }

    pub(super) fn has_reason(&self, work: WorkId, attempt: u32) -> bool {
        self.reasons.contains_key(&(work, attempt))
    }

    pub(super) fn note_lost(&mut self, grant: Grant) {
        self.lost.insert((grant.work, grant.attempt));
    }

    pub(super) fn note_failed_finally(&mut self, grant: Grant) {
        self.failed_finally.insert((grant.work, grant.attempt));
    }

    /// Drops what is noted about a step that is forgotten.
    pub(super) fn forget(&mut self, work: WorkId) {
        let own = (work, 0)..=(work, u32::MAX);
        self.reasons.extract_if(own.clone(), |_, _| true).for_each(drop);
        self.lost.extract_if(own.clone(), |_| true).for_each(drop);
        self.failed_finally.extract_if(own, |_| true).for_each(drop);
        self.refused.remove(&work);
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    /// Notes which steps wait for names, and that those which begin do so no longer.
    pub(super) fn note_refusals(
        &mut self,
        refusals: Vec<(WorkId, String)>,
        begun: impl Iterator<Item = WorkId>,
    ) {
        for work in begun {
            self.refused.remove(&work);
        }
        for (work, what) in refusals {
            if self.refused.insert(work) {
                self.notices.push(Notice::Waits(work, what));
            }
        }
    }

    /// Notes which steps are paused.
    pub(super) fn note_pauses(&mut self, schedule: &Schedule, run: &str) {
        let engine = schedule.engine();
        let all_paused = engine.all_paused_since().is_some();
        match (std::mem::replace(&mut self.all_paused, all_paused), all_paused) {
            (false, true) => self.notices.push(Notice::Run(format!(
                "paused: what runs may end, and nothing starts; to continue: windlass unpause {run}"
            ))),
            (true, false) => self.notices.push(Notice::Run("continues after a pause".to_owned())),
            _ => {}
        }
        let paused: BTreeSet<_> = engine.paused().collect();
        for work in paused.difference(&self.paused) {
            let target = step_argument(run, &schedule.step(*work).name);
            let what = format!("the end of a pause\nto continue: windlass unpause {target}");
            self.notices.push(Notice::Waits(*work, what));
        }
        self.paused = paused;
    }

    /// Returns whether there is something to show that a user may wait for.
    pub(super) fn has_urgent(&self) -> bool {
        !self.reasons.is_empty() || !self.notices.is_empty()
    }

    /// Returns the transitions that it has not returned before.
    pub(super) fn unexplained(&mut self, schedule: &Schedule) -> Vec<Transition> {
        let new = &schedule.transitions()[self.explained..];
        self.explained += new.len();
        new.to_vec()
    }

    /// Shows every change, and then every notice. `waits` returns whether a step waits for conditions. A
    /// wait that has ended is not shown, because the change that ended it is.
    pub(super) fn show(
        &mut self,
        schedule: &mut Schedule,
        logs: &Path,
        changes: &[Transition],
        waits: impl Fn(WorkId) -> bool,
        watch: &mut dyn FnMut(&Update<'_>),
    ) {
        self.explained = 0;
        for change in changes {
            self.show_change(schedule, logs, change, watch);
        }
        for notice in std::mem::take(&mut self.notices) {
            match notice {
                Notice::Waits(work, _) if !self.waits(schedule, work, &waits) => {}
                Notice::Waits(work, what) => {
                    let step = &schedule.step(work).name;
                    let at_nanos = schedule.now().as_nanos();
                    watch(&Update::Waits { step, what: &what, at_nanos });
                }
                Notice::Stopping => watch(&Update::Stopping),
                Notice::Run(what) => watch(&Update::Notice(&what)),
            }
        }
    }

    fn waits(&self, schedule: &Schedule, work: WorkId, on: impl Fn(WorkId) -> bool) -> bool {
        let lives = schedule.engine().phase(work).is_some_and(|p| !p.state().is_terminal());
        lives && (on(work) || self.refused.contains(&work) || self.paused.contains(&work))
    }

    /// Shows what is left to say of a run that has ended.
    pub(super) fn show_rest(&mut self, watch: &mut dyn FnMut(&Update<'_>)) {
        for notice in std::mem::take(&mut self.notices) {
            if let Notice::Run(what) = notice {
                watch(&Update::Notice(&what));
            }
        }
    }

    fn show_change(
        &mut self,
        schedule: &mut Schedule,
        logs: &Path,
        change: &Transition,
        watch: &mut dyn FnMut(&Update<'_>),
    ) {
        let Transition { at, work, attempt, from, to } = *change;
        let state = to.state();
        let submitted = from.is_none() && !state.is_terminal();
        if from == Some(state) || submitted {
            return;
        }
        let why = self.reason(schedule, change);
        let step = schedule.step(work).name.as_str();
        let log = log_path(logs, Grant { work, attempt }, step);
        let by_finally = state == WorkState::Failed && self.failed_finally.remove(&(work, attempt));
        let finally_log = by_finally.then(|| finally_log(&log));
        // A successful attempt without output has no log, however its step ended. Who shows the run finds out
        // what other machines have.
        let is_elsewhere = self.logs == LogPlace::Anywhere;
        let well = matches!(state, WorkState::Running | WorkState::Success);
        let log = (attempt > 0 && !is_old(from, state)).then_some(log);
        let log = log.filter(|log| well || is_elsewhere || log.exists());
        let skipped = to == Phase::Skipped;
        let due_nanos = match to {
            Phase::Delayed { due } => Some(due.as_nanos()),
            _ => None,
        };
        watch(&Update::Changed(Change {
            step,
            state,
            attempt,
            most_attempts: schedule.most_attempts(work),
            at_nanos: at.as_nanos(),
            log,
            finally_log,
            skipped,
            due_nanos,
            why,
        }));
    }

    /// Returns why a step has changed its state. Only ends have reasons. A start may be shown together
    /// with the end that follows it, and a retry together with the block that follows it.
    fn reason(&mut self, schedule: &mut Schedule, change: &Transition) -> Option<String> {
        let Transition { work, attempt, to, .. } = *change;
        let why = match to.state() {
            WorkState::Running => None,
            WorkState::Pending if self.lost.remove(&(work, attempt)) => {
                Some(format!("attempt {attempt} was interrupted"))
            }
            _ => self.reasons.remove(&(work, attempt)),
        };
        match to {
            Phase::Blocked => why.or_else(|| schedule.why_blocked(work)),
            _ => why,
        }
    }
}

/// Returns whether the end of the latest attempt was shown before the step changed its state: a user has
/// retried the step, or the step ended while it waited.
fn is_old(from: Option<WorkState>, to: WorkState) -> bool {
    match from {
        Some(WorkState::Pending) => matches!(to, WorkState::Blocked | WorkState::Cancelled),
        from => from.is_some_and(WorkState::is_terminal),
    }
}

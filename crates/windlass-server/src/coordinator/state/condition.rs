//! What steps wait for besides the steps before them: conditions, checked one after the other.
//!
//! Before a step those are its `when` and its guards, behind it what it has to ensure. When to check
//! again is decided by a [`GuardPoll`] for each step. Checks themselves are ordered from [`Attempts`], so
//! this object runs nothing and knows no clock: many steps can wait, and cost something only when an
//! event, a user's decision or the time comes.
//!
//! [`Attempts`]: crate::coordinator::attempts::Attempts

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use windlass_core::{Grant, Timestamp, WorkId};
use windlass_store::{Decision, Event, GuardWait};
use windlass_workflow::{Guard, GuardAction};

use super::super::attempts::CheckEnd;
use crate::clock::millis;
use crate::command::{CommandSpec, ConditionSpec, ResolveError};
use crate::guard::{CheckResult, GuardPoll, NotYet, PollStep, UsedUp, Verdict};

mod wait;

use self::wait::Wait;

/// How many checks may run at a time; the others wait for their turn.
const MOST_CHECKS: usize = 32;
/// How long a check of `when` may take.
const WHEN_LIMIT: Duration = Duration::from_secs(60);

/// Where the conditions of a step stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Before it starts.
    Before,
    /// After its command has succeeded.
    After,
}

/// One condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// Whether the step is needed.
    When,
    /// A guard, by its place in the plan.
    Guard(usize),
}

/// The result of the conditions of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Conclusion {
    /// All of them hold.
    Passed,
    /// The step is not needed.
    Skip,
    /// One of them never will, for this reason.
    Failed(String),
}

/// What happens while steps wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConditionNews {
    /// The conditions of a step are decided.
    Concluded(WorkId, Side, Conclusion),
    /// A condition does not hold yet.
    NotYet(WorkId),
    /// A guard has used up its time or its checks, and is still checked.
    Blocked(WorkId, UsedUp),
    /// A guard has used up its time or its checks, and a user has to decide.
    Escalated(WorkId, UsedUp),
}

/// The conditions of one step in the order in which they are checked.
pub(super) type Specs = VecDeque<(Condition, Result<ConditionSpec, ResolveError>)>;

/// A check that is to be started.
#[derive(Debug)]
pub(super) struct CheckStart {
    pub(super) work: WorkId,
    pub(super) round: u64,
    pub(super) command: CommandSpec,
    pub(super) limit: Duration,
}

/// All steps that wait for conditions.
pub(super) struct Conditions {
    guards: Vec<Guard>,
    waits: BTreeMap<WorkId, Wait>,
    /// When to check the conditions of which step.
    due: BTreeSet<(Timestamp, WorkId)>,
    /// How many checks run, also those that were stopped and have not ended.
    running: usize,
    /// How many steps may be woken by events.
    heeding: usize,
    /// What users have decided about guards, by step and attempt.
    decided: BTreeMap<(WorkId, u32, String), Verdict>,
    /// The number of the last check.
    round: u64,
    starts: Vec<CheckStart>,
    /// Running checks whose results are not needed any more.
    stops: Vec<(WorkId, u64)>,
}

impl Conditions {
    pub(super) fn new(guards: Vec<Guard>) -> Self {
        Self {
            guards,
            waits: BTreeMap::new(),
            due: BTreeSet::new(),
            running: 0,
            heeding: 0,
            decided: BTreeMap::new(),
            round: 0,
            starts: Vec::new(),
            stops: Vec::new(),
        }
    }

    /// Has a step wait from now on, before or after this attempt; it has at least one condition.
    pub(super) fn begin(&mut self, of: Grant, side: Side, specs: Specs, now: Timestamp) {
        self.forget(of.work);
        let wait = Wait::new(side, of.attempt, specs, now);
        self.heeding += usize::from(wait.heeding);
        self.waits.insert(of.work, wait);
        self.schedule(of.work, Some(now));
    }

    /// Counts a check that an earlier scheduler has started. Its result is not needed.
    pub(super) fn note_stray(&mut self, round: u64) {
        self.round = self.round.max(round);
        self.running += 1;
    }

    /// Has a step wait no more, and stops its check.
    pub(super) fn forget(&mut self, work: WorkId) {
        self.schedule(work, None);
        if let Some(wait) = self.waits.remove(&work) {
            self.heeding -= usize::from(wait.heeding);
            self.stops.extend(wait.check.map(|round| (work, round)));
        }
    }

    /// Returns where a step waits, if it does.
    pub(super) fn side(&self, work: WorkId) -> Option<Side> {
        self.waits.get(&work).map(|wait| wait.side)
    }

    /// Returns the steps that wait on that side.
    pub(super) fn waiting(&self, side: Side) -> Vec<WorkId> {
        let waits = self.waits.iter().filter(|(_, wait)| wait.side == side);
        waits.map(|(work, _)| *work).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// Returns whether an event may wake a step that waits.
    pub(super) fn heeds_events(&self) -> bool {
        self.heeding > 0
    }

    /// Returns when to check again if nothing happens first.
    pub(super) fn next_look(&self) -> Option<Timestamp> {
        // While all checks run there is nothing to do before one ends.
        self.due.first().map(|(at, _)| *at).filter(|_| self.running < MOST_CHECKS)
    }

    /// Returns what a step waits for, as it is stored and shown.
    pub(super) fn shown(&self, work: WorkId) -> Option<GuardWait> {
        let wait = self.waits.get(&work)?;
        let (condition, _) = wait.specs.front()?;
        let guard = match condition {
            Condition::When => "when".to_owned(),
            Condition::Guard(place) => self.guards[*place].name.clone(),
        };
        Some(GuardWait {
            work,
            guard,
            since_ms: millis(wait.since),
            checks: wait.checks,
            last_result: wait.said.clone(),
            escalated: wait.escalated,
        })
    }

    /// Takes the checks that are to be started.
    pub(super) fn take_starts(&mut self) -> Vec<CheckStart> {
        std::mem::take(&mut self.starts)
    }

    /// Takes the checks that are to be stopped, each as its step and its number.
    pub(super) fn take_stops(&mut self) -> Vec<(WorkId, u64)> {
        std::mem::take(&mut self.stops)
    }

    /// Looks at every step that is due at `now`: begins checks, and returns what is decided without
    /// one.
    pub(super) fn look(&mut self, now: Timestamp) -> Vec<ConditionNews> {
        let mut news = Vec::new();
        while self.running < MOST_CHECKS
            && let Some(&(_, work)) = self.due.first().filter(|(at, _)| *at <= now)
        {
            self.schedule(work, None);
            news.extend(self.look_at(work, now));
        }
        news
    }

    fn look_at(&mut self, work: WorkId, now: Timestamp) -> Option<ConditionNews> {
        if let Some(verdict) = self.verdict(work) {
            return self.settle(work, verdict, now);
        }
        let wait = self.waits.get_mut(&work)?;
        let (condition, spec) = wait.specs.front()?;
        if let Err(unresolved) = spec {
            let why = unresolved.to_string();
            return self.conclude(work, Conclusion::Failed(why));
        }
        let step = match condition {
            Condition::When => PollStep::Check { limit: WHEN_LIMIT },
            Condition::Guard(place) => {
                wait.poll.get_or_insert_with(|| GuardPoll::new(&self.guards[*place], now)).step(now)
            }
        };
        match step {
            PollStep::Check { limit } => self.check(work, limit),
            PollStep::Wait { until } => {
                self.schedule(work, until);
                None
            }
            PollStep::TimedOut(action) => self.time_out(work, action, now),
        }
    }

    /// Does what a guard says for the case that it has used up its time or its checks.
    fn time_out(
        &mut self,
        work: WorkId,
        action: GuardAction,
        now: Timestamp,
    ) -> Option<ConditionNews> {
        let wait = self.waits.get_mut(&work)?;
        let used_up = wait.poll.as_ref()?.used_up(now);
        if action == GuardAction::Fail {
            let why = wait.in_words(&self.guards, &used_up.to_string());
            return self.conclude(work, Conclusion::Failed(why));
        }
        wait.escalated = action == GuardAction::Escalate;
        let news = if wait.escalated { ConditionNews::Escalated } else { ConditionNews::Blocked };
        self.schedule(work, Some(now));
        Some(news(work, used_up))
    }

    /// Begins a check.
    fn check(&mut self, work: WorkId, limit: Duration) -> Option<ConditionNews> {
        let wait = self.waits.get_mut(&work)?;
        let (_, spec) = wait.specs.front()?;
        let command = spec.as_ref().ok()?.command.clone();
        self.round += 1;
        self.running += 1;
        (wait.check, wait.woken) = (Some(self.round), false);
        wait.checks += 1;
        self.starts.push(CheckStart { work, round: self.round, command, limit });
        None
    }

    /// Takes in the end of a check. It counts unless the step has stopped waiting for it.
    pub(super) fn checked(
        &mut self,
        work: WorkId,
        round: u64,
        end: CheckEnd,
        now: Timestamp,
    ) -> Option<ConditionNews> {
        self.running -= 1;
        let wait = self.waits.get_mut(&work).filter(|wait| wait.check == Some(round))?;
        wait.check = None;
        let condition = wait.specs.front()?.0;
        match (end, condition) {
            (CheckEnd::Stopped, _) => None,
            (CheckEnd::Result(CheckResult::Passed), _) => self.pass(work, now),
            (CheckEnd::Result(CheckResult::NotYet(NotYet::Exit { .. })), Condition::When) => {
                self.conclude(work, Conclusion::Skip)
            }
            (CheckEnd::Result(CheckResult::NotYet(why)), Condition::When) => {
                let why = format!("when: {why}");
                self.conclude(work, Conclusion::Failed(why))
            }
            (CheckEnd::Result(CheckResult::NotYet(why)), Condition::Guard(_)) => {
                wait.not_yet(&why, now);
                self.schedule(work, Some(now));
                Some(ConditionNews::NotYet(work))
            }
            (CheckEnd::Result(CheckResult::Broken(why)), _) => {
                let why = wait.in_words(&self.guards, &why.to_string());
                self.conclude(work, Conclusion::Failed(why))
            }
            (CheckEnd::Failed(error), _) => {
                let why = wait.in_words(&self.guards, &format!("cannot be checked: {error}"));
                self.conclude(work, Conclusion::Failed(why))
            }
        }
    }

    /// Has a condition checked again whose check was lost. That check does not count.
    pub(super) fn check_lost(&mut self, work: WorkId, round: u64, now: Timestamp) {
        self.running -= 1;
        let wait = self.waits.get_mut(&work).filter(|wait| wait.check == Some(round));
        if let Some(wait) = wait {
            wait.check = None;
            wait.checks -= 1;
            self.schedule(work, Some(now));
        }
    }

    /// Notes what users have decided about guards, also about those that no step waits for yet.
    pub(super) fn note(&mut self, decisions: &[Decision]) {
        for Decision { work, attempt, guard, verdict, .. } in decisions {
            if let Some(verdict) = Verdict::of_word(verdict) {
                self.decided.insert((*work, *attempt, guard.clone()), verdict);
            }
        }
    }

    /// Forgets what was decided about the guards of a step. Returns whether anything was.
    pub(super) fn forget_decisions(&mut self, work: WorkId) -> bool {
        let before = self.decided.len();
        self.decided.retain(|(of, ..), _| *of != work);
        self.decided.len() < before
    }

    /// Has the guards that steps wait for and that were decided pass or fail, without another check.
    pub(super) fn heed_decisions(&mut self, now: Timestamp) -> Vec<ConditionNews> {
        let waiting: Vec<_> = self.waits.keys().copied().collect();
        let news = waiting.into_iter().filter_map(|work| {
            let verdict = self.verdict(work)?;
            self.settle(work, verdict, now)
        });
        news.collect()
    }

    /// Returns what was decided about the guard that a step waits for.
    fn verdict(&self, work: WorkId) -> Option<Verdict> {
        let wait = self.waits.get(&work).filter(|_| !self.decided.is_empty())?;
        let (Condition::Guard(place), _) = wait.specs.front()? else { return None };
        let guard = self.guards[*place].name.clone();
        self.decided.get(&(work, wait.attempt, guard)).copied()
    }

    /// Has the guard that a step waits for pass or fail.
    fn settle(&mut self, work: WorkId, verdict: Verdict, now: Timestamp) -> Option<ConditionNews> {
        let wait = self.waits.get(&work)?;
        match verdict {
            Verdict::Approve => self.pass(work, now),
            Verdict::Reject => {
                let why = wait.in_words(&self.guards, "rejected");
                self.conclude(work, Conclusion::Failed(why))
            }
        }
    }

    /// Has the conditions of the steps that wait for one of these events checked at once.
    pub(super) fn wake(&mut self, events: &[Event], now: Timestamp) {
        let heeds = |wait: &Wait| events.iter().any(|event| wait.heeds(&event.name));
        let woken: Vec<_> =
            self.waits.iter().filter(|(_, wait)| heeds(wait)).map(|(work, _)| *work).collect();
        for work in woken {
            let Some(wait) = self.waits.get_mut(&work) else { continue };
            if wait.check.is_some() {
                wait.woken = true;
            } else if let Some(poll) = &mut wait.poll {
                poll.wake(now);
                self.schedule(work, Some(now));
            }
        }
    }

    /// Goes on to the next condition of a step, or concludes that all of them hold.
    fn pass(&mut self, work: WorkId, now: Timestamp) -> Option<ConditionNews> {
        let wait = self.waits.get_mut(&work)?;
        wait.specs.pop_front();
        if wait.specs.is_empty() {
            return self.conclude(work, Conclusion::Passed);
        }
        self.stops.extend(wait.check.take().map(|round| (work, round)));
        (wait.poll, wait.said, wait.checks) = (None, None, 0);
        (wait.since, wait.escalated, wait.woken) = (now, false, false);
        self.schedule(work, Some(now));
        None
    }

    fn conclude(&mut self, work: WorkId, conclusion: Conclusion) -> Option<ConditionNews> {
        let side = self.side(work)?;
        self.forget(work);
        Some(ConditionNews::Concluded(work, side, conclusion))
    }

    fn schedule(&mut self, work: WorkId, at: Option<Timestamp>) {
        let Some(wait) = self.waits.get_mut(&work) else { return };
        if let Some(before) = std::mem::replace(&mut wait.due, at) {
            self.due.remove(&(before, work));
        }
        self.due.extend(at.map(|at| (at, work)));
    }
}

//! What steps wait for besides the steps before them: conditions, checked one after the other.
//!
//! Before a step those are its `when` and its guards, behind it what it has to ensure. A check is a
//! process without a slot. When to look again is a [`Vigil`]'s affair, so many steps can wait at
//! once, and cost something only when an event, a person or the time comes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, PipeWriter};
use std::thread;
use std::time::Duration;

use windlass_core::{Timestamp, WorkId};
use windlass_store::{Event, GuardWait};
use windlass_workflow::{Guard, GuardAction};

use super::News;
use crate::clock::millis;
use crate::command::{ConditionSpec, ResolveError};
use crate::guard::{
    Check, CheckResult, NotYet, UsedUp, Verdict, Vigil, VigilStep, check_until_closed,
};
use crate::mailbox::Sender;

/// How many checks may run at a time; the others wait for their turn.
const MOST_CHECKS: usize = 32;
/// How long it may take to find out whether a step is needed.
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

/// What became of the conditions of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Conclusion {
    /// All of them hold.
    Passed,
    /// The step is not needed.
    Skip,
    /// One of them never will.
    Failed(String),
}

/// What happens while steps wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// It is decided.
    Concluded(WorkId, Side, Conclusion),
    /// It does not hold yet.
    NotYet(WorkId),
    /// It has used that up, and is still checked.
    Blocked(WorkId, UsedUp),
    /// It has used that up, and a person has to decide.
    Escalated(WorkId, UsedUp),
}

/// What the conditions of one step are checked with, in order.
pub(super) type Orders = VecDeque<(Condition, Result<ConditionSpec, ResolveError>)>;

/// All steps that wait for conditions.
pub(super) struct Conditions {
    waits: BTreeMap<WorkId, Wait>,
    /// When to look at which.
    due: BTreeSet<(Timestamp, WorkId)>,
    checking: usize,
    /// How many may depend on events.
    heeding: usize,
    /// Tells one check from another.
    rounds: u64,
    tell: Sender<News>,
    /// The word that marks every process of the run.
    mark: String,
}

struct Wait {
    side: Side,
    /// The condition that it waits for, and those behind it.
    orders: Orders,
    /// One of them may be woken by an event.
    heeding: bool,
    vigil: Option<Vigil>,
    /// The check that runs, ended when this is dropped.
    check: Option<(u64, PipeWriter)>,
    /// An event came while a check ran.
    woken: bool,
    /// When it is to be looked at, if ever.
    due: Option<Timestamp>,
    since: Timestamp,
    checks: u32,
    said: Option<String>,
    escalated: bool,
}

impl Conditions {
    pub(super) fn new(tell: Sender<News>, mark: &str) -> Self {
        let (waits, due, mark) = (BTreeMap::new(), BTreeSet::new(), mark.to_owned());
        Self { waits, due, checking: 0, heeding: 0, rounds: 0, tell, mark }
    }

    /// The step waits from now on; there is at least one condition.
    pub(super) fn begin(&mut self, work: WorkId, side: Side, orders: Orders, now: Timestamp) {
        let wakes = |order: &ConditionSpec| !order.wake_on.is_empty();
        let heeding = orders.iter().any(|(_, order)| order.as_ref().is_ok_and(wakes));
        let wait = Wait {
            side,
            orders,
            heeding,
            vigil: None,
            check: None,
            woken: false,
            due: None,
            since: now,
            checks: 0,
            said: None,
            escalated: false,
        };
        self.forget(work);
        self.heeding += usize::from(wait.heeding);
        self.waits.insert(work, wait);
        self.schedule(work, Some(now));
    }

    /// The step waits no more; a check that runs is ended.
    pub(super) fn forget(&mut self, work: WorkId) {
        self.schedule(work, None);
        if let Some(wait) = self.waits.remove(&work) {
            self.heeding -= usize::from(wait.heeding);
        }
    }

    /// Whether and where the step waits.
    pub(super) fn side(&self, work: WorkId) -> Option<Side> {
        self.waits.get(&work).map(|wait| wait.side)
    }

    /// The steps that wait on that side.
    pub(super) fn waiting(&self, side: Side) -> Vec<WorkId> {
        let waits = self.waits.iter().filter(|(_, wait)| wait.side == side);
        waits.map(|(work, _)| *work).collect()
    }

    /// Whether no step waits for any.
    pub(super) fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// Whether something depends on events.
    pub(super) fn heeds_events(&self) -> bool {
        self.heeding > 0
    }

    /// When to look again if nothing happens first.
    pub(super) fn next_look(&self) -> Option<Timestamp> {
        // Without room for another check there is nothing to do before one ends.
        self.due.first().map(|(at, _)| *at).filter(|_| self.checking < MOST_CHECKS)
    }

    /// What the step waits for, for people.
    pub(super) fn shown(&self, work: WorkId, guards: &[Guard]) -> Option<GuardWait> {
        let wait = self.waits.get(&work)?;
        let (condition, _) = wait.orders.front()?;
        let guard = match condition {
            Condition::When => "when".to_owned(),
            Condition::Guard(place) => guards[*place].name.clone(),
        };
        Some(GuardWait {
            work,
            guard,
            since_ms: millis(wait.since),
            checks: wait.checks,
            said: wait.said.clone(),
            escalated: wait.escalated,
        })
    }

    /// Everything that is due at `now`: checks are begun, and what is decided without one is told.
    pub(super) fn look(&mut self, now: Timestamp, guards: &[Guard]) -> Vec<Told> {
        let mut told = Vec::new();
        while self.checking < MOST_CHECKS
            && let Some(&(_, work)) = self.due.first().filter(|(at, _)| *at <= now)
        {
            self.schedule(work, None);
            told.extend(self.look_at(work, now, guards));
        }
        told
    }

    fn look_at(&mut self, work: WorkId, now: Timestamp, guards: &[Guard]) -> Option<Told> {
        let wait = self.waits.get_mut(&work)?;
        let (condition, order) = wait.orders.front()?;
        if let Err(unready) = order {
            let why = unready.to_string();
            return self.conclude(work, Conclusion::Failed(why));
        }
        let step = match condition {
            Condition::When => VigilStep::Check { limit: WHEN_LIMIT },
            Condition::Guard(place) => {
                wait.vigil.get_or_insert_with(|| Vigil::new(&guards[*place], now)).step(now)
            }
        };
        match step {
            VigilStep::Check { limit } => self.check(work, limit),
            VigilStep::Wait { until } => {
                self.schedule(work, until);
                None
            }
            VigilStep::TimedOut(action) => self.time_out(work, action, now, guards),
        }
    }

    /// A guard has used up its time or its checks.
    fn time_out(
        &mut self,
        work: WorkId,
        action: GuardAction,
        now: Timestamp,
        guards: &[Guard],
    ) -> Option<Told> {
        let wait = self.waits.get_mut(&work)?;
        let used_up = wait.vigil.as_ref()?.used_up(now);
        if action == GuardAction::Fail {
            let why = wait.in_words(guards, &used_up.to_string());
            return self.conclude(work, Conclusion::Failed(why));
        }
        wait.escalated = action == GuardAction::Escalate;
        let told = if wait.escalated { Told::Escalated } else { Told::Blocked };
        self.schedule(work, Some(now));
        Some(told(work, used_up))
    }

    /// Begins a check.
    fn check(&mut self, work: WorkId, limit: Duration) -> Option<Told> {
        let wait = self.waits.get_mut(&work)?;
        let (_, order) = wait.orders.front()?;
        let order = order.clone().ok()?;
        let (stopped, stop) = match io::pipe() {
            Ok(pipe) => pipe,
            Err(error) => {
                let why = format!("its condition cannot be checked: {error}");
                return self.conclude(work, Conclusion::Failed(why));
            }
        };
        self.rounds += 1;
        let round = self.rounds;
        let (tell, mark) = (self.tell.clone(), format!("{0} {0}-check-{round}", self.mark));
        let checking = thread::Builder::new().spawn(move || {
            let ConditionSpec { script, env, dir, .. } = &order;
            let check = Check { script, env, dir, limit, mark: &mark };
            let result = check_until_closed(&check, &stopped);
            // Nobody listens any more if the run has ended meanwhile.
            let _ = tell.send(News::Checked { work, round, result });
        });
        if let Err(error) = checking {
            let why = format!("its condition cannot be checked: {error}");
            return self.conclude(work, Conclusion::Failed(why));
        }
        self.checking += 1;
        wait.check = Some((round, stop));
        wait.woken = false;
        wait.checks += 1;
        None
    }

    /// A check has ended. What came of it counts unless the step has stopped waiting for it.
    pub(super) fn checked(
        &mut self,
        work: WorkId,
        round: u64,
        result: io::Result<Option<CheckResult>>,
        now: Timestamp,
        guards: &[Guard],
    ) -> Option<Told> {
        self.checking -= 1;
        let wait = self.waits.get_mut(&work)?;
        if wait.check.as_ref().map(|(current, _)| *current) != Some(round) {
            return None;
        }
        wait.check = None;
        let condition = wait.orders.front()?.0;
        match (result, condition) {
            (Ok(None), _) => None,
            (Ok(Some(CheckResult::Passed)), _) => self.pass(work, now),
            (Ok(Some(CheckResult::NotYet(NotYet::Exit { .. }))), Condition::When) => {
                self.conclude(work, Conclusion::Skip)
            }
            (Ok(Some(CheckResult::NotYet(why))), Condition::When) => {
                let why = format!("when: {why}");
                self.conclude(work, Conclusion::Failed(why))
            }
            (Ok(Some(CheckResult::NotYet(why))), Condition::Guard(_)) => {
                wait.not_yet(&why, now);
                self.schedule(work, Some(now));
                Some(Told::NotYet(work))
            }
            (Ok(Some(CheckResult::Broken(why))), _) => {
                let why = wait.in_words(guards, &why.to_string());
                self.conclude(work, Conclusion::Failed(why))
            }
            (Err(error), _) => {
                let why = wait.in_words(guards, &format!("cannot be checked: {error}"));
                self.conclude(work, Conclusion::Failed(why))
            }
        }
    }

    /// A person has decided about the guard that the step waits for, if it waits for one.
    pub(super) fn decide(
        &mut self,
        work: WorkId,
        verdict: Verdict,
        now: Timestamp,
        guards: &[Guard],
    ) -> Option<Told> {
        let wait = self.waits.get(&work)?;
        let (Condition::Guard(_), _) = wait.orders.front()? else { return None };
        match verdict {
            Verdict::Approve => self.pass(work, now),
            Verdict::Reject => {
                let why = wait.in_words(guards, "rejected");
                self.conclude(work, Conclusion::Failed(why))
            }
        }
    }

    /// Whoever waits for one of these events looks again at once.
    pub(super) fn wake(&mut self, events: &[Event], now: Timestamp) {
        let heeds = |wait: &Wait| events.iter().any(|event| wait.heeds(&event.name));
        let woken: Vec<_> =
            self.waits.iter().filter(|(_, wait)| heeds(wait)).map(|(work, _)| *work).collect();
        for work in woken {
            let Some(wait) = self.waits.get_mut(&work) else { continue };
            if wait.check.is_some() {
                wait.woken = true;
            } else if let Some(vigil) = &mut wait.vigil {
                vigil.wake(now);
                self.schedule(work, Some(now));
            }
        }
    }

    /// The condition holds: the next one, or all of them.
    fn pass(&mut self, work: WorkId, now: Timestamp) -> Option<Told> {
        let wait = self.waits.get_mut(&work)?;
        wait.orders.pop_front();
        if wait.orders.is_empty() {
            return self.conclude(work, Conclusion::Passed);
        }
        (wait.vigil, wait.check, wait.said, wait.checks) = (None, None, None, 0);
        (wait.since, wait.escalated, wait.woken) = (now, false, false);
        self.schedule(work, Some(now));
        None
    }

    fn conclude(&mut self, work: WorkId, conclusion: Conclusion) -> Option<Told> {
        let side = self.side(work)?;
        self.forget(work);
        Some(Told::Concluded(work, side, conclusion))
    }

    fn schedule(&mut self, work: WorkId, at: Option<Timestamp>) {
        let Some(wait) = self.waits.get_mut(&work) else { return };
        if let Some(before) = std::mem::replace(&mut wait.due, at) {
            self.due.remove(&(before, work));
        }
        self.due.extend(at.map(|at| (at, work)));
    }
}

impl Wait {
    fn not_yet(&mut self, why: &NotYet, now: Timestamp) {
        self.said = Some(why.to_string());
        let Some(vigil) = &mut self.vigil else { return };
        vigil.not_yet(now);
        if std::mem::take(&mut self.woken) {
            vigil.wake(now);
        }
    }

    fn heeds(&self, event: &str) -> bool {
        let order = self.orders.front().and_then(|(_, order)| order.as_ref().ok());
        order.is_some_and(|order| order.wake_on.iter().any(|pattern| pattern.matches(event)))
    }

    /// What happened to the condition, with what it said last.
    fn in_words(&self, guards: &[Guard], what: &str) -> String {
        let name = match self.orders.front() {
            Some((Condition::Guard(place), _)) => format!("guard {}", guards[*place].name),
            _ => "when".to_owned(),
        };
        match &self.said {
            Some(said) => format!("{name}: {what}; its last check: {said}"),
            None => format!("{name}: {what}"),
        }
    }
}

//! The engine of one run, with the plan it was made from.
//!
//! Collects the facts that the next commit has to store, and the transitions to show once it has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use windlass_core::{
    ClientId, Dependency, Engine, EngineConfig, Extras, Fact, Grant, Happening, Input, Outcome,
    Phase, Precedence, Rejected, Submission, Timestamp, Transition, WorkId, WorkState, World,
};
use windlass_store::RunEnd;
use windlass_workflow::{OnFailure, Plan, Step, StepDependency};

use self::capacity::RunCapacity;
pub(crate) use self::capacity::SharedCapacity;
pub(crate) use self::changes::StepChange;
use self::limits::LimitUsers;
pub(crate) use self::limits::LimitWait;
use crate::clock::Clock;
use crate::outputs;

mod capacity;
mod changes;
mod deadlines;
mod explaining;
mod growth;
mod history;
mod limits;
mod names;
mod placing;
mod reopening;
mod worker_items;

use self::deadlines::RunTimes;
pub(crate) use self::growth::Compaction;
use self::growth::Growth;
pub(crate) use self::history::RunHistory;
use self::names::NameQueues;
pub(crate) use self::worker_items::ItemNames;

/// The reason for the failure of a step for which the run has no more time.
pub(crate) const TOO_LATE: &str = "past the deadline of the run";

pub(crate) struct Schedule {
    plan: Plan,
    /// The places of the steps in the plan, by name.
    places: BTreeMap<String, usize>,
    /// The steps behind those of the plan, if the run stays open.
    growth: Option<Growth>,
    engine: Engine,
    capacity: RunCapacity,
    clock: Clock,
    /// The time that counts as the present one, if that is not what the clock shows.
    past: Option<Timestamp>,
    times: RunTimes,
    facts: Vec<Fact>,
    transitions: Vec<Transition>,
    names: NameQueues,
    limit_users: LimitUsers,
    /// Whether one of them waits for a limit.
    waits_for_limits: bool,
    /// The works that have blocked others, as far as a caller has asked.
    blamed: BTreeMap<WorkId, WorkId>,
    /// What attempts on any machine have handed on, by their steps.
    outputs: BTreeMap<WorkId, (u32, BTreeMap<String, String>)>,
}

impl Schedule {
    pub(crate) fn new(plan: Plan) -> Self {
        Self::with_clock(plan, Clock::start())
    }

    pub(crate) fn with_clock(plan: Plan, clock: Clock) -> Self {
        let capacity = RunCapacity::alone(&plan, slots(&plan));
        Self::on(plan, clock, capacity)
    }

    /// Creates the schedule of a run that shares its capacity with others.
    pub(crate) fn sharing(plan: Plan, clock: Clock, capacity: &SharedCapacity) -> Self {
        let capacity = RunCapacity::within(capacity, &plan);
        Self::on(plan, clock, capacity)
    }

    fn on(plan: Plan, clock: Clock, capacity: RunCapacity) -> Self {
        let mut config = EngineConfig::default();
        config.seed = clock.now().as_nanos();
        if plan.steps.is_empty() {
            // Only the plan of a queue has none: its steps start in the order of their numbers.
            config.precedence = Precedence::Submitted;
        }
        let mut places = BTreeMap::new();
        let mut limit_users = LimitUsers::default();
        for (place, step) in plan.steps.iter().enumerate() {
            places.insert(step.name.clone(), place);
            limit_users.add(WorkId::from_index(place), step);
        }
        Self {
            places,
            limit_users,
            plan,
            growth: None,
            engine: Engine::new(config, capacity.client()),
            capacity,
            times: RunTimes::starting(clock.now()),
            clock,
            past: None,
            facts: Vec::new(),
            transitions: Vec::new(),
            waits_for_limits: false,
            names: NameQueues::default(),
            blamed: BTreeMap::new(),
            outputs: BTreeMap::new(),
        }
    }

    /// Submits every step of a new run.
    pub(crate) fn submit_all(&mut self) {
        for place in 0..self.plan.steps.len() {
            self.with_submission(WorkId::from_index(place), |schedule, submission| {
                schedule.call(|engine, world| engine.submit(world, submission))
            })
            .expect("a plan lists every step behind those it follows");
        }
    }

    /// Replays the journal of a resumed run.
    pub(crate) fn replay(&mut self, facts: &[Fact]) {
        self.times.began = facts.first().map_or(self.times.began, |first| first.at);
        for place in 0..self.plan.steps.len() {
            let work = WorkId::from_index(place);
            self.with_submission(work, |schedule, submission| schedule.engine.stage(submission));
        }
        for fact in facts {
            self.expect_fact(fact);
            match fact.what {
                Happening::Started { work, .. } => drop(self.times.starts.insert(work, fact.at)),
                Happening::Reopened { .. } => self.times.reopened = true,
                _ => {}
            }
            self.call_at(fact.at, |engine, world| engine.evolve(world, fact));
        }
        self.transitions.clear();
        // The wall clock may have been set back since, and what is due in a minute has to stay so.
        let last = facts.last().map_or(Timestamp::ZERO, |last| last.at);
        self.clock.catch_up(last);
    }

    /// Applies a fact that another process has journaled, and keeps the transitions that follow from it.
    pub(crate) fn follow(&mut self, fact: &Fact) {
        self.expect_fact(fact);
        if let Happening::Started { work, .. } = fact.what {
            self.times.starts.insert(work, fact.at);
        }
        self.call_at(fact.at, |engine, world| engine.evolve(world, fact));
    }

    /// Goes on to the time at which a replayed run has ended. What follows from the passing of time
    /// alone, such as that a deadline has passed, is in no fact.
    pub(crate) fn replay_end(&mut self, end: RunEnd) {
        // The end is stored in whole milliseconds.
        let at = Timestamp::from_millis(end.at_ms.unsigned_abs()).after(Duration::from_millis(1));
        self.call_at(at, |engine, world| engine.apply(world, Input::Tick)).expect("time passes");
        self.transitions.clear();
    }

    pub(crate) fn step(&self, work: WorkId) -> &Step {
        self.known_step(work).expect("it is one of its works")
    }

    /// Returns a step, unless it is forgotten or was never one of the run.
    pub(crate) fn known_step(&self, work: WorkId) -> Option<&Step> {
        let added = || self.growth.as_ref()?.step(work);
        self.plan.steps.get(work.index()).or_else(added)
    }

    /// Iterates over the works of all steps, in order.
    pub(crate) fn works(&self) -> impl DoubleEndedIterator<Item = WorkId> {
        let planned = (0..self.plan.steps.len()).map(WorkId::from_index);
        planned.chain(self.growth.iter().flat_map(Growth::works))
    }

    /// Notes what an attempt has handed on, which need not be in a file of this machine.
    pub(crate) fn note_outputs(&mut self, grant: Grant, values: BTreeMap<String, String>) {
        self.outputs.insert(grant.work, (grant.attempt, values));
    }

    /// Returns what a step wrote for `key` in the attempt that has succeeded, if it did. Its output was
    /// read before its end was stored, so it can be read.
    pub(crate) fn output(&self, logs: &Path, step: &str, key: &str) -> Option<String> {
        let work = self.called(step)?;
        // The checks of what it has to ensure may need its output before its end.
        let counts =
            |phase: &Phase| *phase == Phase::Success || phase.state() == WorkState::Running;
        self.engine.phase(work).filter(counts)?;
        let attempt = self.engine.attempts(work)?;
        if let Some((_, values)) = self.outputs.get(&work).filter(|(of, _)| *of == attempt) {
            return values.get(key).cloned();
        }
        outputs::read(&outputs::path(logs, Grant { work, attempt }, step)).ok()?.remove(key)
    }

    /// Returns how many steps can run at a time.
    pub(crate) fn at_once(&self) -> usize {
        self.len().min(slots(&self.plan) as usize)
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn len(&self) -> usize {
        self.plan.steps.len() + self.growth.as_ref().map_or(0, Growth::len)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the works in a phase that `fits`.
    pub(crate) fn works_in(&self, fits: impl Fn(Phase) -> bool) -> Vec<WorkId> {
        let fits = |work: &WorkId| self.engine.phase(*work).is_some_and(&fits);
        self.engine.works().filter(fits).collect()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.past.unwrap_or_else(|| self.clock.now())
    }

    /// Has what follows count as if it happened `ago`, until [`Schedule::go_on`].
    pub(crate) fn go_back(&mut self, ago: Duration) {
        let now = self.clock.now();
        self.past = Some(Timestamp::ZERO.after(now.since(Timestamp::ZERO).saturating_sub(ago)));
    }

    /// Has what follows happen at the present time, until [`Schedule::go_on`].
    pub(crate) fn stop_time(&mut self) {
        self.past = Some(self.clock.now());
    }

    /// Has what follows happen now.
    pub(crate) fn go_on(&mut self) {
        self.past = None;
    }

    /// Has at most `slots` steps run at a time from now on.
    pub(crate) fn set_slots(&mut self, slots: u32) {
        self.plan.concurrency = Some(slots);
        self.capacity.set_slots(slots);
        self.apply(Input::RetrySearch).expect("it can always search");
    }

    /// Returns the client of the run in the capacity that it shares with others.
    pub(crate) fn client(&self) -> ClientId {
        self.capacity.client()
    }

    pub(crate) fn apply(&mut self, input: Input) -> Result<(), Rejected> {
        self.call(|engine, world| engine.apply(world, input))
    }

    /// Applies `on_failure` of the plan once a step has failed: leaves the other steps alone, starts
    /// nothing new, or cancels all of them.
    pub(crate) fn apply_on_failure(&mut self) {
        if self.engine.metrics().count(WorkState::Failed) == 0 {
            return;
        }
        match self.plan.on_failure {
            OnFailure::Finish => {}
            OnFailure::Cancel => self.apply(Input::CancelAll).expect("everything can be cancelled"),
            OnFailure::Stop => {
                // Dependents come before their dependencies, so that none is blocked by another.
                for work in self.works_in(|phase| phase.state() == WorkState::Pending).iter().rev()
                {
                    self.apply(Input::Cancel(*work)).expect("it has not ended");
                }
            }
        }
    }

    /// Ends an attempt that was lost as interrupted. When it was lost is unknown, so nothing that has
    /// come due since the last fact comes before it: an interrupted attempt has not timed out.
    pub(crate) fn lose(&mut self, grant: Grant) {
        let lost = Input::Finished { grant, outcome: Outcome::Interrupted };
        let applied = self.call_at(Timestamp::ZERO, |engine, world| engine.apply(world, lost));
        applied.expect("the journal says that it runs");
    }

    /// Returns the works that have begun an attempt.
    pub(crate) fn begun(&self) -> Vec<WorkId> {
        let begun =
            |work: &WorkId| self.engine.attempts(*work).is_some_and(|attempts| attempts > 0);
        self.engine.works().filter(begun).collect()
    }

    /// Returns when the latest attempt of a work began, according to the replayed journal.
    pub(crate) fn began_attempt(&self, work: WorkId) -> Timestamp {
        self.times.starts.get(&work).copied().unwrap_or(self.times.began)
    }

    /// Returns how many attempts a work has at most: those that have begun, the next one if it waits for
    /// it, and its remaining retries. An interruption uses up no retry, and a user's `retry` restores all.
    pub(crate) fn most_attempts(&self, work: WorkId) -> u32 {
        let begun = self.engine.attempts(work).unwrap_or_default();
        let waits = self.engine.phase(work).map(Phase::state) == Some(WorkState::Pending);
        let more = self.engine.retries_left(work).unwrap_or_default();
        // A work that is cancelled while it waits for a retry has used up that retry.
        let planned = self.engine.retries(work).unwrap_or_default().saturating_add(1);
        begun.saturating_add(u32::from(waits)).saturating_add(more).max(planned)
    }

    /// Returns the works that have ended since transitions were last taken.
    pub(crate) fn just_ended(&self) -> BTreeSet<WorkId> {
        let ended = self.transitions.iter().filter(|change| change.to.state().is_terminal());
        ended.map(|change| change.work).collect()
    }

    /// Returns whether only starts and successes have happened since transitions were last taken.
    pub(crate) fn all_is_well(&self) -> bool {
        let well = |phase: Phase| {
            use Phase::{Granted, Ready, Running, Success, Waiting};
            matches!(phase, Waiting | Ready | Granted | Running | Success)
        };
        self.transitions.iter().all(|change| well(change.to))
    }

    /// Returns the work of the step of that name.
    pub(crate) fn called(&self, step: &str) -> Option<WorkId> {
        if let Some(place) = self.places.get(step) {
            return Some(WorkId::from_index(*place));
        }
        // Steps that were added are called by their numbers.
        let work = WorkId::new(step.parse().ok()?)?;
        self.growth.as_ref()?.step(work).map(|_| work)
    }

    pub(crate) fn take_next(&mut self) -> Option<Grant> {
        self.call(Engine::take_next)
    }

    /// Returns the facts that are not committed.
    pub(crate) fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// Takes the facts that are not committed; the caller keeps them until they are.
    pub(crate) fn take_facts(&mut self) -> Vec<Fact> {
        std::mem::take(&mut self.facts)
    }

    /// Returns the transitions since they were last taken.
    pub(crate) fn transitions(&self) -> &[Transition] {
        &self.transitions
    }

    /// Takes the transitions since the last call.
    pub(crate) fn take_transitions(&mut self) -> Vec<Transition> {
        std::mem::take(&mut self.transitions)
    }

    fn with_submission<T>(
        &mut self,
        work: WorkId,
        act: impl FnOnce(&mut Self, Submission<'_>) -> T,
    ) -> T {
        let step = match &self.growth {
            Some(growth) if work.index() >= self.plan.steps.len() => growth.step(work),
            _ => self.plan.steps.get(work.index()),
        };
        let step = step.expect("it is one of its works");
        let cost = self.capacity.cost(&mut self.engine, step);
        let cost = cost.expect("a plan asks only for what there is");
        let after: Vec<_> = step.after.iter().map(dependency).collect();
        let (priority, retries) = (step.priority, step.ending.retry.count);
        let extras = Extras {
            gated: !step.gate.is_open(),
            timeout: step.ending.timeout,
            deadline: self.deadline(),
            retry: Some(step.ending.retry.policy()),
            beside: step
                .after
                .iter()
                .find(|on| on.same_worker)
                .map(|on| WorkId::from_index(on.step)),
            ..Extras::default()
        };
        act(self, Submission { after: &after, cost, priority, retries, extras: Some(&extras) })
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        self.call_at(self.now(), call)
    }

    pub(crate) fn call_at<T>(
        &mut self,
        now: Timestamp,
        call: impl FnOnce(&mut Engine, &mut World<'_>) -> T,
    ) -> T {
        #[cfg(windlass_faults)]
        crate::fault::note_time(now);
        let before = self.transitions.len();
        let Self { engine, capacity, facts, transitions, .. } = self;
        let result = capacity.change(|tree, wakes| {
            let (facts, transitions) = (Some(facts), Some(transitions));
            call(engine, &mut World { now, capacity: tree, facts, transitions, wakes })
        });
        if let Some(growth) = &mut self.growth {
            growth.note(&self.transitions[before..]);
        }
        self.give_items_back(before);
        self.times.done = self.engine.is_done().then(|| self.times.done.unwrap_or(now));
        result
    }
}

fn next_attempt(engine: &Engine, work: WorkId) -> Grant {
    Grant { work, attempt: engine.attempts(work).expect("it is one of its works") + 1 }
}

fn dependency(on: &StepDependency) -> Dependency {
    Dependency { work: WorkId::from_index(on.step), kind: on.kind }
}

/// Returns how many steps may run at a time.
fn slots(plan: &Plan) -> u32 {
    plan.concurrency.unwrap_or_else(cpus)
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        let text = "[step.a]\nrun = 'true'\ntimeout = '1m'\n";
        let file = windlass_workflow::parse("flow.toml", text).expect("it can be read");
        file.bind([]).expect("it has no parameters")
    }

    #[test]
    fn a_timeout_holds_after_the_wall_clock_was_set_back_by_a_day_before_a_resume() {
        let mut before = Schedule::new(plan());
        before.clock.catch_up(before.now().after(Duration::from_secs(86_400)));
        before.submit_all();

        let mut after = Schedule::new(plan());
        after.replay(&before.take_facts());
        let grant = after.take_next().expect("nothing stands in its way");
        after.begin(grant).expect("it was granted");
        let due = after.engine().next_wakeup().expect("it has a timeout");
        assert!(due.since(after.now()) <= Duration::from_secs(60));
    }
}

//! The engine of one run, with the plan it was made from.
//!
//! Collects the facts that the next commit has to store, and the transitions to show once it has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use windlass_core::{
    Amount, CapacityTree, Dependency, EdgeKind, Engine, EngineConfig, Fact, Grant, Happening,
    Input, More, Outcome, Phase, Rate, Rejected, ResourceCost, SLOTS, Submission, Timestamp,
    Transition, WorkId, WorkState, World,
};
use windlass_store::{RunEnd, RunOutcome};
use windlass_workflow::{Edge, EdgeCondition, OnFailure, Plan, ResourceKind, Step};

use crate::clock::Clock;
use crate::outputs;

mod explaining;
mod reopening;

/// Why a step fails for which the whole run has no more time.
pub(crate) const TOO_LATE: &str = "past the deadline of the run";

pub(crate) struct Schedule {
    plan: Plan,
    /// Where the steps stand in it, by name.
    places: BTreeMap<String, usize>,
    engine: Engine,
    capacity: CapacityTree,
    clock: Clock,
    /// When the run began, for its deadline.
    began: Timestamp,
    facts: Vec<Fact>,
    transitions: Vec<Transition>,
    /// The works that a host-wide name has refused.
    refused_works: BTreeSet<WorkId>,
    /// The works that have a place in line for host-wide names: also those that look again and
    /// find no room inside the run.
    queued: BTreeSet<WorkId>,
    /// When the latest attempts that were replayed began.
    starts: BTreeMap<WorkId, Timestamp>,
    /// Something was tried again after the end.
    reopened: bool,
    /// Since when everything has ended.
    done: Option<Timestamp>,
    /// Which works have blocked others, as far as somebody asked.
    blamed: BTreeMap<WorkId, WorkId>,
}

impl Schedule {
    pub(crate) fn new(plan: Plan) -> Self {
        Self::with_clock(plan, Clock::start())
    }

    pub(crate) fn with_clock(plan: Plan, clock: Clock) -> Self {
        let mut capacity = CapacityTree::new(&plan.limits());
        for resource in &plan.resources {
            if let ResourceKind::Rate { rate, burst } = resource.kind {
                let (amount, per) = (Amount::from(rate.count), rate.per);
                let rate = Rate { amount, per, burst: Amount::from(burst) };
                // From the very beginning, so that a resumed run counts the starts it replays at
                // the times at which they were.
                let set =
                    capacity.set_rate(CapacityTree::ROOT, &resource.name, rate, Timestamp::ZERO);
                set.expect("a plan's rates make sense");
            }
        }
        let slots = slots(&plan);
        let slots = ResourceCost::new().with(SLOTS, Amount::from(slots));
        let level = capacity.add_level(CapacityTree::ROOT, &slots);
        let client = capacity.add_client(level);
        let mut config = EngineConfig::default();
        config.seed = clock.now().as_nanos();
        let places = plan.steps.iter().enumerate();
        Self {
            places: places.map(|(place, step)| (step.name.clone(), place)).collect(),
            plan,
            engine: Engine::new(config, client),
            capacity,
            began: clock.now(),
            clock,
            facts: Vec::new(),
            transitions: Vec::new(),
            refused_works: BTreeSet::new(),
            queued: BTreeSet::new(),
            starts: BTreeMap::new(),
            reopened: false,
            done: None,
            blamed: BTreeMap::new(),
        }
    }

    /// Submits every step: the beginning of a new run.
    pub(crate) fn submit_all(&mut self) {
        for place in 0..self.plan.steps.len() {
            self.with_submission(place, |schedule, submission| {
                schedule.call(|engine, world| engine.submit(world, submission))
            })
            .expect("a plan lists every step behind those it follows");
        }
    }

    /// Goes through what is journaled: the beginning of a resumed run.
    pub(crate) fn replay(&mut self, facts: &[Fact]) {
        self.began = facts.first().map_or(self.began, |first| first.at);
        for place in 0..self.plan.steps.len() {
            self.with_submission(place, |schedule, submission| schedule.engine.stage(submission));
        }
        for fact in facts {
            match fact.what {
                Happening::Started { work, .. } => drop(self.starts.insert(work, fact.at)),
                Happening::Reopened { .. } => self.reopened = true,
                _ => {}
            }
            self.call_at(fact.at, |engine, world| engine.evolve(world, fact));
        }
        self.transitions.clear();
        // The wall clock may have been set back since: what is to happen in a minute still does.
        let last = facts.last().map_or(Timestamp::ZERO, |last| last.at);
        self.clock.catch_up(last);
    }

    /// Goes on to the end of a run that was journaled and has ended then: what follows from the passing
    /// of time alone, such as that a deadline has passed, stands in no fact.
    pub(crate) fn replay_end(&mut self, end: RunEnd) {
        // It is told in whole milliseconds.
        let at = Timestamp::from_millis(end.at_ms.unsigned_abs()).after(Duration::from_millis(1));
        self.call_at(at, |engine, world| engine.apply(world, Input::Tick)).expect("time passes");
        self.transitions.clear();
    }

    pub(crate) fn step(&self, work: WorkId) -> &Step {
        &self.plan.steps[work.index()]
    }

    /// What a step wrote for `key` in the attempt that has succeeded, if it did; its output was read
    /// before its end was stored, so it can be read.
    pub(crate) fn output(&self, logs: &Path, step: &str, key: &str) -> Option<String> {
        let place = *self.places.get(step)?;
        let work = WorkId::from_index(place);
        // What it has to ensure may be about that, and is looked at before its end.
        let counts =
            |phase: &Phase| *phase == Phase::Success || phase.state() == WorkState::Running;
        self.engine.phase(work).filter(counts)?;
        let attempt = self.engine.attempts(work)?;
        outputs::read(&outputs::path(logs, Grant { work, attempt }, step)).ok()?.remove(key)
    }

    /// How many steps can run at a time.
    pub(crate) fn at_once(&self) -> usize {
        self.len().min(slots(&self.plan) as usize)
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(crate) fn len(&self) -> usize {
        self.plan.steps.len()
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The works in a phase that `fits`.
    pub(crate) fn works_in(&self, fits: impl Fn(Phase) -> bool) -> Vec<WorkId> {
        let fits = |work: &WorkId| self.engine.phase(*work).is_some_and(&fits);
        self.engine.works().filter(fits).collect()
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn apply(&mut self, input: Input) -> Result<(), Rejected> {
        self.call(|engine, world| engine.apply(world, input))
    }

    /// Once a step has failed for good, the others are left alone, or nothing new starts, or all of
    /// them end, as the plan says.
    pub(crate) fn heed_failures(&mut self) {
        if self.engine.metrics().count(WorkState::Failed) == 0 {
            return;
        }
        match self.plan.on_failure {
            OnFailure::Finish => {}
            OnFailure::Cancel => self.apply(Input::CancelAll).expect("everything can be cancelled"),
            OnFailure::Stop => {
                // Those who wait before those they wait for, so that none is blocked by another.
                for work in self.works_in(|phase| phase.state() == WorkState::Pending).iter().rev()
                {
                    self.apply(Input::Cancel(*work)).expect("it has not ended");
                }
            }
        }
    }

    /// An attempt that the journal says is under way is lost. When is not known, so nothing that has
    /// come due since the last fact comes before it: an interrupted attempt has not timed out.
    pub(crate) fn lose(&mut self, grant: Grant) {
        let lost = Input::Finished { grant, outcome: Outcome::Interrupted };
        let applied = self.call_at(Timestamp::ZERO, |engine, world| engine.apply(world, lost));
        applied.expect("the journal says that it runs");
    }

    /// The works that have begun an attempt.
    pub(crate) fn begun(&self) -> Vec<WorkId> {
        let begun =
            |work: &WorkId| self.engine.attempts(*work).is_some_and(|attempts| attempts > 0);
        self.engine.works().filter(begun).collect()
    }

    /// When the latest attempt of a work began, as far as the journal that was replayed knows.
    pub(crate) fn began_attempt(&self, work: WorkId) -> Timestamp {
        self.starts.get(&work).copied().unwrap_or(self.began)
    }

    /// Which work that failed, or was cancelled, has blocked this one. Cheap for one that is asked
    /// about after those that it follows.
    pub(crate) fn why_blocked(&mut self, work: WorkId) -> Option<String> {
        if self.engine.phase(work) != Some(Phase::Blocked) {
            return None;
        }
        let culprit = self.culprit(work)?;
        self.blamed.insert(work, culprit);
        let cancelled = self.engine.phase(culprit) == Some(Phase::Cancelled);
        let end = if cancelled { "was cancelled" } else { "failed" };
        Some(format!("{} {end}", self.step(culprit).name))
    }

    /// The first work on the way up from a blocked one that is not blocked itself.
    fn culprit(&self, mut blocked: WorkId) -> Option<WorkId> {
        loop {
            let on = self.blocker(blocked)?;
            if self.engine.phase(on) != Some(Phase::Blocked) {
                return Some(on);
            }
            if let Some(known) = self.blamed.get(&on) {
                return Some(*known);
            }
            blocked = on;
        }
    }

    /// A work whose end has blocked this one.
    fn blocker(&self, work: WorkId) -> Option<WorkId> {
        let blocks = |on: &Dependency| match self.engine.phase(on.work) {
            Some(Phase::Blocked | Phase::Cancelled) => on.kind != EdgeKind::Done,
            Some(Phase::Failed) => on.kind == EdgeKind::Success,
            _ => false,
        };
        self.engine.dependencies(work).find(blocks).map(|on| on.work)
    }

    /// Why steps are cancelled though nobody has asked for it: one has failed, and that stops the others.
    pub(crate) fn why_stopped(&self) -> Option<String> {
        let how = match self.plan.on_failure {
            OnFailure::Finish => return None,
            OnFailure::Stop => "stop",
            OnFailure::Cancel => "cancel",
        };
        let mut works = self.engine.works();
        let failed = works.find(|work| self.engine.phase(*work) == Some(Phase::Failed))?;
        Some(format!("{} failed, and on_failure is \"{how}\"", self.step(failed).name))
    }

    /// The works that have ended since transitions were last taken.
    pub(crate) fn just_ended(&self) -> BTreeSet<WorkId> {
        let ended = self.transitions.iter().filter(|change| change.to.state().is_terminal());
        ended.map(|change| change.work).collect()
    }

    /// Whether nothing has happened since transitions were last taken but starts and good ends.
    pub(crate) fn all_is_well(&self) -> bool {
        let well = |phase: Phase| {
            use Phase::{Granted, Ready, Running, Success, Waiting};
            matches!(phase, Waiting | Ready | Granted | Running | Success)
        };
        self.transitions.iter().all(|change| well(change.to))
    }

    /// Whether the deadline of the run has passed.
    pub(crate) fn is_too_late(&self) -> bool {
        self.is_past_deadline(self.now())
    }

    /// A run that was tried again has no deadline.
    fn is_past_deadline(&self, at: Timestamp) -> bool {
        !self.reopened && self.deadline().is_some_and(|deadline| at >= deadline)
    }

    /// How a run ends in which everything has ended, as far as its steps tell.
    pub(crate) fn outcome(&self) -> RunOutcome {
        let count = |state| self.engine.metrics().count(state);
        let bad = count(WorkState::Failed) + count(WorkState::Blocked);
        match count(WorkState::Success) == self.len() {
            true => RunOutcome::Succeeded,
            false if self.done.is_some_and(|at| self.is_past_deadline(at)) => RunOutcome::TooLate,
            false if bad == 0 => RunOutcome::Cancelled,
            false => RunOutcome::Failed,
        }
    }

    /// The works that a step's name stands for.
    pub(crate) fn called(&self, step: &str) -> Option<WorkId> {
        self.places.get(step).map(|place| WorkId::from_index(*place))
    }

    pub(crate) fn take_next(&mut self) -> Option<Grant> {
        self.call(Engine::take_next)
    }

    /// The granted work cannot begin: a host-wide name refused it.
    pub(crate) fn refuse(&mut self, grant: Grant) -> Result<(), Rejected> {
        self.apply(Input::Refuse(grant))?;
        self.refused_works.insert(grant.work);
        self.queued.insert(grant.work);
        Ok(())
    }

    /// The granted work begins: whatever it stood in line for, it has.
    pub(crate) fn begin(&mut self, grant: Grant) -> Result<(), Rejected> {
        self.apply(Input::Begin(grant))?;
        self.queued.remove(&grant.work);
        Ok(())
    }

    /// Whether a work waits for a host-wide name that has refused it.
    pub(crate) fn waits_outside(&self) -> bool {
        !self.refused_works.is_empty()
    }

    /// Gives up the places in line of the works in a phase that `fits`; the attempts that had them.
    pub(crate) fn leave_queues(&mut self, fits: impl Fn(Phase) -> bool) -> Vec<Grant> {
        let engine = &self.engine;
        let leaves = |work: &WorkId| fits(engine.phase(*work).expect("it is one of its works"));
        let leave = self.queued.extract_if(.., leaves);
        leave.map(|work| next_attempt(engine, work)).collect()
    }

    /// The attempts that a host-wide name has refused, unless their works have ended meanwhile.
    pub(crate) fn refused(&mut self) -> Vec<Grant> {
        let engine = &self.engine;
        self.refused_works.retain(|work| engine.phase(*work) == Some(Phase::Ticketed));
        self.refused_works.iter().map(|work| next_attempt(engine, *work)).collect()
    }

    /// Has a work that was refused look again.
    pub(crate) fn wake(&mut self, work: WorkId) {
        self.refused_works.remove(&work);
        self.apply(Input::Ring(work)).expect("it was refused before");
    }

    /// The facts that are not committed.
    pub(crate) fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// Takes the facts that are not committed; the caller keeps them until they are.
    pub(crate) fn take_facts(&mut self) -> Vec<Fact> {
        std::mem::take(&mut self.facts)
    }

    /// The transitions that nobody has taken so far.
    pub(crate) fn transitions(&self) -> &[Transition] {
        &self.transitions
    }

    /// The transitions since the last call.
    pub(crate) fn take_transitions(&mut self) -> Vec<Transition> {
        std::mem::take(&mut self.transitions)
    }

    fn with_submission<T>(
        &mut self,
        place: usize,
        act: impl FnOnce(&mut Self, Submission<'_>) -> T,
    ) -> T {
        let step = &self.plan.steps[place];
        let cost = self.engine.cost(&self.capacity, &step.uses);
        let cost = cost.expect("a plan asks only for what there is");
        let after: Vec<_> = step.after.iter().map(dependency).collect();
        let (priority, retries) = (step.priority, step.retry.count);
        let more = More {
            gated: step.when.is_some() || !step.guards.is_empty(),
            timeout: step.timeout,
            deadline: self.deadline(),
            retry: Some(step.retry.policy()),
            ..More::default()
        };
        act(self, Submission { after: &after, cost, priority, retries, more: Some(&more) })
    }

    /// Until when an attempt of `work` that begins now has time, in seconds since 1970.
    pub(crate) fn until(&self, work: WorkId) -> Option<u64> {
        let own = self.step(work).timeout.map(|timeout| self.now().after(timeout));
        let whole = self.deadline().filter(|_| !self.reopened);
        let until = own.into_iter().chain(whole).min()?;
        Some(until.since(Timestamp::ZERO).as_secs())
    }

    /// When the whole run has to be over.
    pub(crate) fn deadline(&self) -> Option<Timestamp> {
        self.plan.deadline.map(|deadline| self.began.after(deadline))
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        self.call_at(self.clock.now(), call)
    }

    pub(crate) fn call_at<T>(
        &mut self,
        now: Timestamp,
        call: impl FnOnce(&mut Engine, &mut World<'_>) -> T,
    ) -> T {
        #[cfg(windlass_faults)]
        crate::fault::note_time(now);
        // The tree is private, so there is nobody else to wake.
        let mut wakes = Vec::new();
        let mut world = World {
            now,
            capacity: &mut self.capacity,
            facts: Some(&mut self.facts),
            transitions: Some(&mut self.transitions),
            wakes: &mut wakes,
        };
        let result = call(&mut self.engine, &mut world);
        self.done = self.engine.is_done().then(|| self.done.unwrap_or(now));
        result
    }
}

fn next_attempt(engine: &Engine, work: WorkId) -> Grant {
    Grant { work, attempt: engine.attempts(work).expect("it is one of its works") + 1 }
}

fn dependency(edge: &Edge) -> Dependency {
    let kind = match edge.condition {
        EdgeCondition::Success => EdgeKind::Success,
        EdgeCondition::Done => EdgeKind::Done,
        EdgeCondition::Failed => EdgeKind::Failed,
    };
    Dependency { work: WorkId::from_index(edge.step), kind }
}

/// How many steps may run at a time.
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
    fn a_timeout_is_kept_though_the_wall_clock_was_set_back_by_a_day_before_the_run_went_on() {
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

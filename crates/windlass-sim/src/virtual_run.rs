//! Runs a scenario on the bare engine, in virtual time.
//!
//! The engine gets one input at a time, and after each it is asked for all grants: what any driver does,
//! without threads or clocks.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::{
    Amount, CapacityTree, CostError, Dependency, EdgeKind, Engine, EngineConfig, Extras, Grant,
    Input, LevelId, Outcome, Phase, SLOTS, StopReason, Submission, Timestamp, Transition, WorkId,
    World,
};

use crate::scenario::{Action, Body, End, Entry, Scenario, Trace, WorkPlan};

mod bodies;

use bodies::{Bodies, Next};

/// More steps than any scenario needs: one that takes more does not end.
const MOST_STEPS: u32 = 10_000;

/// Runs `scenario` to its end and returns its trace.
///
/// # Panics
///
/// Panics if the engine breaks one of its invariants, or a work never ends.
#[must_use]
pub fn run(scenario: &Scenario) -> Trace {
    let mut run = VirtualRun::new(scenario);
    let mut steps = 0;
    while let Some(at) = run.next_time() {
        run.now = run.now.max(at);
        let before = run.progress();
        run.step();
        run.start_what_fits();
        let stuck = run.progress() == before && run.next_time().is_some_and(|next| next <= at);
        assert!(!stuck, "{}: the wake-up at {at} changes nothing", scenario.name);
        steps += 1;
        assert!(steps < MOST_STEPS, "{}: at {at} still no end", scenario.name);
    }
    assert!(run.engine.is_done(), "{}: nothing is left to happen", scenario.name);
    run.capacity.check();
    run.trace()
}

struct VirtualRun<'a> {
    scenario: &'a Scenario,
    engine: Engine,
    capacity: CapacityTree,
    now: Timestamp,
    bodies: Bodies,
    /// The index of the next action of the scenario.
    action: usize,
    /// The works by index; none for one that was refused or is not submitted yet.
    works: Vec<Option<WorkId>>,
    /// How many grants of each work were handed back, by index.
    handed_back: Vec<u32>,
    transitions: Vec<Transition>,
    refusals: Vec<(Timestamp, String)>,
}

impl<'a> VirtualRun<'a> {
    fn new(scenario: &'a Scenario) -> Self {
        let mut capacity = CapacityTree::new(&scenario.limits.root);
        for (name, rate) in &scenario.limits.rates {
            let set = capacity.set_rate(CapacityTree::ROOT, name, *rate, Timestamp::ZERO);
            set.unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        }
        for (name, quota) in &scenario.limits.quotas {
            let set = capacity.set_quota(CapacityTree::ROOT, name, *quota, Timestamp::ZERO);
            set.unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        }
        let team = scenario.limits.team.clone().with(SLOTS, Amount::from(scenario.limits.slots));
        let level = capacity.add_level(CapacityTree::ROOT, &team);
        let client = capacity.add_client(level);
        let mut config = EngineConfig::default();
        config.ageing = scenario.ageing;
        config.order = scenario.order;
        Self {
            scenario,
            engine: Engine::new(config, client),
            capacity,
            now: Timestamp::ZERO,
            bodies: Bodies::default(),
            action: 0,
            works: vec![None; scenario.works.len()],
            handed_back: vec![0; scenario.works.len()],
            transitions: Vec::new(),
            refusals: Vec::new(),
        }
    }

    fn next_time(&self) -> Option<Timestamp> {
        let body = self.bodies.next_time();
        let action = self.scenario.actions.get(self.action).map(|(at, _)| *at);
        [body, action, self.engine.next_wakeup()].into_iter().flatten().min()
    }

    /// Returns counters that change with every event except the passing of time.
    fn progress(&self) -> (usize, usize, usize, usize) {
        (self.action, self.transitions.len(), self.bodies.steps(), self.refusals.len())
    }

    /// Does one step: an action, a step of a body, or the passing of time. All submissions of one instant
    /// happen together.
    fn step(&mut self) {
        if let Some((_, action)) = self.due_action() {
            self.action += 1;
            self.act(action);
            while let Some((_, action @ Action::Submit(_))) = self.due_action() {
                self.action += 1;
                self.act(action);
            }
        } else if let Some((grant, next)) = self.bodies.due(self.now) {
            self.step_body(grant, next);
        } else {
            self.call(|engine, world| engine.apply(world, Input::Tick)).expect("time passes");
        }
        self.drop_bodies();
        self.end_attempts();
    }

    /// Does the next step of a body.
    fn step_body(&mut self, grant: Grant, next: Next) {
        match next {
            Next::Suspend(wait) => {
                let until = self.now.after(wait.to.saturating_sub(wait.from));
                self.bodies.plan(until, grant, Next::ResumeRequested);
                self.apply("suspend", grant.work, Input::Suspend(grant));
            }
            Next::ResumeRequested => {
                self.bodies.wait_for_turn(grant);
                self.apply("wake", grant.work, Input::ResumeRequested(grant));
            }
            Next::Return => {
                self.bodies.returned.push(grant);
                if self.engine.children(grant.work).open() > 0 {
                    self.apply("join", grant.work, Input::Join(grant));
                }
            }
        }
    }

    /// Drops the bodies whose timeout or deadline has passed, and ends those that were cancelled while
    /// suspended.
    fn drop_bodies(&mut self) {
        for grant in self.bodies.all() {
            let why = match self.engine.phase(grant.work) {
                Some(Phase::Cancelling { why, .. }) => why,
                _ => continue,
            };
            if why != StopReason::Cancel || self.bodies.waits(grant) {
                self.bodies.remove(grant);
                self.bodies.returned.push(grant);
            }
        }
    }

    /// Ends the attempts whose bodies have returned and whose children have ended.
    fn end_attempts(&mut self) {
        while let Some(grant) = self.next_to_end() {
            let outcome = self.outcome(grant);
            self.apply("end", grant.work, Input::Finished { grant, outcome });
        }
    }

    fn next_to_end(&mut self) -> Option<Grant> {
        let can_end = |grant: &Grant| self.engine.children(grant.work).open() == 0;
        let place = self.bodies.returned.iter().position(can_end)?;
        Some(self.bodies.returned.remove(place))
    }

    fn due_action(&self) -> Option<&'a (Timestamp, Action)> {
        self.scenario.actions.get(self.action).filter(|(at, _)| *at <= self.now)
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Submit(place) => self.submit(*place),
            Action::Limit(name, amount) => self.set_limit(CapacityTree::ROOT, name, *amount),
            Action::Team(name, amount) => {
                self.set_limit(self.capacity.level_of(self.engine.client()), name, *amount);
            }
            Action::Depend(work, on, kind) => self.depend(*work, *on, *kind),
            Action::Cancel(place) => self.act_on("cancel", *place, Input::Cancel),
            Action::Forget(place) => self.act_on("forget", *place, Input::Forget),
            Action::Open(place) => self.act_on("open", *place, Input::Open),
            Action::Reject(place) => self.act_on("reject", *place, Input::Reject),
            Action::Skip(place) => self.act_on("skip", *place, Input::Skip),
            Action::StopChildren(place) => {
                self.act_on("stop-children", *place, Input::StopChildren);
            }
            Action::Reopen(place) => self.act_on("reopen", *place, Input::Reopen),
            Action::Pause(place) => self.act_on("pause", *place, Input::Pause),
            Action::Unpause(place) => self.act_on("unpause", *place, Input::Unpause),
            Action::PauseAll => self.apply_to_all(Input::PauseAll),
            Action::UnpauseAll => self.apply_to_all(Input::UnpauseAll),
            Action::Wake(place) => self.wake(*place),
            Action::Late(place, attempt) => self.act_on("late", *place, |work| {
                let grant = Grant { work, attempt: *attempt };
                Input::Finished { grant, outcome: Outcome::Success }
            }),
            Action::Ring(place) => {
                if let Some(work) = self.works[*place] {
                    // The engine rejects it if the work was not refused; that is fine.
                    let _ = self.call(|engine, world| engine.apply(world, Input::Notify(work)));
                }
            }
        }
    }

    fn apply_to_all(&mut self, input: Input) {
        self.call(|engine, world| engine.apply(world, input)).expect("it is always allowed");
    }

    fn act_on(&mut self, verb: &str, place: usize, input: impl Fn(WorkId) -> Input) {
        if let Some(work) = self.works[place] {
            self.apply(verb, work, input(work));
        }
    }

    fn wake(&mut self, place: usize) {
        let waiting = self
            .bodies
            .all()
            .into_iter()
            .find(|grant| self.works[place] == Some(grant.work) && self.bodies.waits(*grant));
        if let Some(grant) = waiting {
            self.bodies.remove(grant);
            self.step_body(grant, Next::ResumeRequested);
        }
    }

    fn submit(&mut self, place: usize) {
        let plan = &self.scenario.works[place];
        let WorkPlan { name, after, needs, .. } = plan;
        let known = |&(source, kind): &(usize, _)| {
            let work = self.works[source]?;
            Some(Dependency { work, kind })
        };
        let Some(after) = after.iter().map(known).collect::<Option<Vec<_>>>() else {
            return self.refuse(&format!("submit {name}: it follows a work that was refused"));
        };
        let parent = match plan.parent.map(|parent| self.works[parent]) {
            Some(None) => {
                return self.refuse(&format!("submit {name}: its parent was not submitted"));
            }
            parent => parent.flatten(),
        };
        let WorkPlan { gated, timeout, deadline, .. } = *plan;
        let retry = plan.retry.policy;
        let extras = Extras { parent, gated, timeout, deadline, retry, beside: None };
        let cost = match self.engine.cost(&self.capacity, needs) {
            Ok(cost) => cost,
            Err(error) => {
                let level = refusing_level(&error);
                return self.refuse(&format!("submit {name}: {error}{level}"));
            }
        };
        let submission = Submission {
            after: &after,
            cost,
            priority: plan.priority,
            retries: plan.retry.count,
            extras: Some(&extras),
        };
        match self.call(|engine, world| engine.submit(world, submission)) {
            Ok(work) => self.works[place] = Some(work),
            Err(error) => self.refuse(&format!("submit {name}: {error}")),
        }
    }

    fn set_limit(&mut self, level: LevelId, name: &str, amount: Amount) {
        let resource = self.capacity.resource(name).expect("a scenario changes what it declared");
        self.call(|engine, world| engine.set_limit(world, level, resource, amount));
    }

    fn depend(&mut self, work: usize, on: usize, kind: EdgeKind) {
        let name = &self.scenario.works[work].name;
        let (Some(work), Some(on)) = (self.works[work], self.works[on]) else { return };
        let on = Dependency { work: on, kind };
        let added = self.call(|engine, world| engine.add_dependency(world, work, on));
        if let Err(error) = added {
            self.refuse(&format!("depend {name}: {error}"));
        }
    }

    fn apply(&mut self, verb: &str, work: WorkId, input: Input) {
        let result = self.call(|engine, world| engine.apply(world, input));
        if let Err(error) = result {
            self.refuse(&format!("{verb} {}: {error}", self.plan(work).name));
        }
    }

    fn plan(&self, work: WorkId) -> &'a WorkPlan {
        &self.scenario.works[self.place(work)]
    }

    fn place(&self, work: WorkId) -> usize {
        let place = self.works.iter().position(|known| *known == Some(work));
        place.expect("it was submitted")
    }

    fn refuse(&mut self, what: &str) {
        self.refusals.push((self.now, what.to_owned()));
    }

    fn start_what_fits(&mut self) {
        while let Some(grant) = self.call(Engine::take_next) {
            if self.bodies.resume(grant) {
                let Body { takes, waits, .. } = &self.plan(grant.work).body;
                let before = waits.map_or(Duration::ZERO, |wait| wait.from);
                let end = self.now.after(takes.saturating_sub(before));
                self.bodies.plan(end, grant, Next::Return);
                continue;
            }
            let input = self.answer(grant);
            self.call(|engine, world| engine.apply(world, input)).expect("it was granted just now");
            if let Input::Begin(_) = input {
                self.begin(grant);
            }
        }
    }

    fn begin(&mut self, grant: Grant) {
        let Body { takes, waits, .. } = &self.plan(grant.work).body;
        match *waits {
            Some(wait) => {
                self.bodies.plan(self.now.after(wait.from), grant, Next::Suspend(wait));
            }
            None => self.bodies.plan(self.now.after(*takes), grant, Next::Return),
        }
    }

    /// Returns what the driver does with a grant: refuses it, hands it back, or begins it.
    fn answer(&mut self, grant: Grant) -> Input {
        let place = self.place(grant.work);
        let plan = &self.scenario.works[place];
        if self.now < plan.grants.outside {
            return Input::Refuse(grant);
        }
        if self.handed_back[place] < plan.grants.handed_back {
            self.handed_back[place] += 1;
            return Input::HandBack(grant);
        }
        Input::Begin(grant)
    }

    fn outcome(&self, grant: Grant) -> Outcome {
        match self.plan(grant.work).body.end(grant.attempt) {
            End::Ok => Outcome::Success,
            End::Fail => Outcome::Failed,
            End::Retry(delay) => Outcome::Retry { delay },
            End::Lost => Outcome::Interrupted,
            End::Stopped => Outcome::Cancelled,
        }
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let mut wakes = Vec::new();
        let mut world = World {
            now: self.now,
            capacity: &mut self.capacity,
            facts: None,
            transitions: Some(&mut self.transitions),
            wakes: &mut wakes,
        };
        let result = call(&mut self.engine, &mut world);
        self.engine.check(&self.capacity);
        result
    }

    fn trace(self) -> Trace {
        let places = self.works.iter().enumerate();
        let places: BTreeMap<_, _> = places.filter_map(|(n, work)| Some(((*work)?, n))).collect();
        let seen = |t: &&Transition| {
            let changed = t.from != Some(t.to.state());
            changed && (t.from.is_some() || t.to.state().is_terminal())
        };
        let entry = |transition: &Transition| {
            let Transition { at, work, attempt, to, .. } = *transition;
            Entry { at, work: places[&work], state: to.state(), attempt }
        };
        let entries = self.transitions.iter().filter(seen).map(entry).collect();
        Trace { entries, refusals: self.refusals }
    }
}

/// Returns the level that a cost exceeds, unless that is the root.
fn refusing_level(error: &CostError) -> &'static str {
    match error {
        CostError::AboveLimit { level, .. } if *level != CapacityTree::ROOT => " (team)",
        _ => "",
    }
}

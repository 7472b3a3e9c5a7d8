//! The scenario files on Tokio, under paused time: the same traces as on the bare engine.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use windlass::core::{CapacityTree, CostError, Rejected, Timestamp};
use windlass::{
    CancellationToken, Dependency, Phase, ResourceCapacity, ResourceCost, SubmitError, WorkEvent,
    WorkHandle, WorkId, WorkScheduler, WorkSpec, WorkState,
};
use windlass_sim::scenario::{Action, Entry, Scenario, Trace, WorkPlan};

use crate::support::{Events, settle, watch};
use scripted::{Scripted, Stage};

mod scripted;

#[tokio::test(start_paused = true)]
async fn every_scenario_runs_on_the_tokio_driver() {
    let mut failed = Vec::new();
    for scenario in Scenario::all() {
        if scenario.not_on.contains_key("tokio") {
            continue;
        }
        let run = async { scenario.check(run(&scenario).await) };
        if AssertUnwindSafe(run).catch_unwind().await.is_err() {
            failed.push(scenario.name);
        }
    }
    assert!(failed.is_empty(), "{} failed: {failed:#?}", failed.len());
}

async fn run(scenario: &Scenario) -> Trace {
    let root = ResourceCapacity::new(&scenario.limits.root);
    let (mut scheduler, mut events) = scheduler(scenario, &root);
    let mut director = Director::new(scenario, &root, scheduler.handle());
    let done = CancellationToken::new();
    let (run, direct) = (scheduler.run_until_cancelled(done.clone()), async {
        let direct = timeout(Duration::from_secs(3600), director.direct());
        direct.await.unwrap_or_else(|_| panic!("{}: still no end", scenario.name));
        done.cancel();
    });
    // The director is polled first: within one instant things are done before time passes.
    _ = tokio::join!(biased; direct, run);
    assert_eq!(scheduler.metrics().events_dropped, 0);
    director.trace(&mut events)
}

/// The limits belong to a capacity above the scheduler, those of the team to the scheduler.
fn scheduler(scenario: &Scenario, root: &ResourceCapacity) -> (WorkScheduler, Events) {
    let mut builder = WorkScheduler::builder()
        .max_concurrency(scenario.limits.slots as usize)
        .ageing(scenario.ageing)
        .order(scenario.order)
        .capacity(root)
        .limits(scenario.limits.team.clone());
    for (name, rate) in &scenario.limits.rates {
        builder = builder.rate(name, *rate);
    }
    for (name, quota) in &scenario.limits.quotas {
        builder = builder.quota(name, *quota);
    }
    watch(builder)
}

/// Does what callers do, and lets the bodies continue: one step at a time, and after
/// each every task has a turn.
struct Director<'a> {
    scenario: &'a Scenario,
    root: &'a ResourceCapacity,
    handle: WorkHandle,
    stage: Arc<Stage>,
    start: Instant,
    /// One for each action. They are set before all other timers, so that they fire first.
    clocks: Vec<Pin<Box<Sleep>>>,
    action: usize,
    works: Vec<Option<WorkId>>,
    refusals: Vec<(Timestamp, String)>,
}

impl<'a> Director<'a> {
    fn new(scenario: &'a Scenario, root: &'a ResourceCapacity, handle: WorkHandle) -> Self {
        let start = Instant::now();
        let clock = |(at, _): &(Timestamp, Action)| {
            let mut clock = Box::pin(sleep_until(instant(start, *at)));
            let _ = clock.as_mut().now_or_never();
            clock
        };
        Self {
            scenario,
            root,
            handle,
            stage: Arc::default(),
            start,
            clocks: scenario.actions.iter().map(clock).collect(),
            action: 0,
            works: vec![None; scenario.works.len()],
            refusals: Vec::new(),
        }
    }

    async fn direct(&mut self) {
        let mut changes = self.handle.subscribe();
        loop {
            settle().await;
            if self.act_next() || self.stage.give_a_turn() {
                continue;
            }
            if self.is_over() {
                return;
            }
            let next = self.stage.next_turn();
            let clock = self.clocks.get_mut(self.action);
            tokio::select! {
                biased;
                () = async { clock.expect("it is there").await }, if clock.is_some() => {}
                () = sleep_until(next.unwrap_or(self.start)), if next.is_some() => {}
                () = self.stage.changed.notified() => {}
                _ = changes.recv() => {}
            }
        }
    }

    /// Does the next step that is due. Returns whether there was one. All submissions of one instant come
    /// together.
    fn act_next(&mut self) -> bool {
        let Some(action) = self.due_action() else { return false };
        self.act(action);
        while let Some(action @ Action::Submit(_)) = self.due_action() {
            self.act(action);
        }
        true
    }

    fn is_over(&self) -> bool {
        let metrics = self.handle.metrics();
        self.action == self.scenario.actions.len() && metrics.pending + metrics.running == 0
    }

    fn due_action(&self) -> Option<&'a Action> {
        let (at, action) = self.scenario.actions.get(self.action)?;
        (instant(self.start, *at) <= Instant::now()).then_some(action)
    }

    fn act(&mut self, action: &Action) {
        self.action += 1;
        match action {
            Action::Submit(place) => self.submit(*place),
            Action::Limit(name, amount) => {
                self.root.set_limits(ResourceCost::new().with(name, *amount));
            }
            Action::Team(name, amount) => {
                self.handle.set_limits(ResourceCost::new().with(name, *amount));
            }
            Action::Depend(work, on, kind) => {
                let (Some(id), Some(on)) = (self.works[*work], self.works[*on]) else { return };
                let added = self.handle.add_dependency(id, Dependency { work: on, kind: *kind });
                self.tell("depend", *work, added.map_err(|error| error.to_string()));
            }
            Action::Cancel(place) => self.act_on("cancel", *place, cancel),
            Action::Forget(place) => self.act_on("forget", *place, forget),
            Action::Open(place) => self.act_on("open", *place, open),
            Action::Reject(place) => {
                let stage = Arc::clone(&self.stage);
                self.act_on("reject", *place, |handle, work| reject(handle, work, &stage, *place));
            }
            Action::Reopen(place) => self.act_on("reopen", *place, |handle, work| {
                handle.reopen(work).map_err(|error| error.to_string())
            }),
            Action::Wake(place) => self.act_on("wake", *place, wake),
            Action::StopChildren(_)
            | Action::Late(..)
            | Action::Ring(_)
            | Action::Skip(_)
            | Action::Pause(_)
            | Action::Unpause(_)
            | Action::PauseAll
            | Action::UnpauseAll => {
                panic!("{}: {action:?} cannot happen here", self.scenario.name)
            }
        }
    }

    fn act_on(
        &mut self,
        verb: &str,
        place: usize,
        act: impl FnOnce(&WorkHandle, WorkId) -> Result<(), String>,
    ) {
        if let Some(work) = self.works[place] {
            let result = act(&self.handle, work);
            self.tell(verb, place, result);
        }
    }

    fn tell(&mut self, verb: &str, place: usize, result: Result<(), String>) {
        if let Err(why) = result {
            let name = &self.scenario.works[place].name;
            let at = Timestamp::ZERO.after(self.start.elapsed());
            self.refusals.push((at, format!("{verb} {name}: {why}")));
        }
    }

    fn submit(&mut self, place: usize) {
        let submitted = self.try_submit(place);
        self.works[place] = submitted.as_ref().ok().copied();
        self.tell("submit", place, submitted.map(|_| ()));
    }

    fn try_submit(&self, place: usize) -> Result<WorkId, String> {
        let plan = &self.scenario.works[place];
        let known =
            |&(source, kind): &(usize, _)| Some(Dependency { work: self.works[source]?, kind });
        let after = plan.after.iter().map(known).collect::<Option<Vec<_>>>();
        let after = after.ok_or("it follows a work that was refused")?;
        let spec = self.spec(place, plan).after(after);
        let submitted = match plan.parent {
            None => self.handle.submit(spec),
            Some(parent) => {
                self.works[parent].ok_or("its parent was not submitted")?;
                self.stage.context(parent).add_child(spec)
            }
        };
        submitted.map_err(|error| format!("{error}{}", self.refusing_level(&error)))
    }

    fn spec(&self, place: usize, plan: &WorkPlan) -> WorkSpec {
        let body = Scripted { plan: plan.clone(), place, stage: Arc::clone(&self.stage) };
        let mut spec = WorkSpec::new(body).needs(plan.needs.clone()).priority(plan.priority);
        if let Some(policy) = plan.retry.policy {
            spec = spec.retry(policy);
        }
        if let Some(timeout) = plan.timeout {
            spec = spec.timeout(timeout);
        }
        if let Some(deadline) = plan.deadline {
            spec = spec.deadline(instant(self.start, deadline));
        }
        if plan.gated {
            spec = spec.gate(self.stage.gate(place));
        }
        spec.retries(plan.retry.count)
    }

    /// Returns the level whose limit a cost exceeds, unless it is the root or the only one.
    fn refusing_level(&self, error: &SubmitError) -> &'static str {
        match error {
            SubmitError::Cost(CostError::AboveLimit { level, .. })
                if *level != CapacityTree::ROOT && !self.scenario.limits.team.is_empty() =>
            {
                " (team)"
            }
            _ => "",
        }
    }

    fn trace(self, events: &mut Events) -> Trace {
        let places = self.works.iter().enumerate();
        let places: BTreeMap<_, _> = places.filter_map(|(n, work)| Some(((*work)?, n))).collect();
        let entry = |event: WorkEvent| {
            let WorkEvent { id, state, attempt, at, .. } = event;
            Entry { at, work: places[&id], state, attempt }
        };
        Trace { entries: events.take().into_iter().map(entry).collect(), refusals: self.refusals }
    }
}

fn instant(start: Instant, at: Timestamp) -> Instant {
    start + at.since(Timestamp::ZERO)
}

/// Returns why a call has returned false.
fn because(
    handle: &WorkHandle,
    work: WorkId,
    known: fn(windlass::core::WorkId) -> Rejected,
) -> String {
    let local = windlass::core::WorkId::new(work.number()).expect("numbers begin at 1");
    match handle.state(work) {
        Some(_) => known(local).to_string(),
        None => Rejected::UnknownWork { work: local }.to_string(),
    }
}

fn cancel(handle: &WorkHandle, work: WorkId) -> Result<(), String> {
    let done = handle.cancel(work);
    done.then_some(()).ok_or_else(|| because(handle, work, |work| Rejected::Ended { work }))
}

fn forget(handle: &WorkHandle, work: WorkId) -> Result<(), String> {
    let done = handle.forget(work);
    done.then_some(()).ok_or_else(|| because(handle, work, |work| Rejected::NotEnded { work }))
}

fn open(handle: &WorkHandle, work: WorkId) -> Result<(), String> {
    let done = handle.open_gate(work);
    done.then_some(()).ok_or_else(|| because(handle, work, |work| Rejected::NotGated { work }))
}

/// A gate that will never open is one that panics.
fn reject(handle: &WorkHandle, work: WorkId, stage: &Stage, place: usize) -> Result<(), String> {
    let pending = handle.state(work) == Some(WorkState::Pending);
    let done = pending && stage.reject(place);
    done.then_some(()).ok_or_else(|| because(handle, work, |work| Rejected::NotGated { work }))
}

/// A wake before the wait would not be lost; in a scenario it is.
fn wake(handle: &WorkHandle, work: WorkId) -> Result<(), String> {
    let phase = handle.snapshot_of(work).map(|seen| seen.phase);
    if phase == Some(Phase::Suspended) {
        handle.wake(work);
    }
    Ok(())
}

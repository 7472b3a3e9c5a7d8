//! The engine: takes in news, decides which work is next, and tells what follows.
//!
//! A deterministic state machine. It has no clock, no threads and no IO; a driver passes the time
//! in, pulls grants, and reports how attempts ended. Every change that a replay must reproduce
//! goes through [`Engine::evolve`], live and in recovery alike.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use thiserror::Error;

use crate::capacity::{CapacityTree, CostError, Demand, Place, Refusal, SLOTS};
use crate::dag::{Dag, EdgeKind};
use crate::fact::{Ending, Fact, Happening, Transition, World};
use crate::phase::{Phase, Step, WorkState};
use crate::queue::{Head, Rank, ReadyQueue};
use crate::{Amount, ClientId, CostId, ResourceCost, Timestamp, WorkId};

mod check;
mod digest;

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// How long a work waits before its next attempt when it does not say so itself.
    pub retry_delay: Duration,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { retry_delay: Duration::from_secs(1) }
    }
}

/// What to submit.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// The works that have to succeed first.
    pub after: &'a [WorkId],
    /// What it takes while it runs, from [`Engine::cost`].
    pub cost: CostId,
    /// Larger is more urgent.
    pub priority: i64,
    /// How often it may be tried again.
    pub retries: u32,
}

/// Permission to run one attempt of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Grant {
    /// The work.
    pub work: WorkId,
    /// The attempt, from 1.
    pub attempt: u32,
}

/// A piece of news for an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// The granted attempt begins.
    Begin(Grant),
    /// The granted attempt cannot begin: something outside the engine refused it.
    Refuse(Grant),
    /// What refused this work outside may be had now.
    Ring(WorkId),
    /// An attempt ended.
    Finished {
        /// Which attempt.
        grant: Grant,
        /// How.
        outcome: Outcome,
    },
    /// Someone wants this work cancelled.
    Cancel(WorkId),
    /// The capacity may have room for what it refused.
    LookAgain,
    /// Nothing but time has passed.
    Tick,
}

/// How an attempt ended, as its runner reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Well.
    Success,
    /// Badly, and for good.
    Failed,
    /// Badly, and it asks for another attempt; after the configured delay if `delay` is zero.
    Retry {
        /// How long to wait first.
        delay: Duration,
    },
    /// It stopped without an end of its own.
    Cancelled,
    /// The runner was lost before the attempt ended.
    Interrupted,
}

/// Why a submission was refused; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// It waits for a work that this engine never gave out.
    #[error("work {work} does not exist here, so nothing can wait for it")]
    UnknownDependency {
        /// The unknown work.
        work: WorkId,
    },
}

/// Why a piece of news was refused; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Rejected {
    /// This engine never gave out that id.
    #[error("work {work} does not exist here")]
    UnknownWork {
        /// The unknown work.
        work: WorkId,
    },
    /// The news concerns an attempt that is not under way, or a grant that no longer stands.
    #[error("attempt {attempt} of work {work} is not under way")]
    Stale {
        /// The work.
        work: WorkId,
        /// The attempt that the news is about.
        attempt: u32,
    },
    /// The work has ended already.
    #[error("work {work} has ended already")]
    Ended {
        /// The work.
        work: WorkId,
    },
    /// Nothing outside the engine has refused this work.
    #[error("work {work} waits for nothing outside")]
    NotTicketed {
        /// The work.
        work: WorkId,
    },
}

/// The scheduling state machine.
///
/// ```
/// use windlass_core::*;
///
/// let mut capacity = CapacityTree::new(&ResourceCost::new().with(SLOTS, Amount::from(2)));
/// let client = capacity.add_client(CapacityTree::ROOT);
/// let mut engine = Engine::new(EngineConfig::default(), client);
/// let cost = engine.cost(&capacity, &ResourceCost::new())?;
/// let plain = Submission { after: &[], cost, priority: 0, retries: 0 };
///
/// let mut wakes = Vec::new();
/// let mut world = World {
///     now: Timestamp::ZERO,
///     capacity: &mut capacity,
///     facts: None,
///     transitions: None,
///     wakes: &mut wakes,
/// };
/// let first = engine.submit(&mut world, plain)?;
/// let second = engine.submit(&mut world, Submission { after: &[first], ..plain })?;
///
/// let grant = engine.take_next(&mut world).expect("nothing stands in its way");
/// assert_eq!(grant.work, first);
/// assert_eq!(engine.take_next(&mut world), None, "the second work waits for the first");
///
/// engine.apply(&mut world, Input::Begin(grant))?;
/// engine.apply(&mut world, Input::Finished { grant, outcome: Outcome::Success })?;
/// assert_eq!(engine.take_next(&mut world).map(|grant| grant.work), Some(second));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Engine {
    config: EngineConfig,
    client: ClientId,
    now: Timestamp,
    works: Vec<Work>,
    dag: Dag,
    queue: ReadyQueue,
    /// The next ticket of the ready queue.
    tickets: u64,
    /// When delayed works come due.
    timers: BTreeSet<(Timestamp, WorkId)>,
    /// The work for which the capacity sets something aside.
    standing: Option<WorkId>,
    /// By [`CostId`].
    costs: Vec<Demand>,
    known_costs: BTreeMap<Demand, CostId>,
    staged: VecDeque<Staged>,
    staged_after: VecDeque<WorkId>,
    metrics: Metrics,
}

/// A submission on its way into the engine, without its dependencies.
#[derive(Clone, Debug)]
struct Staged {
    cost: CostId,
    priority: i64,
    retries: u32,
    after: usize,
}

#[derive(Clone, Debug)]
struct Work {
    phase: Phase,
    attempts: u32,
    retries_left: u32,
    cost: CostId,
    /// Its place in line; it keeps it while it is granted or ticketed.
    rank: Rank,
}

/// Counters over all works of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    states: [usize; WorkState::ALL.len()],
    /// Attempts begun.
    pub attempts: u64,
    /// How many more attempts all works together may ask for.
    pub retries_left: u64,
}

impl Metrics {
    /// How many works are in this state.
    #[must_use]
    pub fn count(&self, state: WorkState) -> usize {
        self.states[state as usize]
    }
}

impl Engine {
    /// An engine whose works take what they need as `client`.
    #[must_use]
    pub fn new(config: EngineConfig, client: ClientId) -> Self {
        Self {
            config,
            client,
            now: Timestamp::ZERO,
            works: Vec::new(),
            dag: Dag::default(),
            queue: ReadyQueue::default(),
            tickets: 0,
            timers: BTreeSet::new(),
            standing: None,
            costs: Vec::new(),
            known_costs: BTreeMap::new(),
            staged: VecDeque::new(),
            staged_after: VecDeque::new(),
            metrics: Metrics::default(),
        }
    }

    /// The number of a cost, which is one slot unless it names slots itself. Refuses what can never
    /// be had.
    pub fn cost(
        &mut self,
        capacity: &CapacityTree,
        cost: &ResourceCost,
    ) -> Result<CostId, CostError> {
        let one_slot = ResourceCost::new().with(SLOTS, Amount::from(1));
        let whole = one_slot.iter().chain(cost.iter()).map(|(name, n)| (name.to_owned(), n));
        let demand = capacity.demand(capacity.level_of(self.client), &whole.collect())?;
        let next = CostId::at(self.costs.len());
        Ok(*self.known_costs.entry(demand).or_insert_with_key(|demand| {
            self.costs.push(demand.clone());
            next
        }))
    }

    /// Takes in a new work.
    pub fn submit(
        &mut self,
        world: &mut World<'_>,
        submission: Submission<'_>,
    ) -> Result<WorkId, SubmitError> {
        let unknown = submission.after.iter().find(|work| work.index() >= self.works.len());
        if let Some(&work) = unknown {
            return Err(SubmitError::UnknownDependency { work });
        }
        self.stage(submission);
        let work = WorkId::from_index(self.works.len());
        self.record(world, work, Happening::Submitted);
        Ok(work)
    }

    /// Lays a submission beside the fact that will take it in: for replay, in the order of the
    /// `Submitted` facts.
    pub fn stage(&mut self, submission: Submission<'_>) {
        let Submission { after, cost, priority, retries } = submission;
        self.staged.push_back(Staged { cost, priority, retries, after: after.len() });
        self.staged_after.extend(after);
    }

    /// Takes in one piece of news.
    pub fn apply(&mut self, world: &mut World<'_>, input: Input) -> Result<(), Rejected> {
        self.advance(world);
        match input {
            Input::Begin(grant) => {
                self.expect(grant, |phase| phase == Phase::Granted)?;
                self.record(world, grant.work, Happening::Started { attempt: grant.attempt });
            }
            Input::Refuse(grant) => {
                self.expect(grant, |phase| phase == Phase::Granted)?;
                self.step(world, grant.work, Step::Refuse);
            }
            Input::Ring(work) => {
                if self.work(work)?.phase != Phase::Ticketed {
                    return Err(Rejected::NotTicketed { work });
                }
                self.step(world, work, Step::Ring);
            }
            Input::Finished { grant, outcome } => self.finish(world, grant, outcome)?,
            Input::Cancel(work) => self.cancel(world, work)?,
            Input::LookAgain => self.queue.unpark_all(),
            Input::Tick => {}
        }
        Ok(())
    }

    /// The most urgent work that fits now, with what it needs taken for it. Its attempt begins with
    /// [`Input::Begin`].
    pub fn take_next(&mut self, world: &mut World<'_>) -> Option<Grant> {
        self.advance(world);
        while let Some(head) = self.queue.first_open() {
            let behind = self.queue.is_behind_parked(head.rank);
            let place = if behind { Place::Later } else { Place::First };
            let demand = &self.costs[head.cost.index()];
            match world.capacity.try_take(self.client, demand, place, self.now) {
                Ok(()) => {
                    self.step(world, head.work, Step::Grant);
                    let attempt = self.works[head.work.index()].attempts + 1;
                    return Some(Grant { work: head.work, attempt });
                }
                Err(refusal) => self.pass_over(world, head, place, &refusal),
            }
        }
        None
    }

    /// When to apply [`Input::Tick`] if nothing else happens first.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.timers.first().map(|&(due, _)| due)
    }

    /// Takes in one fact: the only function that changes what [`Engine::digest`] covers.
    ///
    /// # Panics
    ///
    /// If the fact does not follow from those before it.
    pub fn evolve(&mut self, world: &mut World<'_>, fact: &Fact) {
        self.move_time(world, fact.at);
        let work = fact.work;
        match fact.what {
            Happening::Submitted => self.admit(world, work),
            Happening::Started { attempt } => {
                let entry = &mut self.works[work.index()];
                entry.attempts += 1;
                assert_eq!(entry.attempts, attempt, "attempts are counted one by one");
                self.metrics.attempts += 1;
                self.step(world, work, Step::Start);
            }
            Happening::Ended { attempt, ending } => {
                let attempts = self.works[work.index()].attempts;
                assert_eq!(attempts, attempt, "only the latest attempt can end");
                self.end(world, work, ending);
            }
            Happening::CancelAsked => self.step(world, work, Step::AskCancel),
        }
        self.settle(world, work);
    }

    /// Where `work` stands; none if this engine never gave it out.
    #[must_use]
    pub fn phase(&self, work: WorkId) -> Option<Phase> {
        self.works.get(work.index()).map(|entry| entry.phase)
    }

    /// How many attempts of `work` have begun.
    #[must_use]
    pub fn attempts(&self, work: WorkId) -> Option<u32> {
        self.works.get(work.index()).map(|entry| entry.attempts)
    }

    /// How often `work` may still be tried again.
    #[must_use]
    pub fn retries_left(&self, work: WorkId) -> Option<u32> {
        self.works.get(work.index()).map(|entry| entry.retries_left)
    }

    /// The works that have to succeed before `work`.
    pub fn dependencies(&self, work: WorkId) -> impl Iterator<Item = WorkId> {
        self.dag.sources(work.index()).map(|edge| WorkId::from_index(edge.node))
    }

    /// All works, in the order in which they were submitted.
    pub fn works(&self) -> impl DoubleEndedIterator<Item = WorkId> + use<> {
        (0..self.works.len()).map(WorkId::from_index)
    }

    /// The counters.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The client as which this engine takes from its capacity.
    #[must_use]
    pub fn client(&self) -> ClientId {
        self.client
    }

    /// Whether every work has ended.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let open = [WorkState::Pending, WorkState::Running];
        open.into_iter().all(|state| self.metrics.count(state) == 0)
    }

    fn work(&self, work: WorkId) -> Result<&Work, Rejected> {
        self.works.get(work.index()).ok_or(Rejected::UnknownWork { work })
    }

    /// Refuses news about an attempt that is not the latest, or not in such a phase.
    fn expect(&self, grant: Grant, fits: impl Fn(Phase) -> bool) -> Result<Phase, Rejected> {
        let Grant { work, attempt } = grant;
        let entry = self.work(work)?;
        let latest = entry.attempts + u32::from(entry.phase == Phase::Granted);
        if attempt != latest || !fits(entry.phase) {
            return Err(Rejected::Stale { work, attempt });
        }
        Ok(entry.phase)
    }

    fn finish(
        &mut self,
        world: &mut World<'_>,
        grant: Grant,
        outcome: Outcome,
    ) -> Result<(), Rejected> {
        let phase = self.expect(grant, |phase| phase.state() == WorkState::Running)?;
        let retries_left = self.works[grant.work.index()].retries_left;
        let ending = match outcome {
            _ if phase == Phase::Cancelling => Ending::Cancelled,
            Outcome::Success => Ending::Success,
            Outcome::Failed => Ending::Failed,
            Outcome::Cancelled => Ending::Cancelled,
            Outcome::Interrupted => Ending::Interrupted,
            Outcome::Retry { .. } if retries_left == 0 => Ending::Failed,
            Outcome::Retry { delay } => {
                let delay = if delay.is_zero() { self.config.retry_delay } else { delay };
                Ending::Retry { due: self.now.after(delay) }
            }
        };
        let attempt = grant.attempt;
        self.record(world, grant.work, Happening::Ended { attempt, ending });
        Ok(())
    }

    fn cancel(&mut self, world: &mut World<'_>, work: WorkId) -> Result<(), Rejected> {
        match self.work(work)?.phase {
            Phase::Cancelling => Ok(()),
            phase if phase.state().is_terminal() => Err(Rejected::Ended { work }),
            _ => {
                self.record(world, work, Happening::CancelAsked);
                Ok(())
            }
        }
    }

    /// The first in line is refused: its group waits until there may be room; what refused it is
    /// set aside if nobody of ours stands before it.
    fn pass_over(&mut self, world: &mut World<'_>, head: Head, place: Place, refusal: &Refusal) {
        if place == Place::First {
            let wakes = world.capacity.stand(self.client, head.work.get(), refusal);
            self.standing = Some(head.work);
            self.wake(world, &wakes);
        }
        self.queue.park(head.cost);
        for short in &refusal.shortages {
            world.capacity.watch(self.client, short.level, short.resource);
        }
    }

    fn record(&mut self, world: &mut World<'_>, work: WorkId, what: Happening) {
        self.advance(world);
        let fact = Fact { at: self.now, work, what };
        self.evolve(world, &fact);
        if let Some(facts) = &mut world.facts {
            facts.push(fact);
        }
    }

    fn advance(&mut self, world: &mut World<'_>) {
        self.move_time(world, world.now);
    }

    /// Everything that was due by `now` happens, at the time at which it was due.
    fn move_time(&mut self, world: &mut World<'_>, now: Timestamp) {
        while let Some(&(due, work)) = self.timers.first()
            && due <= now
        {
            self.now = self.now.max(due);
            self.step(world, work, Step::ComeDue);
        }
        self.now = self.now.max(now);
    }

    /// The staged submission becomes a work.
    fn admit(&mut self, world: &mut World<'_>, work: WorkId) {
        assert_eq!(work.index(), self.works.len(), "works are numbered one by one");
        let staged = self.staged.pop_front().expect("a submission is staged before its fact");
        let after: Vec<_> = self.staged_after.drain(..staged.after).collect();
        let phases = after.iter().map(|source| self.works[source.index()].phase);
        let unmet = phases.clone().filter(|phase| *phase != Phase::Success).count();
        let blocked = phases.into_iter().any(|phase| phase.state().is_failure());
        self.connect(work, &after);
        let phase = match unmet {
            _ if blocked => Phase::Blocked,
            0 => Phase::Ready,
            _ => Phase::Waiting,
        };
        let rank = Rank { priority: Reverse(staged.priority), ticket: 0 };
        let (cost, retries_left) = (staged.cost, staged.retries);
        self.metrics.retries_left += u64::from(retries_left);
        self.works.push(Work { phase, attempts: 0, retries_left, cost, rank });
        self.enter(work, phase, None);
        self.report(world, work, None);
    }

    /// The newest work becomes a node behind its sources.
    fn connect(&mut self, work: WorkId, after: &[WorkId]) {
        let node = self.dag.add_node();
        assert_eq!(node, work.index(), "every work is a node");
        for source in after {
            if self.works[source.index()].phase == Phase::Success {
                self.dag.add_settled_edge(source.index(), node, EdgeKind::Success);
            } else {
                let edge = self.dag.add_edge(source.index(), node, EdgeKind::Success);
                edge.expect("a new work is behind all others");
            }
        }
    }

    fn end(&mut self, world: &mut World<'_>, work: WorkId, ending: Ending) {
        let cancelling = self.works[work.index()].phase == Phase::Cancelling;
        match ending {
            Ending::Success => self.step(world, work, Step::Succeed),
            Ending::Failed => self.step(world, work, Step::Fail),
            Ending::Interrupted => self.step(world, work, Step::Interrupt),
            Ending::Retry { due } => {
                self.works[work.index()].retries_left -= 1;
                self.metrics.retries_left -= 1;
                self.step(world, work, Step::RetryAt(due));
            }
            Ending::Cancelled => {
                if !cancelling {
                    self.step(world, work, Step::AskCancel);
                }
                self.step(world, work, Step::Stop);
            }
        }
    }

    /// The only place where a work changes its phase. What depends on phases is kept in step here.
    fn step(&mut self, world: &mut World<'_>, work: WorkId, step: Step) {
        let from = self.works[work.index()].phase;
        let to = match from.after(step) {
            Ok(to) => to,
            Err(illegal) => panic!("work {work}: {illegal:?}"),
        };
        self.leave(world, work, from);
        self.works[work.index()].phase = to;
        self.hold(world, work, from, step);
        self.enter(work, to, Some(from));
        self.report(world, work, Some(from.state()));
    }

    fn leave(&mut self, world: &mut World<'_>, work: WorkId, from: Phase) {
        self.metrics.states[from.state() as usize] -= 1;
        match from {
            Phase::Ready => {
                self.queue.remove(self.head(work));
                if self.standing == Some(work) {
                    self.withdraw(world);
                }
            }
            Phase::Delayed { due } => {
                self.timers.remove(&(due, work));
            }
            _ => {}
        }
    }

    fn enter(&mut self, work: WorkId, to: Phase, from: Option<Phase>) {
        self.metrics.states[to.state() as usize] += 1;
        match to {
            Phase::Ready => {
                if from != Some(Phase::Ticketed) {
                    self.works[work.index()].rank.ticket = self.tickets;
                    self.tickets += 1;
                }
                self.queue.insert(self.head(work));
            }
            Phase::Delayed { due } => {
                self.timers.insert((due, work));
            }
            _ => {}
        }
    }

    /// Takes or gives back what the work needs. A grant has taken it already; a replayed start has
    /// not.
    fn hold(&mut self, world: &mut World<'_>, work: WorkId, from: Phase, step: Step) {
        let Work { phase: to, cost, .. } = self.works[work.index()];
        let demand = &self.costs[cost.index()];
        if !from.holds() && step == Step::Start {
            world.capacity.take(self.client, demand, self.now);
        }
        if from.holds() && !to.holds() {
            let wakes = world.capacity.give_back(self.client, demand);
            self.wake(world, &wakes);
        }
    }

    fn report(&self, world: &mut World<'_>, work: WorkId, from: Option<WorkState>) {
        if let Some(transitions) = &mut world.transitions {
            let Work { phase: to, attempts: attempt, .. } = self.works[work.index()];
            transitions.push(Transition { at: self.now, work, attempt, from, to });
        }
    }

    /// If `work` has ended, those who wait for it count it, or are blocked with all who wait for
    /// them, level by level.
    fn settle(&mut self, world: &mut World<'_>, work: WorkId) {
        if self.works[work.index()].phase == Phase::Success {
            return self.unblock_dependents(world, work);
        }
        let mut lost = VecDeque::new();
        if self.works[work.index()].phase.state().is_failure() {
            lost.push_back(work);
        }
        while let Some(work) = lost.pop_front() {
            let mut cursor = self.dag.first_target(work.index());
            while let Some((edge, next)) = self.dag.follow(cursor) {
                let dependent = WorkId::from_index(edge.node);
                cursor = next;
                if self.works[dependent.index()].phase == Phase::Waiting {
                    self.step(world, dependent, Step::Block);
                    lost.push_back(dependent);
                }
            }
        }
    }

    fn unblock_dependents(&mut self, world: &mut World<'_>, work: WorkId) {
        let mut cursor = self.dag.first_target(work.index());
        while let Some((edge, next)) = self.dag.follow(cursor) {
            let dependent = WorkId::from_index(edge.node);
            cursor = next;
            let complete = self.dag.meet(edge.node) == 0;
            if complete && self.works[dependent.index()].phase == Phase::Waiting {
                self.step(world, dependent, Step::Unblock);
            }
        }
    }

    fn withdraw(&mut self, world: &mut World<'_>) {
        self.standing = None;
        let wakes = world.capacity.withdraw(self.client);
        // Who stood behind it may be the first now, and bound by less.
        self.queue.unpark_all();
        self.wake(world, &wakes);
    }

    /// Looks again ourselves, and has the driver tell the others.
    fn wake(&mut self, world: &mut World<'_>, clients: &[ClientId]) {
        for &client in clients {
            if client == self.client {
                self.queue.unpark_all();
            } else {
                world.wakes.push(client);
            }
        }
    }

    fn head(&self, work: WorkId) -> Head {
        let Work { rank, cost, .. } = self.works[work.index()];
        Head { rank, cost, work }
    }
}

#[cfg(test)]
mod tests;

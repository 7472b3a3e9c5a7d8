//! The engine: takes in news, decides which work is next, and tells what follows.
//!
//! A deterministic state machine. It has no clock, no threads and no IO; a driver passes the time
//! in, pulls grants, and reports how attempts ended. Every change that a replay must reproduce
//! goes through [`Engine::evolve`], live and in recovery alike.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::ageing::Ageing;
use crate::capacity::{CapacityTree, CostError, Demand, Refusal, SLOTS};
use crate::column::Column;
use crate::dag::Dag;
use crate::fact::{Fact, Happening, World};
use crate::input::{
    Dependency, DependencyError, Grant, Input, More, Rejected, Submission, SubmitError,
};
use crate::metrics::Metrics;
use crate::phase::{Phase, Step, Why, WorkState};
use crate::queue::{Lines, Listing, Ticket};
use crate::retry::RetryPolicy;
use crate::{
    Amount, ClientId, CostId, LevelId, Random, ResourceCost, ResourceId, Timestamp, WorkId,
};

mod admission;
mod attempt;
mod check;
mod digest;
mod edges;
mod explain;
mod family;
mod reopen;
mod step;
mod times;
mod transfer;

pub use family::Children;
use family::Families;
use times::Times;
pub use transfer::Arrival;

/// Settings of an engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineConfig {
    /// How long a work waits before its next attempt when it does not say so itself.
    pub retry_delay: Duration,
    /// How waiting makes ready works more urgent.
    pub ageing: Ageing,
    /// Whether works may start before one that stands before them and does not fit.
    pub order: Order,
    /// What the jitter of retries is made from.
    pub seed: u64,
}

/// Whether works may start before one that stands before them in line and does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// They may, out of what did not refuse it.
    #[default]
    PassOver,
    /// Nothing starts before the first in line.
    Strict,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            retry_delay: Duration::from_secs(1),
            ageing: Ageing::NONE,
            order: Order::default(),
            seed: 0,
        }
    }
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
/// let plain = Submission::of(cost);
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
/// let second = engine.submit(&mut world, Submission { after: &[first.into()], ..plain })?;
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
    /// By how many nanoseconds the clock of the tree is ahead.
    ahead: i128,
    works: Column<Work>,
    dag: Dag,
    lines: Lines,
    /// The next ticket of the lines.
    tickets: Ticket,
    /// When something happens by time alone.
    timers: BTreeSet<(Timestamp, WorkId)>,
    /// Of those works that have times of their own.
    times: BTreeMap<WorkId, Times>,
    /// Of those works that have a policy of their own.
    policies: BTreeMap<WorkId, RetryPolicy>,
    /// How many retries a work has used up, if any.
    spent: BTreeMap<WorkId, u32>,
    families: Families,
    random: Random,
    /// The work for which the capacity sets something aside.
    standing: Option<WorkId>,
    /// What has refused the first in line while there was nobody whom a set-aside could bind.
    owed: Option<(WorkId, Refusal)>,
    /// By [`CostId`].
    costs: Vec<Demand>,
    known_costs: BTreeMap<Demand, CostId>,
    staged: VecDeque<Staged>,
    staged_after: VecDeque<Dependency>,
    metrics: Metrics,
}

/// A submission on its way into the engine, without its dependencies.
#[derive(Clone, Debug)]
struct Staged {
    cost: CostId,
    priority: i64,
    retries: u32,
    after: usize,
    more: More,
}

#[derive(Clone, Debug)]
struct Work {
    phase: Phase,
    priority: i64,
    /// Its place in line; it keeps it while it is granted or ticketed.
    ticket: Ticket,
    ready_since: Timestamp,
    attempts: u32,
    retries_left: u32,
    cost: CostId,
    /// A work that it is only needed after in case of failure has succeeded.
    unneeded: bool,
    /// Its gate has not opened.
    shut: bool,
    /// It has times of its own.
    timed: bool,
    /// It is or was somebody's child or parent.
    related: bool,
}

const _: () = assert!(size_of::<Work>() <= 56);

impl Engine {
    /// An engine whose works take what they need as `client`.
    #[must_use]
    pub fn new(config: EngineConfig, client: ClientId) -> Self {
        Self {
            lines: Lines::new(config.ageing),
            random: Random::new(config.seed),
            config,
            client,
            now: Timestamp::ZERO,
            ahead: 0,
            works: Column::default(),
            dag: Dag::new(),
            tickets: Ticket::MIN,
            timers: BTreeSet::new(),
            times: BTreeMap::new(),
            policies: BTreeMap::new(),
            spent: BTreeMap::new(),
            families: Families::default(),
            standing: None,
            owed: None,
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
        Ok(self.number_of(demand))
    }

    fn number_of(&mut self, demand: Demand) -> CostId {
        let next = CostId::at(self.costs.len());
        *self.known_costs.entry(demand).or_insert_with_key(|demand| {
            self.costs.push(demand.clone());
            next
        })
    }

    /// Takes in a new work.
    pub fn submit(
        &mut self,
        world: &mut World<'_>,
        submission: Submission<'_>,
    ) -> Result<WorkId, SubmitError> {
        let unknown = |after: &&Dependency| self.works.get(after.work.index()).is_none();
        if let Some(&Dependency { work, .. }) = submission.after.iter().find(unknown) {
            return Err(SubmitError::UnknownDependency { work });
        }
        self.advance(world);
        if let Some(parent) = submission.more.parent {
            self.expect_parent(parent, submission.after.iter().map(|after| after.work))?;
        }
        self.stage(submission);
        let work = WorkId::from_index(self.works.len());
        self.record(world, Happening::Submitted { work });
        Ok(work)
    }

    /// Lays a submission beside the fact that will take it in: for replay, in the order of the
    /// `Submitted` facts.
    pub fn stage(&mut self, submission: Submission<'_>) {
        let Submission { after, cost, priority, retries, more } = submission;
        self.staged.push_back(Staged { cost, priority, retries, after: after.len(), more });
        self.staged_after.extend(after);
    }

    /// Has `work` wait for one more, as long as it has begun no attempt. One that is ready goes back
    /// to waiting.
    pub fn add_dependency(
        &mut self,
        world: &mut World<'_>,
        work: WorkId,
        on: Dependency,
    ) -> Result<(), DependencyError> {
        self.advance(world);
        let unknown = [work, on.work].into_iter().find(|w| self.works.get(w.index()).is_none());
        if let Some(work) = unknown {
            return Err(DependencyError::UnknownWork { work });
        }
        let entry = &self.works[work.index()];
        if entry.attempts > 0 || entry.phase.state() != WorkState::Pending {
            return Err(DependencyError::Begun { work });
        }
        self.connect(world, on, work)?;
        let what = Happening::EdgeAdded { from: on.work, to: work, kind: on.kind };
        self.note(world, Fact { at: self.now, what });
        Ok(())
    }

    /// Changes one limit of the capacity; a replay will change it too.
    pub fn set_limit(
        &mut self,
        world: &mut World<'_>,
        level: LevelId,
        resource: ResourceId,
        limit: Amount,
    ) {
        self.record(world, Happening::LimitSet { level, resource, limit });
    }

    /// Takes in one piece of news.
    pub fn apply(&mut self, world: &mut World<'_>, input: Input) -> Result<(), Rejected> {
        self.advance(world);
        match input {
            Input::Begin(Grant { work, attempt }) => {
                self.expect_granted(Grant { work, attempt })?;
                self.record(world, Happening::Started { work, attempt });
            }
            Input::HandBack(grant) => {
                self.expect_granted(grant)?;
                self.step(world, grant.work, Step::HandBack);
            }
            Input::Refuse(grant) => {
                self.expect_granted(grant)?;
                self.step(world, grant.work, Step::Refuse);
            }
            Input::Ring(work) => {
                if self.work(work)?.phase != Phase::Ticketed {
                    return Err(Rejected::NotTicketed { work });
                }
                self.step(world, work, Step::Ring);
            }
            Input::Open(work) => {
                self.expect_gated(work)?;
                self.record(world, Happening::GateOpened { work });
            }
            Input::Reject(work) => {
                self.expect_gated(work)?;
                self.record(world, Happening::GateRejected { work });
            }
            Input::Suspend(grant) => self.suspend(world, grant)?,
            Input::WantOn(grant) => self.want_on(world, grant)?,
            Input::Join(grant) => self.join(world, grant)?,
            Input::StopChildren(work) => self.stop_children(world, work)?,
            Input::Reopen(work) => {
                self.expect_reopenable(work)?;
                self.record(world, Happening::Reopened { work });
            }
            Input::Finished { grant, outcome } => self.finish(world, grant, outcome)?,
            Input::Cancel(work) => self.cancel(world, work)?,
            Input::Forget(work) => {
                if !self.work(work)?.phase.state().is_terminal() {
                    return Err(Rejected::NotEnded { work });
                }
                self.record(world, Happening::Forgotten { work });
            }
            Input::LookAgain => self.lines.open_lots(),
            Input::Tick => self.lines.advance(self.now),
        }
        Ok(())
    }

    /// When to apply [`Input::Tick`] and look for the next grant if nothing else happens first.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let due = self.timers.first().map(|&(due, _)| due);
        due.into_iter().chain(self.lines.next_wakeup(self.now)).min()
    }

    /// Takes in one fact: the only function that changes what [`Engine::digest`] covers.
    ///
    /// # Panics
    ///
    /// If the fact does not follow from those before it.
    pub fn evolve(&mut self, world: &mut World<'_>, fact: &Fact) {
        self.move_time(world, fact.at);
        match fact.what {
            Happening::Submitted { work } => self.admit(world, work),
            Happening::EdgeAdded { from, to, kind } => {
                let connected = self.connect(world, Dependency { work: from, kind }, to);
                connected.expect("a journaled edge closes no cycle");
            }
            Happening::Started { work, attempt } => self.start(world, work, attempt),
            Happening::Ended { work, attempt, ending } => {
                let attempts = self.works[work.index()].attempts;
                assert_eq!(attempts, attempt, "only the latest attempt can end");
                self.end(world, work, ending);
                self.settle(world, work);
            }
            Happening::GateOpened { work } => self.open_gate(world, work),
            Happening::GateRejected { work } => {
                self.step(world, work, Step::GiveUp);
                self.settle(world, work);
            }
            Happening::Suspended { work, .. } => self.step(world, work, Step::Suspend),
            Happening::WaitOver { work, .. } => self.step(world, work, Step::WantOn),
            Happening::Resumed { work, .. } => self.step(world, work, Step::Resume),
            Happening::Joined { work, .. } => self.step(world, work, Step::Join),
            Happening::Reopened { work } => self.reopen(world, work),
            Happening::CancelAsked { work } => self.stop(world, work, Why::Cancel),
            Happening::LimitSet { level, resource, limit } => {
                let name = world.capacity.name(resource).to_owned();
                let wakes =
                    world.capacity.set_limits(level, &ResourceCost::new().with(name, limit));
                self.wake(world, &wakes);
            }
            Happening::Forgotten { work } => self.drop_work(work),
        }
    }

    /// Where `work` stands; none if this engine never gave it out, or has forgotten it.
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

    /// The works that have to end before `work`, and how.
    pub fn dependencies(&self, work: WorkId) -> impl Iterator<Item = Dependency> {
        let dependency = |edge: crate::dag::Edge| Dependency {
            work: WorkId::from_index(edge.node),
            kind: edge.kind,
        };
        self.dag.sources(work.index()).map(dependency)
    }

    /// What `work` takes while it runs.
    ///
    /// # Panics
    ///
    /// If this engine never gave it out, or has forgotten it.
    #[must_use]
    pub fn demand(&self, work: WorkId) -> &Demand {
        &self.costs[self.works[work.index()].cost.index()]
    }

    /// The ready work that stands before all others, whether it fits or not.
    #[must_use]
    pub fn first_in_line(&self) -> Option<WorkId> {
        self.lines.first(self.now).map(|(_, first)| first.work)
    }

    /// All works that are not forgotten, in the order in which they were submitted.
    pub fn works(&self) -> impl DoubleEndedIterator<Item = WorkId> {
        let known = |index: &usize| self.works.get(*index).is_some();
        (0..self.works.len()).filter(known).map(WorkId::from_index)
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

    fn record(&mut self, world: &mut World<'_>, what: Happening) {
        self.advance(world);
        let fact = Fact { at: self.now, what };
        self.evolve(world, &fact);
        self.note(world, fact);
    }

    fn note(&self, world: &mut World<'_>, fact: Fact) {
        if let Some(facts) = &mut world.facts {
            facts.push(fact);
        }
    }

    fn advance(&mut self, world: &mut World<'_>) {
        self.move_time(world, world.now);
    }

    /// The staged submission becomes a work.
    fn admit(&mut self, world: &mut World<'_>, work: WorkId) {
        let Staged { cost, priority, retries, after, more } =
            self.staged.pop_front().expect("a submission is staged before its fact");
        let node = self.dag.add_node();
        assert_eq!(work.index(), node, "works are numbered one by one");
        let mut entry = Work {
            phase: Phase::Waiting,
            priority,
            ticket: Ticket::MIN,
            ready_since: Timestamp::ZERO,
            attempts: 0,
            retries_left: retries,
            cost,
            unneeded: false,
            shut: more.gated,
            timed: more.timeout.is_some() || more.deadline.is_some(),
            related: more.parent.is_some(),
        };
        let mut blocked = false;
        for _ in 0..after {
            let after = self.staged_after.pop_front().expect("they are staged with it");
            blocked |= self.follow(after, node, &mut entry);
        }
        entry.phase = match self.dag.unmet(node) {
            _ if blocked => Phase::Blocked,
            0 if entry.unneeded => Phase::Skipped,
            0 if entry.shut => Phase::Gated,
            0 => Phase::Ready,
            _ => Phase::Waiting,
        };
        if entry.phase == Phase::Ready {
            entry.join_line(self.tickets, self.now);
            self.tickets = self.tickets.saturating_add(1);
        }
        self.metrics.retries_left += u64::from(retries);
        self.enter(work, &entry);
        self.report(world, work, None, &entry);
        self.works.push(entry);
        self.admit_more(world, work, more);
    }

    /// What few works have besides.
    fn admit_more(&mut self, world: &mut World<'_>, work: WorkId, more: More) {
        let More { parent, timeout, deadline, retry, .. } = more;
        if let Some(parent) = parent {
            let added = self.dag.add_child(work.index(), parent.index());
            added.expect("whom it follows stands before its parent");
            self.works[parent.index()].related = true;
            self.families.add(work, parent);
            self.settle(world, work);
        }
        if let Some(policy) = retry {
            self.policies.insert(work, policy);
        }
        if timeout.is_some() || deadline.is_some() {
            self.times.insert(work, Times { timeout, deadline, ..Times::default() });
        }
        if let Some(deadline) = deadline.filter(|_| self.is_open(work)) {
            self.arm(deadline, work);
            // One that has passed already is missed now.
            self.move_time(world, self.now);
        }
    }

    fn drop_work(&mut self, work: WorkId) {
        let entry = self.works[work.index()].clone();
        self.metrics.leave(entry.phase.state());
        self.metrics.retries_left -= u64::from(entry.retries_left);
        self.metrics.forgotten += 1;
        self.works.forget(work.index());
        self.dag.forget(work.index());
        if entry.timed {
            self.times.remove(&work);
        }
        self.policies.remove(&work);
        self.spent.remove(&work);
        let crowded = if entry.related { self.families.forget(work) } else { None };
        if let Some(parent) = crowded.filter(|parent| self.works.get(parent.index()).is_some()) {
            self.dag.prune_children(parent.index());
        }
    }
}

impl Work {
    /// Goes to the end of the line.
    fn join_line(&mut self, ticket: Ticket, now: Timestamp) {
        self.ticket = ticket;
        self.ready_since = now;
    }

    fn is_open(&self) -> bool {
        !self.phase.state().is_terminal()
    }

    fn listing(&self) -> Listing {
        Listing { cost: self.cost, priority: self.priority }
    }
}

#[cfg(test)]
mod tests;

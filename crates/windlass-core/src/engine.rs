//! The engine: takes in news, decides which work is next, and tells what follows.
//!
//! A deterministic state machine. It has no clock, no threads and no IO; a driver passes the time
//! in, pulls grants, and reports how attempts ended. Every change that a replay must reproduce
//! goes through [`Engine::evolve`], live and in recovery alike.

use std::collections::{BTreeMap, VecDeque};

use crate::capacity::{Demand, Refusal};
use crate::column::Column;
use crate::dag::Dag;
use crate::fact::{Fact, Happening, World};
use crate::input::{Dependency, DependencyError, Grant, Input, Rejected, Submission, SubmitError};
use crate::metrics::Metrics;
use crate::phase::{Phase, Step, Why, WorkState};
use crate::queue::{Lines, Ticket, Watch};
use crate::retry::RetryPolicy;
use crate::{Amount, ClientId, CostId, LevelId, ResourceCost, ResourceId, Timestamp, WorkId};

mod admission;
mod attempt;
mod check;
mod config;
mod costs;
mod digest;
mod edges;
mod explain;
mod family;
mod reopen;
mod step;
mod timers;
mod times;
mod transfer;
mod view;
mod work;

pub use config::{EngineConfig, Order};
use costs::RecentCosts;
pub use family::Children;
use family::Families;
use timers::Timers;
use times::Times;
pub use transfer::Arrival;
use work::{Staged, Work};

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
    timers: Timers,
    /// Of those works that have times of their own.
    times: BTreeMap<WorkId, Times>,
    /// Of those works that have a policy of their own.
    policies: BTreeMap<WorkId, RetryPolicy>,
    /// How many retries a work has used up, if any.
    spent: BTreeMap<WorkId, u32>,
    families: Families,
    /// The work for which the capacity sets something aside.
    standing: Option<WorkId>,
    /// What has refused the first in line while there was nobody whom a set-aside could bind.
    owed: Option<(WorkId, Refusal)>,
    /// By [`CostId`].
    costs: Vec<Demand>,
    known_costs: BTreeMap<Demand, CostId>,
    recent_costs: RecentCosts,
    staged: VecDeque<Staged>,
    staged_after: VecDeque<Dependency>,
    metrics: Metrics,
}

impl Engine {
    /// An engine whose works take what they need as `client`.
    #[must_use]
    pub fn new(config: EngineConfig, client: ClientId) -> Self {
        Self {
            lines: Lines::new(config.ageing),
            config,
            client,
            now: Timestamp::ZERO,
            ahead: 0,
            works: Column::default(),
            dag: Dag::new(),
            tickets: Ticket::MIN,
            timers: Timers::new(),
            times: BTreeMap::new(),
            policies: BTreeMap::new(),
            spent: BTreeMap::new(),
            families: Families::default(),
            standing: None,
            owed: None,
            costs: Vec::new(),
            known_costs: BTreeMap::new(),
            recent_costs: RecentCosts::default(),
            staged: VecDeque::new(),
            staged_after: VecDeque::new(),
            metrics: Metrics::default(),
        }
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
        if let Some(parent) = submission.more.and_then(|more| more.parent) {
            self.expect_parent(parent, submission.after.iter().map(|after| after.work))?;
        }
        let work = WorkId::from_index(self.works.pushed());
        // What the fact would find staged is at hand.
        self.admit(world, work, submission);
        self.note(world, Fact { at: self.now, what: Happening::Submitted { work } });
        Ok(work)
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
            Input::Skip(work) => {
                if self.work(work)?.phase != Phase::Gated {
                    return Err(Rejected::NotGated { work });
                }
                self.record(world, Happening::GateSkipped { work });
            }
            Input::Suspend(grant) => self.suspend(world, grant)?,
            Input::WantOn(grant) => self.want_on(world, grant)?,
            Input::Join(grant) => self.join(world, grant)?,
            Input::StopChildren(work) => self.stop_children(world, work)?,
            Input::Reopen(work) => {
                self.would_reopen(work)?;
                self.record(world, Happening::Reopened { work });
            }
            Input::Finished { grant, outcome } => _ = self.end(world, grant, outcome)?,
            Input::Cancel(work) => self.cancel(world, work)?,
            Input::CancelAll => self.cancel_all(world),
            Input::Forget(work) => {
                if !self.work(work)?.phase.state().is_terminal() {
                    return Err(Rejected::NotEnded { work });
                }
                self.record(world, Happening::Forgotten { work });
            }
            Input::LookAgain => self.lines.open_lots(Watch::Gone),
            Input::Tick => self.lines.advance(self.now),
        }
        Ok(())
    }

    /// When to apply [`Input::Tick`] and look for the next grant if nothing else happens first.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let chance = self.lines.next_wakeup(self.now).unwrap_or(Timestamp::MAX);
        Some(self.timers.earliest().min(chance)).filter(|next| *next < Timestamp::MAX)
    }

    /// Takes in one fact: the only function that changes what [`Engine::digest`] covers.
    ///
    /// # Panics
    ///
    /// If the fact does not follow from those before it.
    pub fn evolve(&mut self, world: &mut World<'_>, fact: &Fact) {
        self.take_in(world, fact);
    }

    /// The same, made anew for each kind of fact where it is known.
    #[inline(always)]
    fn take_in(&mut self, world: &mut World<'_>, fact: &Fact) {
        self.move_time(world, fact.at);
        match fact.what {
            Happening::Submitted { work } => self.admit_staged(world, work),
            Happening::EdgeAdded { from, to, kind } => {
                let connected = self.connect(world, Dependency { work: from, kind }, to);
                connected.expect("a journaled edge closes no cycle");
            }
            Happening::Started { work, attempt } => self.start(world, work, attempt),
            Happening::Ended { work, attempt, ending } => {
                let attempts = self.works[work.index()].attempts;
                assert_eq!(attempts, attempt, "only the latest attempt can end");
                self.take_end(world, work, ending);
                self.settle(world, work);
            }
            Happening::GateOpened { work } => self.open_gate(world, work),
            Happening::GateRejected { work } => {
                self.step(world, work, Step::GiveUp);
                self.settle(world, work);
            }
            Happening::GateSkipped { work } => {
                self.works[work.index()].unneeded = true;
                self.step(world, work, Step::Skip);
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
                self.wake(world, &wakes, Watch::Gone);
            }
            Happening::Forgotten { work } => self.drop_work(work),
        }
    }

    #[inline(always)]
    fn record(&mut self, world: &mut World<'_>, what: Happening) {
        self.advance(world);
        let fact = Fact { at: self.now, what };
        self.take_in(world, &fact);
        self.note(world, fact);
    }

    #[inline]
    fn note(&self, world: &mut World<'_>, fact: Fact) {
        if let Some(facts) = &mut world.facts {
            facts.push(fact);
        }
    }

    /// Lets everything happen that time alone brings by now.
    #[inline]
    pub fn advance(&mut self, world: &mut World<'_>) {
        self.move_time(world, world.now);
    }
}

#[cfg(test)]
mod tests;

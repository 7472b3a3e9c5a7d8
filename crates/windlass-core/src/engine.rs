//! The engine: applies inputs, decides which work starts next, and reports what follows.
//!
//! A deterministic state machine. The driver passes the time in, pulls grants, and reports how
//! attempts ended. Every change that a replay must reproduce goes through [`Engine::evolve`], live
//! and in recovery alike.
//!
//! * `state` holds what facts decide: phases, edges, attempts, times, families.
//! * `admission` holds what can be computed again: queues, grants, the reservation, watched
//!   counters.
//! * `effects` carries a change of phase from the first to the second.
//!
//! To find the next work, `admission` asks the queue for the first candidate that may fit and tests
//! it against the capacity tree. A refused candidate blocks its whole group of equal cost, and the
//! search continues with the next group. If the first work of the queue was refused, the engine
//! reserves what it lacks and may start later works with the rest, unless its [`Order`] is strict.
//!
//! Has no clock, no threads and no IO.

use crate::base::EngineBase;
use crate::capacity::{CapacityTree, CostError};
use crate::fact::{Fact, Happening, World};
use crate::input::{Dependency, Grant, Input, Rejected, Submission, SubmissionError};
use crate::phase::{Phase, WorkState};
use crate::{
    Ageing, Amount, ClientId, CostId, LevelId, ResourceCost, ResourceId, Timestamp, WorkId,
};

mod admission;
mod attempt;
mod begin;
mod check;
mod config;
mod costs;
mod effects;
mod explain;
mod graph;
mod pause;
mod state;
mod view;
mod workers;

use admission::Admission;
pub use admission::Arrival;
pub use config::{EngineConfig, Order, Precedence};
use effects::Effects;
pub use state::Children;
use state::{Offer, State};

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
    state: State,
    admission: Admission,
}

impl Engine {
    /// Creates an engine whose works take capacity as `client`.
    ///
    /// # Panics
    ///
    /// Panics if works are queued in the order of their submission, and age.
    #[must_use]
    pub fn new(config: EngineConfig, client: ClientId) -> Self {
        let ages = config.ageing != Ageing::NONE;
        assert!(
            !ages || config.precedence == Precedence::Ready,
            "works that age have no fixed order"
        );
        Self {
            admission: Admission::new(&config, client),
            state: State::new(config.precedence),
            config,
        }
    }

    /// Returns the id of a cost, which includes one slot unless it names slots itself. Refuses a
    /// cost that can never be met. The id of a cost that no work has is valid until the next call
    /// of this function; that of the empty cost, while the engine stays on its tree.
    pub fn cost(
        &mut self,
        capacity: &CapacityTree,
        cost: &ResourceCost,
    ) -> Result<CostId, CostError> {
        if self.admission.costs_may_be_vacated(self.state.len()) {
            self.admission.vacate_costs(self.state.costs());
        }
        self.admission.cost(capacity, cost)
    }

    /// Submits a new work.
    pub fn submit(
        &mut self,
        world: &mut World<'_>,
        submission: Submission<'_>,
    ) -> Result<WorkId, SubmissionError> {
        let unknown = |after: &&Dependency| self.state.get(after.work).is_none();
        if let Some(&Dependency { work, .. }) = submission.after.iter().find(unknown) {
            return Err(SubmissionError::UnknownDependency { work });
        }
        self.advance(world);
        if let Some(parent) = submission.extras.and_then(|extras| extras.parent) {
            self.expect_parent(parent, submission.after)?;
        }
        let work = self.state.next_work();
        let mut effects = Effects::new(&mut self.admission, world);
        self.state.admit(&mut effects, work, submission);
        note(world, Fact { at: self.state.now(), what: Happening::Submitted { work } });
        Ok(work)
    }

    /// Replaces what was submitted of a work that has not begun: its cost, its priority, its retries, its
    /// timeout, and whether it has a gate, which is shut then. Its dependencies, its deadline, the work beside
    /// which it goes and its place in the order of submission stay.
    pub fn replace(
        &mut self,
        world: &mut World<'_>,
        work: WorkId,
        submission: Submission<'_>,
    ) -> Result<(), Rejected> {
        self.advance(world);
        let entry = self.work(work)?;
        if entry.attempts > 0 || entry.phase().state() == WorkState::Running {
            return Err(Rejected::Begun { work });
        }
        self.state.stage(submission);
        self.record(world, Happening::Replaced { work });
        Ok(())
    }

    /// Provides a submission for a later `Submitted` or `Replaced` fact. A replay stages submissions in the
    /// order of these facts.
    pub fn stage(&mut self, submission: Submission<'_>) {
        self.state.stage(submission);
    }

    /// Returns what stands for all facts so far, without the submissions of the works that are not
    /// forgotten. Returns none if a work is a child or a parent, or waits for one that was submitted later.
    /// Works that become ready at one end do so in the order of their submission then; this decides something
    /// only with [`Precedence::Ready`], for works that got dependencies later.
    #[must_use]
    pub fn base(&self) -> Option<EngineBase> {
        self.state.base()
    }

    /// Brings a new engine to the state of the one that `base` was taken from. The submissions of its works
    /// were staged before, in the order of the base; their own dependencies do not count.
    ///
    /// # Panics
    ///
    /// Panics if works were submitted before, or a submission is not staged.
    pub fn restore(&mut self, world: &mut World<'_>, base: &EngineBase) {
        self.state.restore(&mut Effects::new(&mut self.admission, world), base);
    }

    /// Changes one limit of the capacity and records a fact, so that a replay changes it too.
    pub fn set_limit(
        &mut self,
        world: &mut World<'_>,
        level: LevelId,
        resource: ResourceId,
        limit: Amount,
    ) {
        self.record(world, Happening::LimitSet { level, resource, limit });
    }

    /// Applies one input.
    pub fn apply(&mut self, world: &mut World<'_>, input: Input) -> Result<(), Rejected> {
        self.advance(world);
        match input {
            Input::Begin(Grant { work, attempt }) => {
                self.expect_granted(Grant { work, attempt })?;
                let worker = self.admission.number_for(world.capacity, work);
                self.record(world, Happening::Started { work, attempt, worker });
            }
            Input::HandBack(grant) => {
                self.expect_granted(grant)?;
                self.offer(world, grant.work, Offer::HandedBack);
            }
            Input::Refuse(grant) => {
                self.expect_granted(grant)?;
                self.offer(world, grant.work, Offer::RefusedOutside);
            }
            Input::Notify(work) => {
                if self.work(work)?.phase() != Phase::WaitingOutside {
                    return Err(Rejected::NotWaitingOutside { work });
                }
                self.offer(world, work, Offer::Renewed);
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
                if self.work(work)?.phase() != Phase::Gated {
                    return Err(Rejected::NotGated { work });
                }
                self.record(world, Happening::GateSkipped { work });
            }
            Input::Suspend(grant) => self.suspend(world, grant)?,
            Input::ResumeRequested(grant) => self.request_resume(world, grant)?,
            Input::Join(grant) => self.join(world, grant)?,
            Input::StopChildren(work) => self.stop_children(world, work)?,
            Input::Reopen(work) => {
                self.would_reopen(work)?;
                self.record(world, Happening::Reopened { work });
            }
            Input::Finished { grant, outcome } => _ = self.end(world, grant, outcome)?,
            Input::Cancel(work) => self.cancel(world, work)?,
            Input::CancelAll => self.cancel_all(world),
            Input::Halt(grant) => self.halt(world, grant)?,
            Input::Continue(grant) => self.continue_halted(world, grant)?,
            Input::Pause(work) => self.pause(world, work)?,
            Input::Unpause(work) => self.unpause(world, work)?,
            Input::PauseAll => self.pause_all(world),
            Input::UnpauseAll => self.unpause_all(world),
            Input::Move { work, before } => {
                self.work(work)?;
                before.map_or(Ok(()), |before| self.work(before).map(drop))?;
                if before != Some(work) {
                    self.record(world, Happening::Moved { work, before });
                }
            }
            Input::Forget(work) => {
                if self.work(work)?.is_open() {
                    return Err(Rejected::NotEnded { work });
                }
                self.record(world, Happening::Forgotten { work });
            }
            Input::RetrySearch => self.admission.retry_search(),
            Input::RetryPlacement => self.admission.retry_placement(world.capacity),
            Input::Tick => self.admission.advance(self.state.now()),
        }
        Ok(())
    }

    /// Returns when the driver should apply [`Input::Tick`] and search for the next grant, if
    /// nothing else happens first.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        let chance = self.admission.next_wakeup(self.state.now()).unwrap_or(Timestamp::MAX);
        Some(self.state.clock().earliest().min(chance)).filter(|next| *next < Timestamp::MAX)
    }

    /// Applies one fact. This is the only function that changes what [`Engine::digest`] covers.
    ///
    /// # Panics
    ///
    /// Panics if the fact does not follow from those before it.
    pub fn evolve(&mut self, world: &mut World<'_>, fact: &Fact) {
        self.state.evolve(&mut Effects::new(&mut self.admission, world), fact);
    }

    /// Applies a fact that happens now, and appends it to the facts to be journaled.
    #[inline(always)]
    fn record(&mut self, world: &mut World<'_>, what: Happening) {
        let fact = Fact { at: self.state.now().max(world.now), what };
        self.state.evolve(&mut Effects::new(&mut self.admission, world), &fact);
        note(world, fact);
    }

    /// Applies every timer that is due by now.
    #[inline]
    pub fn advance(&mut self, world: &mut World<'_>) {
        let now = world.now;
        self.state.advance(&mut Effects::new(&mut self.admission, world), now);
    }
}

#[inline]
fn note(world: &mut World<'_>, fact: Fact) {
    if let Some(facts) = &mut world.facts {
        facts.push(fact);
    }
}

#[cfg(test)]
mod tests;

//! The engine of Windlass: decides which work may start when, and explains why the others wait.
//!
//! Everything here is a pure, deterministic state machine. There is no clock, no thread, no IO and
//! no async. Time is an argument; the driver of an [`Engine`] pulls [`Grant`]s from it and reports
//! how the attempts ended. The same engine drives the in-process scheduler, durable runs and the
//! simulator.
//!
//! * [`Engine`]: works, their dependencies, their order, their retries.
//! * [`CapacityTree`]: limits that several engines share, all or nothing.
//! * [`DependencyGraph`]: keys that depend on each other, and which of them can start.
//! * [`Balancer`]: moves limits to the levels that use them.
//! * [`Lock`], [`Semaphore`]: names with one or several holders, each under a [`Lease`] and with a
//!   fencing token that only grows; [`CoordinationState`]: many names and the queue of their
//!   waiters.
//!
//! With one slot for two works, the second waits, and the engine explains why:
//!
//! ```
//! use windlass_core::*;
//!
//! let mut capacity = CapacityTree::new(&ResourceCost::new().with(SLOTS, Amount::from(1)));
//! let client = capacity.add_client(CapacityTree::ROOT);
//! let mut engine = Engine::new(EngineConfig::default(), client);
//! let cost = engine.cost(&capacity, &ResourceCost::new())?;
//! let mut wakes = Vec::new();
//! let now = Timestamp::ZERO;
//! let mut world = World {
//!     now,
//!     capacity: &mut capacity,
//!     facts: None,
//!     transitions: None,
//!     wakes: &mut wakes,
//! };
//! let [first, second] = [0, 1].map(|_| engine.submit(&mut world, Submission::of(cost)));
//! let (first, second) = (first?, second?);
//!
//! let grant = engine.take_next(&mut world).expect("there is a slot");
//! engine.apply(&mut world, Input::Begin(grant))?;
//! assert_eq!((grant.work, engine.take_next(&mut world)), (first, None));
//! let why = &engine.explain(world.capacity, second)[0];
//! assert!(matches!(why, Reason::Short { holders, .. } if *holders == [first]), "{why:?}");
//!
//! world.now = Timestamp::from_millis(5);
//! engine.apply(&mut world, Input::Finished { grant, outcome: Outcome::Success })?;
//! assert_eq!(engine.take_next(&mut world).map(|grant| grant.work), Some(second));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The crate to add to a program is `windlass`, which drives this one with Tokio. The rules of all
//! decisions are in `docs/rules.md` of the repository.

mod ageing;
mod amount;
mod answer;
mod balancer;
mod base;
mod capacity;
mod column;
mod coordination;
mod cost;
mod dag;
mod engine;
mod fact;
pub mod graph;
mod id;
mod input;
mod lease;
mod lock;
mod metrics;
mod nearest;
mod phase;
mod placement;
mod queue;
mod random;
mod rate;
mod reason;
mod retry;
mod semaphore;
mod time;
mod unprintable;
mod wait_queue;

pub use ageing::{Ageing, AgeingError};
pub use amount::{Amount, AmountError};
pub use answer::Answer;
pub use balancer::{Balancer, BalancerChild, BalancerError, BalancerOptions};
pub use base::{EdgeBase, EngineBase, PausesBase, TimesBase, WorkBase};
pub use capacity::{
    CapacityTree, CostError, Demand, LevelCounts, NamedLevel, Place, Refusal, RefusalCounts,
    ReleaseError, SLOTS, Short, Shortage,
};
pub use column::Column;
pub use coordination::{
    Claim, ClaimError, Claimed, CoordinationEvent, CoordinationRecord, CoordinationState,
    CoordinationStats, DeclareError, Hold, NameRecord, NameRefusal, Taken,
};
pub use cost::{ResourceCost, ResourceCostError};
pub use dag::{EdgeKind, EdgeOutcome};
pub use engine::{Arrival, Children, Engine, EngineConfig, Order, Precedence};
pub use fact::{Ending, Fact, Happening, Transition, World};
pub use graph::{DependencyGraph, NodeEvent, NodeState};
pub use id::{ClientId, CostId, LevelId, ResourceId, WorkId, WorkerId};
pub use input::{
    AddDependencyError, Begun, Dependency, Extras, Grant, Input, Outcome, Rejected, Submission,
    SubmissionError,
};
pub use lease::{HolderId, Lease, LeaseTerms, Presence, Remains, Token};
pub use lock::{Lock, LockAcquire};
pub use metrics::Metrics;
pub use nearest::{nearest, some_of};
pub use phase::{Phase, StopReason, WorkState};
pub use placement::{Intake, Lack, Selector, WORKER, WorkerKind, WorkerOffer};
pub use random::Random;
pub use rate::{Quota, Rate, RateError};
pub use reason::Reason;
pub use retry::{RETRY_A_FEW, RETRY_A_LOT, RETRY_NEVER, RETRY_ONCE, RetryPolicy};
pub use semaphore::{Semaphore, SemaphoreAcquire, WeightError};
pub use time::Timestamp;
pub use unprintable::{Unprintable, is_unprintable};
pub use wait_queue::{CLAIM_GRACE, Name, Need, Waiter};

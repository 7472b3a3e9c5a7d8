//! The engine of Windlass: decides which work may start when, and says why another may not.
//!
//! Everything here is a pure, deterministic state machine. There is no clock, no thread, no IO and
//! no async; time is an argument, and whoever drives the [`Engine`] pulls [`Grant`]s from it and
//! reports how they ended. The same value drives the in-process scheduler, durable runs and the
//! simulator.
//!
//! * [`Engine`]: works, their dependencies, their order, their retries.
//! * [`CapacityTree`]: limits that several engines share, all or nothing.
//! * [`DependencyGraph`]: keys that depend on each other, and which of them can start.
//! * [`Dag`]: who follows whom, without cycles.
//! * [`HierarchicalBalancer`]: moves such limits to where they are used.
//! * [`Lock`]: a name that one holder at a time may have, with a token that only grows.
//!
//! The crate to add to a program is `windlass`, which drives this one with Tokio.

mod ageing;
mod amount;
mod balancer;
mod capacity;
mod column;
mod cost;
mod dag;
mod engine;
mod fact;
pub mod graph;
mod id;
mod input;
mod lock;
mod metrics;
mod nearest;
mod phase;
mod queue;
mod random;
mod rate;
mod reason;
mod retry;
mod time;

pub use ageing::{Ageing, AgeingError};
pub use amount::{Amount, AmountError};
pub use balancer::{BalancerChild, BalancerError, BalancerOptions, HierarchicalBalancer};
pub use capacity::{
    CapacityTree, CostError, Demand, LevelCounts, Place, Refusal, RefusalCounts, ReleaseError,
    SLOTS, Short, Shortage,
};
pub use cost::{ResourceCost, ResourceCostError};
pub use dag::{Dag, Edge, EdgeError, EdgeKind};
pub use engine::{Arrival, Children, Engine, EngineConfig, Order};
pub use fact::{Ending, Fact, Happening, Transition, World};
pub use graph::{DependencyGraph, NodeEvent, NodeState};
pub use id::{ClientId, CostId, LevelId, ResourceId, WorkId};
pub use input::{
    Dependency, DependencyError, Grant, Input, More, Outcome, Rejected, Submission, SubmitError,
};
pub use lock::{Acquired, Busy, HolderId, Lease, Lock, NotOwner, Token};
pub use metrics::Metrics;
pub use nearest::nearest;
pub use phase::{Phase, Why, WorkState};
pub use random::Random;
pub use rate::{Quota, Rate, RateError};
pub use reason::Reason;
pub use retry::{RETRY_A_FEW, RETRY_A_LOT, RETRY_NEVER, RETRY_ONCE, RetryPolicy};
pub use time::Timestamp;

//! Limits that several tasks, schedulers and runners share: a tree of capacities, its permits and its balancer.
//!
//! | for | look at |
//! |---|---|
//! | limits in a tree, and waiting for them | [`ResourceCapacity`], [`Permit`] |
//! | limits for each key, such as a host | [`KeyedCapacity`] |
//! | amounts | [`ResourceCost`], [`Amount`], [`Rate`], [`Quota`] |
//! | moving limits to where they are used | [`HierarchicalBalancer`] |
//!
//! Core's `CapacityTree` makes all decisions. All handles of a tree share it behind one lock, so every change
//! is atomic for all of them. A release returns the clients that should try again; they are notified when no
//! lock is held. A level is removed when its last handle and its last user are dropped.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
pub use windlass_core::{
    Amount, BalancerError, BalancerOptions, Quota, Rate, RateError, ReleaseError, ResourceCost,
};
use windlass_core::{CapacityTree, ClientId, CostError, LevelId, Timestamp};

mod acquire;
mod change;
mod client;
mod clock;
mod keyed;
mod level;
mod metrics;
mod permit;
mod refusal;
mod shared;
mod subscription;
mod take;

pub use crate::balancer::{BalancedCapacity, BalancerSetupError, HierarchicalBalancer};
pub(crate) use client::Client;
pub(crate) use clock::Clock;
pub use keyed::KeyedCapacity;
use level::Level;
pub use metrics::{CapacityMetrics, RollingRates};
pub use permit::Permit;
pub use refusal::{CapacityLevel, ImpossibleCost, ReconcileError, Shortfall, TryAcquireError};
use shared::Shared;
pub(crate) use shared::TreeGuard;
pub use subscription::CapacitySubscription;

/// A share of limited resources, such as slots, memory or licences. Clones are the same share.
///
/// A capacity may have children. What a child gives is bound by its own limits and by those of
/// everything above it, all or nothing.
///
/// ```
/// use windlass::{ResourceCapacity, ResourceCost};
///
/// // 16 in all, and a team that may have 8 of them.
/// let cluster = ResourceCapacity::new([("gpu", 16)]);
/// let team = cluster.child([("gpu", 8)]);
///
/// let big = ResourceCost::from([("gpu", 6)]);
/// assert!(team.can_acquire(&big), "6 <= 8 here and 6 <= 16 above");
/// let permit = team.try_acquire(&big)?;
/// assert_eq!(team.available().to_string(), "gpu=2");
/// assert_eq!(cluster.available().to_string(), "gpu=10");
///
/// // Another team under the same cluster.
/// let team2 = cluster.child([("gpu", 12)]);
/// let huge = ResourceCost::from([("gpu", 11)]);
/// assert!(!team2.can_acquire(&huge), "11 <= 12 here, but 11 > 10 above");
///
/// drop(permit);
/// assert!(team2.can_acquire(&huge));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct ResourceCapacity {
    level: Arc<Level>,
}

impl ResourceCapacity {
    /// Returns a capacity with these limits, the root of a new tree.
    pub fn new(limits: impl Into<ResourceCost>) -> Self {
        Self::at(Arc::new(Shared::new(&limits.into())), CapacityTree::ROOT)
    }

    /// Returns a new capacity with these limits below this one.
    pub fn child(&self, limits: impl Into<ResourceCost>) -> Self {
        let id = self.lock().add_level(self.level.id, &limits.into());
        Self::at(Arc::clone(&self.level.shared), id)
    }

    /// Returns the same capacity with a name, which error messages show.
    pub fn named(self, name: impl Into<Arc<str>>) -> Self {
        self.level.shared.name(self.level.id, name.into());
        self
    }

    /// Returns the limits of this level, by name, without rates and quotas.
    #[must_use]
    pub fn limits(&self) -> ResourceCost {
        self.lock().limits(self.level.id)
    }

    /// Returns what is free at this level itself, by name; zero for a resource in debt.
    #[must_use]
    pub fn available(&self) -> ResourceCost {
        let now = self.now();
        self.lock().available(self.level.id, now)
    }

    /// Returns the fraction of each limit of this level that is in use, from 0 to 1; 0 for a limit of 0. Rates
    /// and quotas are left out, because they are not held.
    #[must_use]
    pub fn utilization(&self) -> BTreeMap<String, f64> {
        let tree = self.lock();
        let parts = tree.utilization(self.level.id).into_iter();
        parts.map(|(name, part)| (name.to_owned(), part)).collect()
    }

    /// Returns what is free at this level and all above it, the minimum of each resource; `None` if one is
    /// exhausted.
    #[must_use]
    pub fn peek(&self) -> Option<ResourceCost> {
        let now = self.now();
        self.lock().peek(self.level.id, now)
    }

    /// Adds a level with these limits under this one, and a client that takes there: a scheduler or a runner.
    /// Both are removed when the client is dropped.
    pub(crate) fn join(&self, limits: &ResourceCost) -> Client {
        Client::join(self.clone(), limits)
    }

    /// Returns a client of a tree of its own, with these limits.
    pub(crate) fn of_one(limits: &ResourceCost) -> Client {
        Client::alone(limits)
    }

    /// Locks the tree. An engine's lock is taken before this one, never after it; clients are notified once
    /// both are free.
    pub(crate) fn lock(&self) -> TreeGuard<'_> {
        self.level.shared.lock()
    }

    /// Has these clients look again. To be called while no lock is held: a task that is woken may run at once.
    pub(crate) fn notify(&self, clients: &[ClientId]) {
        self.level.shared.notify(clients);
    }

    /// The time of the whole tree, from its first look at the clock on. It never goes back.
    pub(crate) fn now(&self) -> Timestamp {
        self.level.shared.clock.now()
    }

    /// When `at` is on the runtime's clock; none if that is beyond it.
    pub(crate) fn instant(&self, at: Timestamp) -> Option<Instant> {
        self.level.shared.clock.instant(at)
    }

    /// Whether both are of one tree.
    pub(crate) fn is_related(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.level.shared, &other.level.shared)
    }

    /// Whether both are the same share.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.level, &other.level)
    }

    /// The same error, seen from this level.
    pub(crate) fn impossible(&self, error: CostError) -> ImpossibleCost {
        self.level.impossible(&self.lock(), error)
    }

    pub(crate) fn level_id(&self) -> LevelId {
        self.level.id
    }

    fn at(shared: Arc<Shared>, id: LevelId) -> Self {
        Self { level: Arc::new(Level::new(shared, id)) }
    }
}

impl fmt::Debug for ResourceCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ResourceCapacity");
        shown.field("limits", &format_args!("{}", self.limits()));
        shown.field("available", &format_args!("{}", self.available())).finish()
    }
}

/// The examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/capacity.md")]
struct Guide;

#[cfg(all(test, windlass_loom))]
mod models;
#[cfg(all(test, not(windlass_loom)))]
mod tests;

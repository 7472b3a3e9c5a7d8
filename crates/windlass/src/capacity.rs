//! Limits that many share: handles on one level of a tree.
//!
//! Everything is decided by core's `CapacityTree`, which all handles of a tree keep behind one lock,
//! so that nobody ever sees half a change. Whatever makes room names the clients that should look
//! again; they are rung when no lock is held. A level goes when its last handle and the last one
//! who takes there have gone.

use std::borrow::Borrow;
use std::fmt;
use std::sync::{Arc, MutexGuard};

use tokio::time::Instant;
use windlass_core::{CapacityTree, ClientId, LevelId, ResourceCost, Timestamp};

mod client;
mod clock;
mod shared;

pub(crate) use client::Client;
use shared::Shared;

/// A share of limited resources, such as slots, memory or licences. Clones are the same share.
///
/// A capacity may have children. What a child gives is bound by its own limits and by those of
/// everything above it, all or nothing.
///
/// ```
/// use windlass::{ResourceCapacity, ResourceCost};
///
/// let cluster = ResourceCapacity::new(ResourceCost::of([("gpu", 16)])?);
/// let team = cluster.child(ResourceCost::of([("gpu", 8)])?);
/// assert_eq!(team.limits().to_string(), "gpu=8");
/// assert_eq!(cluster.available().to_string(), "gpu=16");
/// # Ok::<(), windlass::core::ResourceCostError>(())
/// ```
#[derive(Clone)]
#[must_use]
pub struct ResourceCapacity {
    level: Arc<Level>,
}

/// What the handles of one level have in common.
struct Level {
    shared: Arc<Shared>,
    id: LevelId,
}

impl ResourceCapacity {
    /// A capacity with these limits, under nothing.
    pub fn new(limits: impl Borrow<ResourceCost>) -> Self {
        Self::at(Arc::new(Shared::new(limits.borrow())), CapacityTree::ROOT)
    }

    /// A capacity with these limits under this one.
    pub fn child(&self, limits: impl Borrow<ResourceCost>) -> Self {
        let id = self.lock().add_level(self.level.id, limits.borrow());
        Self::at(Arc::clone(&self.level.shared), id)
    }

    /// The limits of this level, by name. Rates and quotas are not among them.
    #[must_use]
    pub fn limits(&self) -> ResourceCost {
        self.lock().limits(self.level.id)
    }

    /// What this level itself has free, by name; nothing of what is in debt.
    #[must_use]
    pub fn available(&self) -> ResourceCost {
        let now = self.now();
        self.lock().available(self.level.id, now)
    }

    /// Adds a level with these limits under this one, and someone who takes there: a scheduler or a
    /// runner. Both go when the client is dropped.
    #[allow(dead_code, reason = "the schedulers join next")]
    pub(crate) fn join(&self, limits: &ResourceCost) -> Client {
        Client::join(self.clone(), limits)
    }

    /// The tree. An engine's lock is taken before this one, never after it; who should look again
    /// is rung once both are free.
    pub(crate) fn lock(&self) -> MutexGuard<'_, CapacityTree> {
        self.level.shared.lock()
    }

    /// Has these clients look again. To be called while no lock is held: who is woken may run at
    /// once.
    pub(crate) fn ring(&self, clients: &[ClientId]) {
        self.level.shared.ring(clients);
    }

    /// The time of the whole tree, from its first look at the clock on. It never goes back.
    pub(crate) fn now(&self) -> Timestamp {
        self.level.shared.clock.now()
    }

    /// When `at` is on the runtime's clock; none if that is beyond it.
    #[allow(dead_code, reason = "the schedulers join next")]
    pub(crate) fn instant(&self, at: Timestamp) -> Option<Instant> {
        self.level.shared.clock.instant(at)
    }

    fn at(shared: Arc<Shared>, id: LevelId) -> Self {
        Self { level: Arc::new(Level { shared, id }) }
    }
}

impl fmt::Debug for ResourceCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (limits, available) = (self.limits().to_string(), self.available().to_string());
        let fields = [("limits", limits), ("available", available)];
        let mut shown = f.debug_struct("ResourceCapacity");
        fields.iter().for_each(|(name, text)| _ = shown.field(name, &format_args!("{text}")));
        shown.finish()
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        self.shared.lock().remove_level(self.id);
    }
}

#[cfg(test)]
mod tests;

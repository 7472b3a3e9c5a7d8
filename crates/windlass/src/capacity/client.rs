//! A client of a capacity: a scheduler, a runner or a waiter.

use std::sync::Arc;

use tokio::sync::Notify;
use windlass_core::{ClientId, LevelId, ResourceCost};

use super::ResourceCapacity;

/// A client of a capacity's tree, at a level of its own. Dropped, it releases all that it holds, leaves the
/// queue and removes its level.
pub(crate) struct Client {
    /// The capacity that it takes from; its own level is below this one, unless the tree is its own.
    pub(crate) capacity: ResourceCapacity,
    pub(crate) id: ClientId,
    pub(crate) level: LevelId,
    /// Notified when there may be more of what the client watches.
    pub(crate) wakeup: Arc<Notify>,
}

impl Client {
    pub(super) fn join(capacity: ResourceCapacity, limits: &ResourceCost) -> Self {
        let wakeup = Arc::new(Notify::new());
        let mut tree = capacity.lock();
        let level = tree.add_level(capacity.level.id, limits);
        let id = tree.add_client(level);
        tree.remove_level(level);
        drop(tree);
        capacity.level.shared.register(id, &wakeup);
        Self { capacity, id, level, wakeup }
    }

    /// Creates a client with a tree of its own, which needs no level above the client's.
    pub(super) fn alone(limits: &ResourceCost) -> Self {
        let (capacity, wakeup) = (ResourceCapacity::new(limits), Arc::new(Notify::new()));
        let level = capacity.level.id;
        let id = capacity.lock().add_client(level);
        capacity.level.shared.register(id, &wakeup);
        Self { capacity, id, level, wakeup }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.capacity.level.shared.unregister(self.id);
        let wakes = self.capacity.lock().remove_client(self.id);
        self.capacity.notify(&wakes);
    }
}

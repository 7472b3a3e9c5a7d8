//! Notifications of free capacity, without a place in the queue.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Notify;
use windlass_core::{ClientId, ResourceCost};

use super::ResourceCapacity;

/// Reports when more may be free at a level or above it: a permit was released, or a limit changed. What
/// becomes free by the passing of time alone is not reported.
///
/// ```
/// use windlass::{ResourceCapacity, ResourceCost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let capacity = ResourceCapacity::new([("gpu", 4)]);
/// let permit = capacity.try_acquire([("gpu", 3)])?;
/// let mut changes = capacity.subscribe();
/// drop(permit);
/// assert_eq!(changes.changed().await.to_string(), "gpu=4");
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct CapacitySubscription {
    capacity: ResourceCapacity,
    client: ClientId,
    wakeup: Arc<Notify>,
}

impl ResourceCapacity {
    /// Subscribes to changes after which more may be free at this level or above it.
    pub fn subscribe(&self) -> CapacitySubscription {
        let wakeup = Arc::new(Notify::new());
        let mut tree = self.lock();
        let client = tree.add_client(self.level.id);
        self.level.shared.register(client, &wakeup);
        tree.watch_everything(client);
        drop(tree);
        CapacitySubscription { capacity: self.clone(), client, wakeup }
    }
}

impl CapacitySubscription {
    /// Waits until more may be free than at the last call. Returns what this level has free then. Changes
    /// that follow each other quickly are reported as one. The future can be dropped at any point: the next
    /// call reports what it has not.
    pub async fn changed(&mut self) -> ResourceCost {
        self.wakeup.notified().await;
        self.capacity.lock().watch_everything(self.client);
        self.capacity.available()
    }
}

impl fmt::Debug for CapacitySubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CapacitySubscription");
        shown.field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

impl Drop for CapacitySubscription {
    fn drop(&mut self) {
        self.capacity.level.shared.unregister(self.client);
        let wakes = self.capacity.lock().remove_client(self.client);
        self.capacity.notify(&wakes);
    }
}

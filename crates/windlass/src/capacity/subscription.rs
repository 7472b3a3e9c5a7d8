//! Being told when there may be more, without standing in line.

use std::fmt;
use std::sync::Arc;

use tokio::sync::Notify;
use windlass_core::{ClientId, ResourceCost};

use super::ResourceCapacity;

/// Tells when there may be more at a level or above it: something was given back, or a limit
/// changed. What time alone brings is not told.
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
    /// Tells from now on when there may be more at this level or above it.
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
    /// Waits until there may be more than at the last time, and tells what this level has then.
    /// Changes that follow each other quickly are told as one. Can be dropped at any point: what was
    /// not told yet is told at the next call.
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

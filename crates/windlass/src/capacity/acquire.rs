//! Waiting for capacity: a place in the tree's queue, kept until the permit is granted or the future is
//! dropped.
//!
//! A caller that is refused becomes a client of the tree. What it lacks is reserved for it, so no caller
//! behind it can take that between the wake-up and the next attempt to take. Dropped at any point, it leaves
//! the queue, and its reservation passes to the next waiter.
//!
//! No wake-up is lost: the waiter registers under the same lock under which it was refused, and a notification
//! that comes before it waits is kept until it does.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use windlass_core::{
    CapacityTree, ClientId, Demand, Place, Refusal, ResourceCost, Short, Shortage, Timestamp,
};

use super::{ImpossibleCost, Level, Permit, ResourceCapacity};
use crate::sync::interleave;

impl ResourceCapacity {
    /// Takes all of `cost` at this level and all above it, as soon as that is possible. Waiters are served in
    /// order; one that waits for another resource may be overtaken.
    ///
    /// A cost that can never be met is an error at once. If limits are lowered below it later, the caller waits
    /// until they are raised again. Dropping the future leaves the queue.
    ///
    /// ```
    /// use windlass::{ResourceCapacity, ResourceCost};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let capacity = ResourceCapacity::new([("gpu", 1)]);
    /// let one = ResourceCost::from([("gpu", 1)]);
    /// let first = capacity.acquire(&one).await?;
    /// let (second, ()) = tokio::join!(capacity.acquire(&one), async { drop(first) });
    /// assert_eq!(capacity.available().to_string(), "gpu=0");
    /// # drop(second?);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self, cost: impl Into<ResourceCost>) -> Result<Permit, ImpossibleCost> {
        let mut waiter = match Waiter::enter(&self.level, &cost.into())? {
            Entered::Served(permit) => return Ok(permit),
            Entered::Waits(waiter) => waiter,
        };
        loop {
            waiter.notified().await;
            if let Some(permit) = waiter.ask() {
                return Ok(permit);
            }
        }
    }
}

enum Entered {
    Served(Permit),
    Waits(Waiter),
}

/// A caller in the queue.
struct Waiter {
    level: Arc<Level>,
    client: ClientId,
    wakeup: Arc<Notify>,
    demand: Demand,
    /// When the passing of time alone may free what it waits for.
    due: Option<Instant>,
}

/// A waiter has one reservation only.
const OWNER: u64 = 0;

impl Waiter {
    fn enter(level: &Arc<Level>, cost: &ResourceCost) -> Result<Entered, ImpossibleCost> {
        let mut tree = level.shared.lock();
        let demand = tree.recent_demand(level.id, cost);
        let demand = demand.map_err(|error| level.impossible(&tree, error))?;
        let (holder, now) = (level.permits(&mut tree), level.now(&tree));
        let Err(refusal) = tree.try_take(holder, &demand, Place::First, now) else {
            return Ok(Entered::Served(Permit::new(Arc::clone(level), demand)));
        };
        let wakeup = Arc::new(Notify::new());
        let client = tree.add_client(level.id);
        level.shared.register(client, &wakeup);
        let mut waiter = Self { level: Arc::clone(level), client, wakeup, demand, due: None };
        waiter.enqueue(&mut tree, &refusal);
        Ok(Entered::Waits(waiter))
    }

    async fn notified(&self) {
        interleave();
        match self.due {
            None => self.wakeup.notified().await,
            Some(due) => tokio::select! {
                () = self.wakeup.notified() => {}
                () = sleep_until(due) => {}
            },
        }
    }

    /// Takes what it waits for and leaves the queue, if that is possible now.
    fn ask(&mut self) -> Option<Permit> {
        let level = Arc::clone(&self.level);
        let mut tree = level.shared.lock();
        let now = level.now(&tree);
        if let Err(refusal) = tree.try_take(self.client, &self.demand, Place::First, now) {
            self.enqueue(&mut tree, &refusal);
            return None;
        }
        let holder = level.permits(&mut tree);
        tree.hand_over(self.client, holder, &self.demand);
        let wakes = tree.serve(self.client);
        drop(tree);
        level.shared.notify(&wakes);
        Some(Permit::new(level, self.demand.clone()))
    }

    /// Reserves what it lacks, and registers for a notification when that may be free.
    fn enqueue(&mut self, tree: &mut CapacityTree, refusal: &Refusal) {
        let wakes = tree.reserve(self.client, OWNER, refusal);
        debug_assert!(wakes.is_empty(), "a repeated reservation frees nothing for other clients");
        for short in &refusal.shortages {
            tree.watch_with_timer(self.client, short.level, short.resource);
        }
        self.due = due(&refusal.shortages).and_then(|at| self.level.shared.clock.instant(at));
    }
}

/// Returns when the passing of time has freed everything that was short; none if something else has to happen.
fn due(shortages: &[Shortage]) -> Option<Timestamp> {
    let times = shortages.iter().map(|short| match short.why {
        Short::Rate { at } | Short::Quota { at } => Some(at).filter(|at| *at < Timestamp::MAX),
        _ => None,
    });
    times.collect::<Option<Vec<_>>>()?.into_iter().max()
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.level.shared.unregister(self.client);
        let wakes = self.level.shared.lock().remove_client(self.client);
        self.level.shared.notify(&wakes);
    }
}

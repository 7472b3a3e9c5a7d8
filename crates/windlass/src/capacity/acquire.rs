//! Waiting for room: a place in the tree's line, kept until the permit is there or nobody waits.
//!
//! One who was refused becomes a client of the tree. What refused it is set aside for it, so nobody
//! behind it can take that away between the moment its bell rings and the moment it looks. Dropped
//! at any point, it leaves the line, and what was set aside for it is the next one's.
//!
//! No wake-up is lost: it watches under the same lock under which it was refused, and a bell that
//! rings while nobody listens is heard by the next one who does.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use windlass_core::{
    CapacityTree, ClientId, Demand, Place, Refusal, ResourceCost, Short, Shortage, Timestamp,
};

use super::{ImpossibleCost, Level, Permit, ResourceCapacity};
use crate::sync::interleave;

impl ResourceCapacity {
    /// Takes all of `cost` at this level and all above it, as soon as it can be had. Those who wait
    /// are served in order; one that waits for something else may be passed.
    ///
    /// A cost that can never be had is an error at once. If limits are lowered below it later, it
    /// waits until they are raised again. Dropping the future leaves the line.
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
            waiter.be_rung().await;
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

/// One who stands in line.
struct Waiter {
    level: Arc<Level>,
    client: ClientId,
    bell: Arc<Notify>,
    demand: Demand,
    /// When time alone may bring what it waits for.
    due: Option<Instant>,
}

/// A waiter stands for one thing only.
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
        let bell = Arc::new(Notify::new());
        let client = tree.add_client(level.id);
        level.shared.hang(client, &bell);
        let mut waiter = Self { level: Arc::clone(level), client, bell, demand, due: None };
        waiter.stand(&mut tree, &refusal);
        Ok(Entered::Waits(waiter))
    }

    async fn be_rung(&self) {
        interleave();
        match self.due {
            None => self.bell.notified().await,
            Some(due) => tokio::select! {
                () = self.bell.notified() => {}
                () = sleep_until(due) => {}
            },
        }
    }

    /// What it waits for, if that can be had now; it stands in line no more then.
    fn ask(&mut self) -> Option<Permit> {
        let level = Arc::clone(&self.level);
        let mut tree = level.shared.lock();
        let now = level.now(&tree);
        if let Err(refusal) = tree.try_take(self.client, &self.demand, Place::First, now) {
            self.stand(&mut tree, &refusal);
            return None;
        }
        let holder = level.permits(&mut tree);
        tree.hand_over(self.client, holder, &self.demand);
        let wakes = tree.serve(self.client);
        drop(tree);
        level.shared.ring(&wakes);
        Some(Permit::new(level, self.demand.clone()))
    }

    /// Has what refused it set aside, and will be rung when it may be there.
    fn stand(&mut self, tree: &mut CapacityTree, refusal: &Refusal) {
        let wakes = tree.reserve(self.client, OWNER, refusal);
        debug_assert!(wakes.is_empty(), "who asks for the same again binds nobody less");
        for short in &refusal.shortages {
            tree.watch_in_line(self.client, short.level, short.resource);
        }
        self.due = due(&refusal.shortages).and_then(|at| self.level.shared.clock.instant(at));
    }
}

/// When time alone has brought all that was short; none if it is not time that does.
fn due(shortages: &[Shortage]) -> Option<Timestamp> {
    let times = shortages.iter().map(|short| match short.why {
        Short::Rate { at } | Short::Quota { at } => Some(at).filter(|at| *at < Timestamp::MAX),
        _ => None,
    });
    times.collect::<Option<Vec<_>>>()?.into_iter().max()
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.level.shared.unhang(self.client);
        let wakes = self.level.shared.lock().remove_client(self.client);
        self.level.shared.ring(&wakes);
    }
}

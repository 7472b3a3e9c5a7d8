//! Taking without waiting, with a permit or without one, and giving back.

use std::sync::Arc;

use windlass_core::{CostError, Demand, Place, ReleaseError, ResourceCost};

use super::{ImpossibleCost, Permit, ReconcileError, ResourceCapacity, TryAcquireError};
use crate::capacity::level::Level;

impl ResourceCapacity {
    /// Returns whether `cost` could be taken now, at this level and all above it. What is reserved for waiters
    /// counts as taken. For a cost that can never be met it returns false.
    #[must_use]
    pub fn can_acquire(&self, cost: impl Into<ResourceCost>) -> bool {
        let cost = &cost.into();
        let level = &*self.level;
        let mut tree = level.shared.lock();
        let Ok(demand) = tree.demand(level.id, cost) else { return false };
        let (client, now) = (level.permits(&mut tree), level.now(&tree));
        tree.can_take(client, &demand, Place::First, now)
    }

    /// Checks that the limits of this level and all above it allow `cost`, before a caller waits for it.
    pub fn validate_cost(&self, cost: impl Into<ResourceCost>) -> Result<(), ImpossibleCost> {
        let cost = &cost.into();
        let level = &*self.level;
        let tree = level.shared.lock();
        tree.demand(level.id, cost).map_err(|error| level.impossible(&tree, error))?;
        Ok(())
    }

    /// Takes all of `cost` at this level and all above it, or nothing. The permit gives it back when
    /// it is dropped.
    ///
    /// ```
    /// use windlass::{ResourceCapacity, ResourceCost};
    ///
    /// let capacity = ResourceCapacity::new([("gpu", 8), ("memory_gb", 32)]);
    /// let permit = capacity.try_acquire([("gpu", 2), ("memory_gb", 8)])?;
    /// assert_eq!(capacity.available().to_string(), "gpu=6 memory_gb=24");
    /// drop(permit);
    /// assert_eq!(capacity.available().to_string(), "gpu=8 memory_gb=32");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn try_acquire(&self, cost: impl Into<ResourceCost>) -> Result<Permit, TryAcquireError> {
        let cost = &cost.into();
        let level = &*self.level;
        let mut tree = level.shared.lock();
        let (client, now) = (level.permits(&mut tree), level.now(&tree));
        let demand = tree.recent_demand(level.id, cost);
        let demand = demand.map_err(|error| level.impossible(&tree, error))?;
        match tree.try_take(client, &demand, Place::First, now) {
            Ok(()) => Ok(Permit::new(Arc::clone(&self.level), demand)),
            Err(refusal) => Err(level.short(&tree, &refusal.shortages, level.shared.clock.now())),
        }
    }

    /// Takes as [`ResourceCapacity::try_acquire`] does, without a permit: it has to be given back
    /// with [`ResourceCapacity::release`].
    ///
    /// ```
    /// use windlass::{ResourceCapacity, ResourceCost};
    ///
    /// let capacity = ResourceCapacity::new([("gpu", 8), ("memory_gb", 32)]);
    /// let task = ResourceCost::from([("gpu", 2), ("memory_gb", 8)]);
    /// if capacity.can_acquire(&task) {
    ///     capacity.acquire_immediate(&task)?;
    ///     assert_eq!(capacity.available().to_string(), "gpu=6 memory_gb=24");
    /// }
    /// capacity.release(&task)?;
    /// assert_eq!(capacity.available().to_string(), "gpu=8 memory_gb=32");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn acquire_immediate(&self, cost: impl Into<ResourceCost>) -> Result<(), TryAcquireError> {
        let cost = &cost.into();
        let level = &*self.level;
        let mut tree = level.shared.lock();
        let demand = tree.recent_demand(level.id, cost);
        let demand = demand.map_err(|error| level.impossible(&tree, error))?;
        let (client, now) = (level.immediate(&mut tree), level.now(&tree));
        let taken = tree.try_take(client, &demand, Place::First, now);
        taken.map_err(|refusal| level.short(&tree, &refusal.shortages, level.shared.clock.now()))
    }

    /// Gives back what [`ResourceCapacity::acquire_immediate`] took, all or a part of it, at this
    /// level and all above it. More than that is an error, also while permits hold some.
    pub fn release(&self, cost: impl Into<ResourceCost>) -> Result<(), ReleaseError> {
        let cost = &cost.into();
        let level = &*self.level;
        let mut tree = level.shared.lock();
        let demand = tree.actual(level.id, cost).map_err(|error| unheld(cost, &error))?;
        let client = level.immediate(&mut tree);
        let wakes = tree.try_give_back(client, &demand)?;
        drop(tree);
        level.shared.notify(&wakes);
        Ok(())
    }

    /// Puts what was really used in place of what [`ResourceCapacity::acquire_immediate`] took for
    /// it. That may be more than a limit, which is a debt then; a rate or a quota is charged or given
    /// the difference. [`Permit::reconcile`] does the same for a permit.
    pub fn reconcile(
        &self,
        estimated: impl Into<ResourceCost>,
        actual: impl Into<ResourceCost>,
    ) -> Result<(), ReconcileError> {
        let (estimated, actual) = (&estimated.into(), &actual.into());
        let level = &*self.level;
        let mut tree = level.shared.lock();
        let estimate = tree.actual(level.id, estimated).map_err(|e| unheld(estimated, &e))?;
        let client = level.immediate(&mut tree);
        let used = tree.actual(level.id, actual);
        let used = used.map_err(|error| level.impossible(&tree, error))?;
        let now = level.now(&tree);
        let wakes = tree.reconcile(client, &estimate, &used, now)?;
        drop(tree);
        level.shared.notify(&wakes);
        Ok(())
    }
}

impl Level {
    pub(super) fn give_back(&self, demand: &Demand) {
        let mut tree = self.shared.lock();
        let client = self.permits(&mut tree);
        let wakes = tree.give_back(client, demand);
        drop(tree);
        self.shared.notify(&wakes);
    }
}

/// What no level declares cannot be held.
fn unheld(cost: &ResourceCost, error: &CostError) -> ReleaseError {
    let CostError::Unknown { name, .. } = error else {
        unreachable!("any amount of what is declared may be held");
    };
    let released = cost.amount(name).unwrap_or_default();
    ReleaseError { name: name.clone(), released, held: windlass_core::Amount::ZERO }
}

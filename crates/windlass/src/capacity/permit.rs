//! What was taken, as a value that gives it back.

use std::fmt;
use std::sync::Arc;

use windlass_core::{Demand, ResourceCost};

use super::{ImpossibleCost, Level};

/// Something taken from a [`ResourceCapacity`](crate::ResourceCapacity), given back when dropped.
///
/// ```
/// use windlass::{ResourceCapacity, ResourceCost};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let capacity = ResourceCapacity::new([("tokens", 1000)]);
/// let mut permit = capacity.acquire([("tokens", 400)]).await?;
/// // The estimate was too low: the rest is a debt, if need be.
/// permit.reconcile([("tokens", 1200)])?;
/// assert_eq!(capacity.available().to_string(), "tokens=0");
/// drop(permit);
/// assert_eq!(capacity.available().to_string(), "tokens=1000");
/// # Ok(())
/// # }
/// ```
#[must_use = "a permit that is dropped gives back at once"]
pub struct Permit {
    level: Arc<Level>,
    demand: Demand,
}

impl Permit {
    #[inline]
    pub(super) fn new(level: Arc<Level>, demand: Demand) -> Self {
        Self { level, demand }
    }

    /// Returns what the permit holds.
    #[must_use]
    pub fn cost(&self) -> ResourceCost {
        let tree = self.level.shared.lock();
        let named = self.demand.iter().map(|(r, amount)| (tree.name(r).to_owned(), amount));
        named.collect()
    }

    /// Puts what was really used in place of what was taken. That may be more than a limit, which is
    /// a debt then; a rate or a quota is charged or given the difference.
    pub fn reconcile(&mut self, actual: impl Into<ResourceCost>) -> Result<(), ImpossibleCost> {
        let actual = actual.into();
        let mut tree = self.level.shared.lock();
        let used = tree.actual(self.level.id, &actual);
        let used = used.map_err(|error| self.level.impossible(&tree, error))?;
        let (client, now) = (self.level.permits(&mut tree), self.level.now(&tree));
        let wakes = tree.reconcile(client, &self.demand, &used, now);
        drop(tree);
        self.demand = used;
        self.level.shared.notify(&wakes.expect("a permit stands for what it holds"));
        Ok(())
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        self.level.give_back(&self.demand);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("cost", &format_args!("{}", self.cost())).finish()
    }
}

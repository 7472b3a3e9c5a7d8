//! Changing what a level gives, under way.

use windlass_core::{ClientId, Quota, Rate, RateError, ResourceCost};

use super::{ResourceCapacity, TreeGuard};

impl ResourceCapacity {
    /// Sets the named limits of this level and leaves the others; a name may be new, or have been a
    /// rate or a quota. A limit below what is in use is a debt: no holder loses anything,
    /// and nothing is free until it is worked off.
    ///
    /// ```
    /// use windlass::{ResourceCapacity, ResourceCost};
    ///
    /// let cpus = |n: u32| ResourceCost::of([("cpu", n)]);
    /// let capacity = ResourceCapacity::new(cpus(8)?);
    /// capacity.acquire_immediate(&cpus(8)?)?;
    /// capacity.set_limits(&cpus(4)?);
    /// capacity.release(&cpus(4)?)?;
    /// assert_eq!(capacity.available(), cpus(0)?, "four still run");
    /// capacity.set_limits(&cpus(8)?);
    /// assert_eq!(capacity.available(), cpus(4)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_limits(&self, limits: impl Into<ResourceCost>) {
        let limits = limits.into();
        let mut tree = self.lock();
        let wakes = tree.set_limits(self.level.id, &limits);
        self.ring_after(tree, &wakes);
    }

    /// Makes a resource of this level come at a rate, in place of what was; it starts full. Taking it
    /// counts a start, and giving back gives nothing back: more comes with time. Another rate for one
    /// that has a rate keeps what has gathered.
    ///
    /// ```
    /// use std::time::Duration;
    /// use windlass::{Rate, ResourceCapacity, ResourceCost};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let api = ResourceCapacity::new(ResourceCost::new());
    /// let rate = Rate { amount: 10.into(), per: Duration::from_secs(1), burst: 2.into() };
    /// api.set_rate("calls", rate)?;
    /// let call = ResourceCost::from([("calls", 1)]);
    /// let began = tokio::time::Instant::now();
    /// for _ in 0..4 {
    ///     drop(api.acquire(&call).await?);
    /// }
    /// assert_eq!(began.elapsed(), Duration::from_millis(200), "two at once, two more in time");
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_rate(&self, name: &str, rate: Rate) -> Result<(), RateError> {
        let now = self.now();
        let mut tree = self.lock();
        let wakes = tree.set_rate(self.level.id, name, rate, now)?;
        self.ring_after(tree, &wakes);
        Ok(())
    }

    /// Allows so much of a resource of this level in each window of time, in place of what was.
    /// Windows follow each other from the tree's first look at the clock, which is at its start.
    /// Another quota for one that has a quota keeps what the window has used.
    pub fn set_quota(&self, name: &str, quota: Quota) -> Result<(), RateError> {
        let now = self.now();
        let mut tree = self.lock();
        let wakes = tree.set_quota(self.level.id, name, quota, now)?;
        self.ring_after(tree, &wakes);
        Ok(())
    }

    fn ring_after(&self, tree: TreeGuard<'_>, wakes: &[ClientId]) {
        drop(tree);
        self.notify(wakes);
    }
}

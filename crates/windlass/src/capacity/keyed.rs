//! Limits that each key has for itself, such as two connections to each host.
//!
//! A key's level is created when the key is first asked for, and forgotten when it is idle: no handle and no
//! permit of it is left, nothing is taken, and every rate and quota is full again. A level that was forgotten
//! cannot be told from one that never existed, so forgetting never lets anything start earlier.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::{Quota, Rate, RateError, ResourceCost};

use super::ResourceCapacity;

/// A capacity for each key, with the same limits, created on demand.
///
/// ```
/// use windlass::capacity::KeyedCapacity;
/// use windlass::ResourceCapacity;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let all = ResourceCapacity::new([("connections", 100)]);
/// let per_host = KeyedCapacity::new(&all, [("connections", 2)]);
///
/// let one = per_host.of("example.org").acquire([("connections", 1)]).await?;
/// let two = per_host.of("example.org").acquire([("connections", 1)]).await?;
/// assert!(!per_host.of("example.org").can_acquire([("connections", 1)]));
/// assert!(per_host.of("example.net").can_acquire([("connections", 1)]));
/// # drop((one, two));
/// # Ok(())
/// # }
/// ```
///
/// What a key takes is also bound by the capacity that the levels belong to. Idle keys are forgotten, so their
/// number does not grow with the number of keys ever used.
/// Clones are handles to the same keys.
pub struct KeyedCapacity<K> {
    each: Arc<EachKey>,
    levels: Arc<Mutex<Levels<K>>>,
}

/// What each key has.
#[derive(Clone)]
struct EachKey {
    parent: ResourceCapacity,
    limits: ResourceCost,
    rates: Vec<(String, Rate)>,
    quotas: Vec<(String, Quota)>,
}

struct Levels<K> {
    by_key: HashMap<K, ResourceCapacity>,
    /// Idle levels are looked for when there are this many, which at least doubles the number of levels between
    /// two looks: so looking costs a constant per new key.
    sweep_at: usize,
}

const FIRST_SWEEP: usize = 16;

impl<K: Eq + Hash> KeyedCapacity<K> {
    /// Creates a capacity with these limits for each key, below `parent`.
    pub fn new(parent: &ResourceCapacity, limits: impl Into<ResourceCost>) -> Self {
        Self::of_each(EachKey {
            parent: parent.clone(),
            limits: limits.into(),
            rates: Vec::new(),
            quotas: Vec::new(),
        })
    }

    /// Limits each key to a rate of `name`. To be called before the first [`of`](Self::of): what is returned has
    /// keys of its own.
    ///
    /// ```
    /// use windlass::capacity::KeyedCapacity;
    /// use windlass::{Rate, ResourceCapacity, ResourceCost};
    ///
    /// let all = ResourceCapacity::new([("connections", 100)]);
    /// let per_host = KeyedCapacity::new(&all, ResourceCost::new()).rate("calls", Rate::per_second(1))?;
    /// let permit = per_host.of("example.org").try_acquire([("calls", 1)])?;
    /// assert!(per_host.of("example.org").try_acquire([("calls", 1)]).is_err());
    /// # drop(permit);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rate(self, name: impl Into<String>, rate: Rate) -> Result<Self, RateError> {
        let name = name.into();
        ResourceCapacity::new(ResourceCost::new()).set_rate(&name, rate)?;
        let mut each = Arc::unwrap_or_clone(self.each);
        each.rates.push((name, rate));
        Ok(Self::of_each(each))
    }

    /// Limits each key to a quota of `name`. To be called before the first [`of`](Self::of), as
    /// [`rate`](Self::rate).
    pub fn quota(self, name: impl Into<String>, quota: Quota) -> Result<Self, RateError> {
        let name = name.into();
        ResourceCapacity::new(ResourceCost::new()).set_quota(&name, quota)?;
        let mut each = Arc::unwrap_or_clone(self.each);
        each.quotas.push((name, quota));
        Ok(Self::of_each(each))
    }

    /// Returns the capacity of `key`, and creates it if there is none.
    pub fn of(&self, key: K) -> ResourceCapacity {
        // Keys are the user's: their destructors run after the lock is released.
        let mut idle = Vec::new();
        let mut levels = self.lock();
        if let Some(level) = levels.by_key.get(&key) {
            return level.clone();
        }
        if levels.by_key.len() >= levels.sweep_at {
            idle.extend(levels.by_key.extract_if(|_, level| self.each.is_idle(level)));
            levels.sweep_at = FIRST_SWEEP.max(2 * levels.by_key.len());
        }
        let level = self.each.create();
        levels.by_key.insert(key, level.clone());
        level
    }

    /// Returns the number of keys that are known now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().by_key.len()
    }

    /// Returns whether no key is known now.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn of_each(each: EachKey) -> Self {
        let levels = Levels { by_key: HashMap::new(), sweep_at: FIRST_SWEEP };
        Self { each: Arc::new(each), levels: Arc::new(Mutex::new(levels)) }
    }

    fn lock(&self) -> MutexGuard<'_, Levels<K>> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EachKey {
    fn create(&self) -> ResourceCapacity {
        let level = self.parent.child(&self.limits);
        for (name, rate) in &self.rates {
            level.set_rate(name, *rate).expect("the rate was checked when it was added");
        }
        for (name, quota) in &self.quotas {
            level.set_quota(name, *quota).expect("the quota was checked when it was added");
        }
        level
    }

    /// Returns whether `level` has no user besides the map, and everything it can give is there.
    fn is_idle(&self, level: &ResourceCapacity) -> bool {
        Arc::strong_count(&level.level) == 1 && level.available() == self.full()
    }

    /// Returns what a new level has to give.
    fn full(&self) -> ResourceCost {
        let rates = self.rates.iter().map(|(name, rate)| (name, rate.burst));
        let quotas = self.quotas.iter().map(|(name, quota)| (name, quota.amount));
        rates
            .chain(quotas)
            .fold(self.limits.clone(), |full, (name, amount)| full.with(name, amount))
    }
}

impl<K> Clone for KeyedCapacity<K> {
    fn clone(&self) -> Self {
        Self { each: Arc::clone(&self.each), levels: Arc::clone(&self.levels) }
    }
}

impl<K> fmt::Debug for KeyedCapacity<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = format_args!("{}", self.each.limits);
        f.debug_struct("KeyedCapacity").field("limits", &limits).finish_non_exhaustive()
    }
}

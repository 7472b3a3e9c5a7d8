//! Balances shares over time: core's balancer, checked at its interval by a task.
//!
//! A check is one decision under the tree's lock. After [`HierarchicalBalancer::stop`] has returned
//! there is none any more.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use windlass_core as core;
use windlass_core::{BalancerError, BalancerOptions, ResourceCost};

use crate::ResourceCapacity;

/// A capacity whose limits a [`HierarchicalBalancer`] may change, as its example shows.
#[derive(Clone, Debug)]
pub struct BalancedCapacity {
    /// The capacity.
    pub capacity: ResourceCapacity,
    /// It is never shrunk below these.
    pub min: ResourceCost,
    /// It is never grown above these; the same names as in `min`.
    pub max: ResourceCost,
}

/// Shrinks shares that have been idle for long, and grows those that have been busy.
///
/// A share is busy when any of its balanced resources is used above the busy threshold, or refuses a
/// request; idle when all are used below the idle threshold and no client under it requests anything.
///
/// ```
/// use std::time::Duration;
/// use windlass::capacity::{BalancedCapacity, BalancerOptions, HierarchicalBalancer};
/// use windlass::{ResourceCapacity, ResourceCost};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gpus = |n: u32| ResourceCost::of([("gpu", n)]);
/// let cluster = ResourceCapacity::new(gpus(16)?);
/// let [team_a, team_b] = [cluster.child(gpus(12)?), cluster.child(gpus(12)?)];
/// let balanced = |capacity: &ResourceCapacity| Ok::<_, windlass::core::ResourceCostError>(
///     BalancedCapacity { capacity: capacity.clone(), min: gpus(4)?, max: gpus(15)? },
/// );
/// let options = BalancerOptions { increment: gpus(1)?, ..BalancerOptions::default() };
/// let balancer =
///     HierarchicalBalancer::new(vec![balanced(&team_a)?, balanced(&team_b)?], options)?;
///
/// let _busy = team_a.try_acquire(&gpus(11)?)?;
/// balancer.start();
/// tokio::time::sleep(Duration::from_millis(6500)).await;
/// balancer.stop();
/// assert_eq!(team_a.limits(), gpus(13)?, "busy for five seconds");
/// assert_eq!(team_b.limits(), gpus(11)?, "idle for five seconds");
/// # Ok(())
/// # }
/// ```
#[must_use = "it balances while it lives and is started, or when it is checked"]
pub struct HierarchicalBalancer {
    shared: Arc<Shared>,
    loops: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    balancer: Mutex<Checks>,
    options: BalancerOptions,
    /// So that their levels stay; the first one's tree is that of all.
    capacities: Vec<ResourceCapacity>,
}

struct Checks {
    balancer: core::Balancer,
    running: bool,
}

/// Why capacities cannot be balanced so.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum BalancerSetupError {
    /// The options or the bounds make no sense.
    #[error(transparent)]
    Invalid(#[from] BalancerError),
    /// Capacities that share nothing cannot be balanced against each other.
    #[error("the capacity at place {place} belongs to another tree than the first")]
    AnotherTree {
        /// Its place among those given, from 0.
        place: usize,
    },
}

impl HierarchicalBalancer {
    /// Creates a balancer of these capacities. It changes nothing until it is started or checked.
    pub fn new(
        children: Vec<BalancedCapacity>,
        options: BalancerOptions,
    ) -> Result<Self, BalancerSetupError> {
        let alien = |child: &BalancedCapacity| !child.capacity.is_related(&children[0].capacity);
        if let Some(place) = children.iter().position(alien) {
            return Err(BalancerSetupError::AnotherTree { place });
        }
        let capacities = children.iter().map(|child| child.capacity.clone()).collect();
        let children = children.into_iter().map(|BalancedCapacity { capacity, min, max }| {
            core::BalancerChild { level: capacity.level_id(), min, max }
        });
        let balancer = core::Balancer::new(children.collect(), options.clone())?;
        let balancer = Mutex::new(Checks { balancer, running: false });
        let shared = Arc::new(Shared { balancer, options, capacities });
        Ok(Self { shared, loops: Mutex::new(None) })
    }

    /// Checks at every interval from now on, in a task of the current runtime. Does nothing if it
    /// does so already.
    ///
    /// # Panics
    ///
    /// Outside a Tokio runtime.
    pub fn start(&self) {
        let mut loops = unpoisoned(&self.loops);
        if !is_under_way(loops.as_ref()) {
            // Locked until it counts as running, for a first check that comes at once.
            let mut checks = unpoisoned(&self.shared.balancer);
            *loops = Some(tokio::spawn(check_in_turn(Arc::clone(&self.shared))));
            checks.running = true;
        }
    }

    /// Checks no more. Does nothing if it does not.
    pub fn stop(&self) {
        let mut loops = unpoisoned(&self.loops);
        unpoisoned(&self.shared.balancer).running = false;
        if let Some(running) = loops.take() {
            running.abort();
        }
    }

    /// Returns whether it checks at every interval. It does not after the runtime in which it was started has
    /// ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        is_under_way(unpoisoned(&self.loops).as_ref())
    }

    /// Looks at every capacity now, and moves the limits of those that have been idle or busy for
    /// long enough.
    pub fn check(&self) {
        self.shared.check(&mut unpoisoned(&self.shared.balancer));
    }

    /// Returns the settings.
    #[must_use]
    pub fn options(&self) -> &BalancerOptions {
        &self.shared.options
    }
}

impl Shared {
    fn check(&self, checks: &mut Checks) {
        let Some(capacity) = self.capacities.first() else { return };
        let now = capacity.now();
        let wakes = checks.balancer.check(&mut capacity.lock(), now);
        capacity.notify(&wakes);
    }
}

fn is_under_way(checks: Option<&JoinHandle<()>>) -> bool {
    checks.is_some_and(|checks| !checks.is_finished())
}

async fn check_in_turn(shared: Arc<Shared>) {
    let interval = shared.options.check_interval;
    let mut ticks = interval_at(Instant::now() + interval, interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let mut checks = unpoisoned(&shared.balancer);
        if !checks.running {
            return;
        }
        shared.check(&mut checks);
    }
}

impl Drop for HierarchicalBalancer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for HierarchicalBalancer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.is_running();
        f.debug_struct("HierarchicalBalancer").field("running", &running).finish_non_exhaustive()
    }
}

/// Nothing panics between two changes that belong together.
fn unpoisoned<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

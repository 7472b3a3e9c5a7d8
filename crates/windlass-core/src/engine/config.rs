//! Settings of an engine.

use std::time::Duration;

use crate::Ageing;

/// Settings of an engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineConfig {
    /// How long a work waits before its next attempt when it does not say so itself.
    pub retry_delay: Duration,
    /// How waiting makes ready works more urgent.
    pub ageing: Ageing,
    /// Whether works may start before one that stands before them and does not fit.
    pub order: Order,
    /// What the jitter of retries is made from.
    pub seed: u64,
}

/// Whether works may start before one that stands before them in the queue and does not fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// They may, out of what did not refuse it.
    #[default]
    PassOver,
    /// Nothing starts before the first in the queue.
    Strict,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            retry_delay: Duration::from_secs(1),
            ageing: Ageing::NONE,
            order: Order::default(),
            seed: 0,
        }
    }
}

//! Settings of an engine.

use std::time::Duration;

use crate::Ageing;

/// Settings of an engine.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EngineConfig {
    /// The delay before a retry, for works without a policy of their own.
    pub retry_delay: Duration,
    /// How waiting raises the priority of ready works.
    pub ageing: Ageing,
    /// Whether works may start before an earlier one that does not fit.
    pub order: Order,
    /// The seed of the jitter of retries.
    pub seed: u64,
}

/// Whether works may start before an earlier one of the queue that does not fit.
///
/// ```
/// use windlass_core::{EngineConfig, Order};
///
/// let mut config = EngineConfig::default();
/// assert_eq!(config.order, Order::PassOver);
/// config.order = Order::Strict;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// They may, with the capacity that is not reserved for it.
    #[default]
    PassOver,
    /// No work starts before the first of the queue.
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

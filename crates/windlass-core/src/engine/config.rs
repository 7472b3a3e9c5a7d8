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
    /// Which of the ready works of equal priority comes first.
    pub precedence: Precedence,
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

/// Which of the ready works of equal priority comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precedence {
    /// The one that became ready first.
    #[default]
    Ready,
    /// The one that was submitted first, unless works were [moved](crate::Input::Move). Goes without ageing.
    Submitted,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            retry_delay: Duration::from_secs(1),
            ageing: Ageing::NONE,
            order: Order::default(),
            precedence: Precedence::default(),
            seed: 0,
        }
    }
}

//! The orders that a worker has taken and that have not ended, and what the scheduler wishes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_core::Timestamp;

use crate::coordinator::attempts::{OrderKey, OrderKind, StopMode};
use crate::service::texts::WishText;

/// An order by its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::service) struct OrderToken {
    pub(in crate::service) token: u64,
    pub(super) kind: OrderKind,
}

impl OrderKey for OrderToken {
    fn kind(self) -> OrderKind {
        self.kind
    }
}

/// The orders that were taken, each with the wish that was heeded last.
#[derive(Default)]
pub(super) struct TakenOrders {
    orders: BTreeMap<u64, TakenOrder>,
    /// The last order that was taken.
    last: u64,
}

struct TakenOrder {
    id: OrderToken,
    wish: Option<String>,
}

/// What an order is to do.
pub(super) enum Wish {
    /// Go on, with so much time left, and without a limit if there is none.
    Limit(Option<Duration>),
    Stop(StopMode),
}

impl TakenOrders {
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    pub(super) fn has(&self, token: u64) -> bool {
        self.orders.contains_key(&token)
    }

    /// Returns the orders that are not among `known`.
    pub(super) fn besides(&self, known: &BTreeSet<u64>) -> Vec<OrderToken> {
        let unknown = self.orders.values().filter(|order| !known.contains(&order.id.token));
        unknown.map(|order| order.id).collect()
    }

    /// Notes that an order needs not be read again.
    pub(super) fn pass(&mut self, token: u64) {
        self.last = token;
    }

    /// Adds an order.
    pub(super) fn add(&mut self, id: OrderToken) {
        self.last = id.token;
        self.orders.insert(id.token, TakenOrder { id, wish: None });
    }

    /// Removes an order that has ended.
    pub(super) fn remove(&mut self, token: u64) {
        self.orders.remove(&token);
    }

    /// Removes all orders. Returns their tokens.
    pub(super) fn take(&mut self) -> impl Iterator<Item = u64> + use<> {
        std::mem::take(&mut self.orders).into_keys()
    }

    /// Returns what an order is to do, if its wish has changed.
    pub(super) fn heed(
        &mut self,
        token: u64,
        wish: Option<String>,
        now: Timestamp,
    ) -> Option<(OrderToken, Wish)> {
        let taken = self.orders.get_mut(&token)?;
        let text = wish.as_deref()?;
        if taken.wish.as_deref() == Some(text) {
            return None;
        }
        let wanted = serde_json::from_str::<WishText>(text).ok();
        taken.wish = wish;
        let grace = Duration::from_millis;
        let wish = match wanted {
            Some(WishText::Limit { until }) => {
                Wish::Limit(until.map(|until| Timestamp::from_nanos(until).since(now)))
            }
            Some(WishText::Halt) => Wish::Stop(StopMode::Halt),
            Some(WishText::Ask { grace_ms }) => {
                Wish::Stop(StopMode::Ask { grace: grace(grace_ms) })
            }
            Some(WishText::Finish { grace_ms }) => {
                Wish::Stop(StopMode::Finish { grace: grace(grace_ms) })
            }
            Some(WishText::Kill) | None => Wish::Stop(StopMode::Kill),
        };
        Some((taken.id, wish))
    }
}

//! Amounts by resource name: what a work takes while it runs, or the limits of a level.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::Amount;

/// Amounts by resource name. Clones share the amounts, so they are cheap to create and to compare.
///
/// ```
/// use windlass_core::{Amount, ResourceCost};
///
/// let cost = ResourceCost::from([("gpu", 1), ("memory", 8)]);
/// assert_eq!(cost.to_string(), "gpu=1 memory=8");
/// assert_eq!(cost.amount("gpu"), Some(Amount::from(1)));
/// assert_eq!(cost, ResourceCost::new().with("memory", 8).with("gpu", 1));
/// ```
///
/// [`ResourceCost::of`] checks names that come from input: it refuses empty and repeated ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceCost(Arc<BTreeMap<Arc<str>, Amount>>);

/// A list of names and amounts that is not a [`ResourceCost`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ResourceCostError {
    /// A name is empty.
    #[error("empty resource name")]
    NoName,
    /// A name is repeated.
    #[error("duplicate resource {name:?}")]
    Twice {
        /// The repeated name.
        name: String,
    },
}

impl ResourceCost {
    /// Creates an empty cost.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a cost from names and amounts. Refuses empty and repeated names.
    pub fn of<N: Into<String>, A: Into<Amount>>(
        pairs: impl IntoIterator<Item = (N, A)>,
    ) -> Result<Self, ResourceCostError> {
        let mut amounts = BTreeMap::new();
        for (name, amount) in pairs {
            let name = name.into();
            if name.is_empty() {
                return Err(ResourceCostError::NoName);
            }
            if amounts.insert(Arc::from(&*name), amount.into()).is_some() {
                return Err(ResourceCostError::Twice { name });
            }
        }
        Ok(Self(Arc::new(amounts)))
    }

    /// Returns this cost with `amount` of `name`, which replaces an earlier amount of that name. Copies the
    /// amounts only if another clone has them.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, amount: impl Into<Amount>) -> Self {
        Arc::make_mut(&mut self.0).insert(Arc::from(name.into()), amount.into());
        self
    }

    /// Iterates over the amounts, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Amount)> {
        self.0.iter().map(|(name, amount)| (&**name, *amount))
    }

    /// Returns the amount of `name`, or `None` if the cost does not name it.
    #[must_use]
    pub fn amount(&self, name: &str) -> Option<Amount> {
        self.0.get(name).copied()
    }

    /// Returns whether both share one allocation, which is a fast test for equality.
    pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.is_empty() && other.0.is_empty())
    }

    /// Returns the number of resources named.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether no resource is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, Amount)> for ResourceCost {
    fn from_iter<I: IntoIterator<Item = (String, Amount)>>(amounts: I) -> Self {
        let amounts = amounts.into_iter().map(|(name, amount)| (name.into(), amount));
        Self(Arc::new(amounts.collect()))
    }
}

impl<N: Into<String>, A: Into<Amount>, const LEN: usize> From<[(N, A); LEN]> for ResourceCost {
    /// If a name is repeated, its last amount counts, as in the maps of the standard library.
    fn from(amounts: [(N, A); LEN]) -> Self {
        amounts.into_iter().map(|(name, amount)| (name.into(), amount.into())).collect()
    }
}

impl From<&ResourceCost> for ResourceCost {
    /// Returns a clone, so that functions take a cost by value, by reference or as an array.
    fn from(cost: &ResourceCost) -> Self {
        cost.clone()
    }
}

impl fmt::Display for ResourceCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, amount)) in self.iter().enumerate() {
            let gap = if position == 0 { "" } else { " " };
            write!(f, "{gap}{name}={amount}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_has_each_name_once_and_none_without_letters() {
        let cost = ResourceCost::of([("gpu", 4), ("cpu", 2)]).expect("both have names");
        assert_eq!((cost.len(), cost.amount("gpu"), cost.amount("tpu")), (2, Some(4.into()), None));
        assert_eq!(ResourceCost::of([("", 1)]), Err(ResourceCostError::NoName));
        assert_eq!(ResourceCost::of::<String, Amount>([]), Ok(ResourceCost::new()));
        let twice = ResourceCost::of([("gpu", 1), ("gpu", 2)]).unwrap_err();
        assert_eq!(twice.to_string(), "duplicate resource \"gpu\"");
    }

    #[test]
    fn an_amount_is_added_in_order_or_put_in_place_of_the_one_before() {
        let cost = ResourceCost::of([("b", 1), ("d", 2)]).expect("both have names");
        for (name, expected) in [
            ("a", "a=9 b=1 d=2"),
            ("b", "b=9 d=2"),
            ("c", "b=1 c=9 d=2"),
            ("d", "b=1 d=9"),
            ("e", "b=1 d=2 e=9"),
        ] {
            assert_eq!(cost.clone().with(name, 9).to_string(), expected);
        }
        assert_eq!(cost.to_string(), "b=1 d=2", "a clone that is changed leaves the other alone");
    }
}

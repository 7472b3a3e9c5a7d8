//! What a work takes while it runs, or what a level has to give: amounts by resource name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::Amount;

/// Amounts by resource name. Clones share them, so that many works can have the same at little cost.
///
/// ```
/// use windlass_core::{Amount, ResourceCost};
///
/// let cost = ResourceCost::new().with("gpu", Amount::from(1)).with("memory", Amount::from(8));
/// assert_eq!(cost.to_string(), "gpu=1 memory=8");
/// assert_eq!(cost.amount("gpu"), Some(Amount::from(1)));
/// assert_eq!(cost, ResourceCost::of([("memory", 8), ("gpu", 1)])?);
/// # Ok::<(), windlass_core::ResourceCostError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceCost(
    /// None if there are none, in every such cost.
    Option<Arc<Amounts>>,
);

type Amounts = BTreeMap<String, Amount>;

/// Why a list of names and amounts is not a [`ResourceCost`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ResourceCostError {
    /// A name without letters.
    #[error("a resource needs a name")]
    NoName,
    /// A name that comes more than once.
    #[error("{name:?} is named twice")]
    Twice {
        /// The name.
        name: String,
    },
}

impl ResourceCost {
    /// Nothing at all.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// These amounts of these names, each named once.
    pub fn of<N: Into<String>, A: Into<Amount>>(
        pairs: impl IntoIterator<Item = (N, A)>,
    ) -> Result<Self, ResourceCostError> {
        let mut amounts = BTreeMap::new();
        for (name, amount) in pairs {
            let name = name.into();
            if name.is_empty() {
                return Err(ResourceCostError::NoName);
            }
            if amounts.contains_key(&name) {
                return Err(ResourceCostError::Twice { name });
            }
            amounts.insert(name, amount.into());
        }
        Ok(Self::from_amounts(amounts))
    }

    fn from_amounts(amounts: Amounts) -> Self {
        Self((!amounts.is_empty()).then(|| Arc::new(amounts)))
    }

    /// The same with `amount` of `name`, in place of what was there.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, amount: Amount) -> Self {
        Arc::make_mut(self.0.get_or_insert_default()).insert(name.into(), amount);
        self
    }

    /// The amounts, by name in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Amount)> {
        self.0.iter().flat_map(|amounts| amounts.iter()).map(|(name, n)| (name.as_str(), *n))
    }

    /// How much of `name`; none if it is not named.
    #[must_use]
    pub fn amount(&self, name: &str) -> Option<Amount> {
        self.0.as_ref()?.get(name).copied()
    }

    /// Whether one is a clone of the other, which is quickly told.
    pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }

    /// How many resources are named.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |amounts| amounts.len())
    }

    /// Whether no resource is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl FromIterator<(String, Amount)> for ResourceCost {
    fn from_iter<I: IntoIterator<Item = (String, Amount)>>(amounts: I) -> Self {
        Self::from_amounts(amounts.into_iter().collect())
    }
}

impl fmt::Debug for ResourceCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResourceCost(")?;
        f.debug_map().entries(self.iter()).finish()?;
        f.write_str(")")
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
        assert_eq!(twice.to_string(), "\"gpu\" is named twice");
    }

    #[test]
    fn a_clone_that_is_changed_leaves_the_others_as_they_are() {
        let cost = ResourceCost::new().with("cpu", Amount::from(1));
        let larger = cost.clone().with("cpu", Amount::from(2));
        assert_eq!((cost.to_string(), larger.to_string()), ("cpu=1".into(), "cpu=2".into()));
        assert_eq!(format!("{cost:?}"), "ResourceCost({\"cpu\": Amount(10000)})");
    }
}

//! What a work takes while it runs, or what a level has to give: amounts by resource name.

use std::collections::BTreeMap;
use std::fmt;

use crate::Amount;

/// Amounts by resource name.
///
/// ```
/// use windlass_core::{Amount, ResourceCost};
///
/// let cost = ResourceCost::new().with("gpu", Amount::from(1)).with("memory", Amount::from(8));
/// assert_eq!(cost.to_string(), "gpu=1 memory=8");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceCost(BTreeMap<String, Amount>);

impl ResourceCost {
    /// Nothing at all.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with `amount` of `name`, in place of what was there.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, amount: Amount) -> Self {
        self.0.insert(name.into(), amount);
        self
    }

    /// The amounts, by name in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Amount)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Whether no resource is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, Amount)> for ResourceCost {
    fn from_iter<I: IntoIterator<Item = (String, Amount)>>(amounts: I) -> Self {
        Self(amounts.into_iter().collect())
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

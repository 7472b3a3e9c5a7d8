//! A cost checked against a tree.
//!
//! Most costs name few resources and are taken very often, so small ones are stored inline.

use std::cmp::Ordering;
use std::fmt;

use crate::{Amount, ResourceId};

/// A cost checked against a tree: it has resource ids instead of names, and no amounts of 0.
#[derive(Clone)]
pub struct Demand(Amounts);

type Entry = (ResourceId, Amount);
const FEW: usize = 3;

#[derive(Clone)]
enum Amounts {
    Few { count: usize, amounts: [Entry; FEW] },
    Many(Box<[Entry]>),
}

impl Demand {
    /// Iterates over the amounts by resource.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (ResourceId, Amount)> {
        self.amounts().iter().copied()
    }

    /// Creates a demand from amounts in the order of their resources, without those that are 0.
    pub(super) fn of<E>(amounts: impl Iterator<Item = Result<Entry, E>>) -> Result<Self, E> {
        let mut demand = Self::default();
        for amount in amounts {
            let amount = amount?;
            if amount.1 != Amount::ZERO {
                demand.push(amount);
            }
        }
        demand.amounts_mut().sort_unstable();
        Ok(demand)
    }

    fn push(&mut self, entry: Entry) {
        match &mut self.0 {
            Amounts::Few { count, amounts } if *count < FEW => {
                amounts[*count] = entry;
                *count += 1;
            }
            _ => self.push_behind_many(entry),
        }
    }

    #[cold]
    fn push_behind_many(&mut self, entry: Entry) {
        let many = self.amounts().iter().copied().chain([entry]).collect();
        self.0 = Amounts::Many(many);
    }

    #[inline]
    fn amounts(&self) -> &[Entry] {
        match &self.0 {
            Amounts::Few { count, amounts } => &amounts[..*count],
            Amounts::Many(amounts) => amounts,
        }
    }

    fn amounts_mut(&mut self) -> &mut [Entry] {
        match &mut self.0 {
            Amounts::Few { count, amounts } => &mut amounts[..*count],
            Amounts::Many(amounts) => amounts,
        }
    }
}

impl Default for Demand {
    fn default() -> Self {
        let nothing = (ResourceId(0), Amount::ZERO);
        Self(Amounts::Few { count: 0, amounts: [nothing; FEW] })
    }
}

impl fmt::Debug for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.amounts()).finish()
    }
}

impl PartialEq for Demand {
    fn eq(&self, other: &Self) -> bool {
        self.amounts() == other.amounts()
    }
}

impl Eq for Demand {}

impl Ord for Demand {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amounts().cmp(other.amounts())
    }
}

impl PartialOrd for Demand {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_amounts_are_kept_alike() {
        for count in 0..8u32 {
            let amounts = (0..count).rev().map(|n| (ResourceId(n), Amount::from(n)));
            let demand = Demand::of(amounts.map(Ok::<_, ()>)).expect("no error");
            let expected: Vec<_> = (1..count).map(|n| (ResourceId(n), Amount::from(n))).collect();
            assert_eq!(demand.iter().collect::<Vec<_>>(), expected, "in order, without nothing");
            assert_eq!(demand, demand.clone());
        }
    }
}

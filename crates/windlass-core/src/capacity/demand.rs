//! A cost checked against a tree, and what of it a worker has to have.
//!
//! Most costs name few resources and are taken very often, so small ones are stored inline.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::placement::Shape;
use crate::{Amount, ResourceId};

/// A cost checked against a tree: it has resource ids instead of names, and no amounts of 0.
#[derive(Clone)]
pub struct Demand {
    amounts: Amounts,
    /// What it asks of a worker, if it goes to one.
    shape: Option<Arc<Shape>>,
}

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

    #[inline]
    pub(crate) fn shape(&self) -> Option<&Arc<Shape>> {
        self.shape.as_ref()
    }

    /// Returns the same demand, for a worker of this shape.
    pub(crate) fn with_shape(self, shape: Arc<Shape>) -> Self {
        Self { shape: Some(shape), ..self }
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
        match &mut self.amounts {
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
        self.amounts = Amounts::Many(many);
    }

    #[inline]
    fn amounts(&self) -> &[Entry] {
        match &self.amounts {
            Amounts::Few { count, amounts } => &amounts[..*count],
            Amounts::Many(amounts) => amounts,
        }
    }

    fn amounts_mut(&mut self) -> &mut [Entry] {
        match &mut self.amounts {
            Amounts::Few { count, amounts } => &mut amounts[..*count],
            Amounts::Many(amounts) => amounts,
        }
    }
}

impl Default for Demand {
    fn default() -> Self {
        let nothing = (ResourceId(0), Amount::ZERO);
        Self { amounts: Amounts::Few { count: 0, amounts: [nothing; FEW] }, shape: None }
    }
}

impl fmt::Debug for Demand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.amounts()).finish()
    }
}

impl PartialEq for Demand {
    fn eq(&self, other: &Self) -> bool {
        (self.amounts(), &self.shape) == (other.amounts(), &other.shape)
    }
}

impl Eq for Demand {}

impl Ord for Demand {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amounts().cmp(other.amounts()).then_with(|| self.shape.cmp(&other.shape))
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

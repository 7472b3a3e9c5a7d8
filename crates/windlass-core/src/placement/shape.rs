//! What a work asks of its worker. Works of one shape are alike for workers.

use std::sync::Arc;

use super::labels::LabelId;
use super::{Selector, WORKER, Workers};
use crate::capacity::SLOTS;
use crate::{Amount, ResourceCost};

/// Amounts of the worker's resources, in steps, and labels. Belongs to the tree that has made it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shape {
    wants: Box<[(u32, i128)]>,
    pub(super) labels: Box<[LabelId]>,
}

impl Shape {
    /// Iterates over the columns of the resources it takes, and the amounts.
    #[inline]
    pub(super) fn wants(&self) -> impl ExactSizeIterator<Item = (usize, i128)> {
        self.wants.iter().map(|(column, steps)| (*column as usize, *steps))
    }

    /// Returns how much it takes of the resource in a column.
    #[inline]
    pub(super) fn amount(&self, column: usize) -> i128 {
        self.wants().find(|(of, _)| *of == column).map_or(0, |(_, steps)| steps)
    }
}

impl Workers {
    /// Returns what a cost asks of a worker: its slots, and what is named after [`WORKER`].
    pub(crate) fn shape(&mut self, cost: &ResourceCost, on: &Selector) -> Arc<Shape> {
        let of_worker = |name: &'_ str| match name {
            SLOTS => Some(SLOTS.to_owned()),
            name => name.strip_prefix(WORKER).map(str::to_owned),
        };
        let named = cost.iter().filter(|(_, amount)| *amount != Amount::ZERO);
        let named = named.filter_map(|(name, amount)| Some((of_worker(name)?, amount)));
        let column = |name: &str, workers: &mut Self| {
            u32::try_from(workers.column(name)).expect("fewer than 2^32 resources")
        };
        let wants = named.map(|(name, amount)| (column(&name, self), i128::from(amount.steps())));
        let mut wants: Vec<_> = wants.collect();
        wants.sort_unstable();
        Arc::new(Shape { wants: wants.into(), labels: self.labels.of(on).into() })
    }

    /// Returns the same shape for the worker of this name alone.
    pub(crate) fn pinned(&mut self, shape: &Shape, name: &str) -> Arc<Shape> {
        let mut labels = shape.labels.to_vec();
        labels.push(self.labels.number_of_name(name));
        labels.sort_unstable();
        labels.dedup();
        Arc::new(Shape { wants: shape.wants.clone(), labels: labels.into() })
    }
}

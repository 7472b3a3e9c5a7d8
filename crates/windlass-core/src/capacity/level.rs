//! One level of a tree: its cells, and what it counts of those at and below it.

use super::cell::Cell;
use crate::{LevelId, ResourceId};

#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) parent: Option<LevelId>,
    /// By resource; shorter than `names` where nobody has declared or taken the later ones.
    pub(super) cells: Vec<Cell>,
    /// How many clients at or below it have a standing request.
    pub(super) standing: usize,
    /// How often a client at or below it was refused, wherever.
    pub(super) refusals: u64,
}

impl Level {
    pub(super) fn under(parent: Option<LevelId>) -> Self {
        Self { parent, cells: Vec::new(), standing: 0, refusals: 0 }
    }

    #[inline]
    pub(super) fn cell_mut(&mut self, resource: ResourceId) -> &mut Cell {
        grown(&mut self.cells, resource.index())
    }
}

/// The place `index` of `column`, which grows as far as needed.
#[inline]
pub(super) fn grown<T: Default>(column: &mut Vec<T>, index: usize) -> &mut T {
    if column.len() <= index {
        grow(column, index);
    }
    &mut column[index]
}

#[cold]
fn grow<T: Default>(column: &mut Vec<T>, index: usize) {
    column.resize_with(index + 1, T::default);
}

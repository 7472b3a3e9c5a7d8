//! One level of a tree: its counters and statistics; adding and removing levels.

use super::counter::Counter;
use super::{CapacityTree, RefusalCounts};
use crate::{LevelId, ResourceCost, ResourceId};

#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) parent: Option<LevelId>,
    /// By resource; shorter than `names` if the later resources were neither declared nor taken
    /// here.
    pub(super) counters: Vec<Counter>,
    /// The number of clients at or below it that have a reservation.
    pub(super) reservation: usize,
    /// The number of refused demands of clients at or below it, by any level.
    pub(super) refusals: u64,
    /// The number of takes of clients at or below it.
    pub(super) accepted: u64,
    /// The number of these that are not released.
    pub(super) in_flight: u64,
    /// The number of refusals by this level itself.
    pub(super) refused: RefusalCounts,
    /// The number of its clients and of the levels directly below it.
    pub(super) tenants: usize,
    /// Whether to remove it with its last tenant.
    leaving: bool,
}

impl CapacityTree {
    /// Adds a level below `parent`: its clients are bound by its own limits and by those of all
    /// levels above. The id of a removed level may be reused.
    pub fn add_level(&mut self, parent: LevelId, limits: &ResourceCost) -> LevelId {
        self.levels[parent.index()].tenants += 1;
        let level = Level::under(Some(parent));
        let id = match self.vacant_levels.pop() {
            Some(id) => {
                self.levels[id.index()] = level;
                id
            }
            None => {
                self.levels.push(level);
                LevelId::at(self.levels.len() - 1)
            }
        };
        self.set_limits(id, limits);
        id
    }

    /// Removes a level as soon as it has no clients and no levels below it, now or later. Until
    /// then its limits apply as before. The root is never removed.
    pub fn remove_level(&mut self, level: LevelId) {
        self.levels[level.index()].leaving = true;
        self.remove_unused(level);
    }

    /// Counts one tenant less: a client of this level or a level below it was removed.
    pub(super) fn vacate(&mut self, level: LevelId) {
        self.levels[level.index()].tenants -= 1;
        self.remove_unused(level);
    }

    /// Removes the levels that are no longer needed, from here upwards.
    fn remove_unused(&mut self, level: LevelId) {
        let mut next = level;
        while let entry = &mut self.levels[next.index()]
            && entry.leaving
            && entry.tenants == 0
            && let Some(parent) = entry.parent
        {
            *entry = Level::under(None);
            self.vacant_levels.push(next);
            self.levels[parent.index()].tenants -= 1;
            next = parent;
        }
    }
}

impl Level {
    pub(super) fn under(parent: Option<LevelId>) -> Self {
        Self {
            parent,
            counters: Vec::new(),
            reservation: 0,
            refusals: 0,
            accepted: 0,
            in_flight: 0,
            refused: RefusalCounts::default(),
            tenants: 0,
            leaving: false,
        }
    }

    #[inline]
    pub(super) fn counter_mut(&mut self, resource: ResourceId) -> &mut Counter {
        grown(&mut self.counters, resource.index())
    }
}

/// Returns the entry at `index`; extends `column` with defaults if needed.
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

//! One level of a tree: its counters, and what it counts of those at and below it. Added and removed.

use super::counter::Counter;
use super::{CapacityTree, RefusalCounts};
use crate::{LevelId, ResourceCost, ResourceId};

#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) parent: Option<LevelId>,
    /// By resource; shorter than `names` where no client has declared or taken the later ones.
    pub(super) counters: Vec<Counter>,
    /// How many clients at or below it have a reservation.
    pub(super) reservation: usize,
    /// How often a client at or below it was refused, wherever.
    pub(super) refusals: u64,
    /// How often a client at or below it has taken.
    pub(super) accepted: u64,
    /// Of these, how many have not given back.
    pub(super) in_flight: u64,
    /// How often it has refused somebody itself.
    pub(super) refused: RefusalCounts,
    /// Clients that take here, and levels right under it.
    pub(super) tenants: usize,
    /// Whether it goes with its last tenant.
    leaving: bool,
}

impl CapacityTree {
    /// A level under `parent`: what it gives is bound by its own limits and by all above it. The
    /// number of a removed one may be used again.
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

    /// Takes a level out, as soon as no client takes there and no level stands under it: now, or
    /// with the last of these. Until then it binds them as before. The root stays.
    pub fn remove_level(&mut self, level: LevelId) {
        self.levels[level.index()].leaving = true;
        self.let_go(level);
    }

    /// A client has left this level, or a level under it has.
    pub(super) fn vacate(&mut self, level: LevelId) {
        self.levels[level.index()].tenants -= 1;
        self.let_go(level);
    }

    /// Removes the levels that are no longer needed, from here upwards.
    fn let_go(&mut self, level: LevelId) {
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

//! What all handles of one tree share: the tree, its clock, and a bell for each who waits.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use tokio::sync::Notify;
use windlass_core::{CapacityTree, ClientId, LevelId, ResourceCost};

use super::clock::Clock;
use crate::sync::{Mutex, MutexGuard};

/// The tree, locked.
pub(crate) type TreeGuard<'a> = MutexGuard<'a, CapacityTree>;

pub(super) struct Shared {
    tree: Mutex<CapacityTree>,
    /// By client. Locked for a moment at a time, and never while something is rung.
    bells: Mutex<Vec<Option<Arc<Notify>>>>,
    names: Mutex<BTreeMap<LevelId, Arc<str>>>,
    pub(super) clock: Clock,
}

impl Shared {
    pub(super) fn new(limits: &ResourceCost) -> Self {
        Self {
            tree: Mutex::new(CapacityTree::new(limits)),
            bells: Mutex::new(Vec::new()),
            names: Mutex::new(BTreeMap::new()),
            clock: Clock::default(),
        }
    }

    #[inline]
    pub(super) fn lock(&self) -> TreeGuard<'_> {
        unpoisoned(&self.tree)
    }

    /// From now on, `client` can be rung.
    pub(super) fn hang(&self, client: ClientId, bell: &Arc<Notify>) {
        let mut bells = unpoisoned(&self.bells);
        let place = client.number() as usize;
        if bells.len() <= place {
            bells.resize(place + 1, None);
        }
        bells[place] = Some(Arc::clone(bell));
    }

    /// Before `client` is removed from the tree, while its number is not in use again.
    pub(super) fn unhang(&self, client: ClientId) {
        unpoisoned(&self.bells)[client.number() as usize] = None;
    }

    /// A bell remembers that it was rung until somebody listens.
    pub(super) fn ring(&self, clients: &[ClientId]) {
        for client in clients {
            let bell = unpoisoned(&self.bells).get(client.number() as usize).cloned().flatten();
            if let Some(bell) = bell {
                bell.notify_one();
            }
        }
    }

    pub(super) fn name(&self, level: LevelId, name: Arc<str>) {
        unpoisoned(&self.names).insert(level, name);
    }

    pub(super) fn unname(&self, level: LevelId) {
        unpoisoned(&self.names).remove(&level);
    }

    pub(super) fn name_of(&self, level: LevelId) -> Option<Arc<str>> {
        unpoisoned(&self.names).get(&level).cloned()
    }
}

/// The tree panics only before it changes anything, and nothing else here panics at all.
pub(super) fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

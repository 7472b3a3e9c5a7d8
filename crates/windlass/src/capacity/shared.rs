//! What all handles of one tree share: the tree, its clock, and a wake-up channel for each client.

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
    /// By client. Locked for a moment at a time, and never while a client is notified.
    wakeups: Mutex<Vec<Option<Arc<Notify>>>>,
    names: Mutex<BTreeMap<LevelId, Arc<str>>>,
    pub(super) clock: Clock,
}

impl Shared {
    pub(super) fn new(limits: &ResourceCost) -> Self {
        Self {
            tree: Mutex::new(CapacityTree::new(limits)),
            wakeups: Mutex::new(Vec::new()),
            names: Mutex::new(BTreeMap::new()),
            clock: Clock::default(),
        }
    }

    #[inline]
    pub(super) fn lock(&self) -> TreeGuard<'_> {
        unpoisoned(&self.tree)
    }

    /// Registers where `client` is notified.
    pub(super) fn register(&self, client: ClientId, wakeup: &Arc<Notify>) {
        let mut wakeups = unpoisoned(&self.wakeups);
        let place = client.number() as usize;
        if wakeups.len() <= place {
            wakeups.resize(place + 1, None);
        }
        wakeups[place] = Some(Arc::clone(wakeup));
    }

    /// To be called before `client` is removed from the tree, because its number may be used again after that.
    pub(super) fn unregister(&self, client: ClientId) {
        unpoisoned(&self.wakeups)[client.number() as usize] = None;
    }

    /// Notifies clients. One that does not wait yet finds the notification when it does.
    pub(super) fn notify(&self, clients: &[ClientId]) {
        for client in clients {
            let wakeup = unpoisoned(&self.wakeups).get(client.number() as usize).cloned().flatten();
            if let Some(wakeup) = wakeup {
                wakeup.notify_one();
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

//! What a decision has changed in a group: the rows to write, and no others.

use std::collections::BTreeMap;

use rustix::process::geteuid;
use windlass_core::{CoordinationRecord, HolderId, Name, NameRecord, Token, Waiter};

use super::{Claimant, Contact, LeaseGroup};
use crate::lease::{Owner, StoredLease, StoredName, StoredWaiter};
use crate::process::host_name;
use crate::tables::LeaseChanges;

impl LeaseGroup<'_> {
    /// Returns the rows that differ from those that were loaded.
    pub(crate) fn changes(&self) -> LeaseChanges {
        let after = self.state.export();
        let era = Some(&self.meta).filter(|meta| **meta != self.before.meta).cloned();
        let mut changes = LeaseChanges { era, ..LeaseChanges::default() };
        for (name, record) in &after.names {
            self.add_name(name, record, &mut changes);
        }
        self.add_waiters(&after, &mut changes);
        changes
    }

    fn add_name(&self, name: &Name, after: &NameRecord, changes: &mut LeaseChanges) {
        let stored = StoredName::from(after);
        if self.before.names.get(name) != Some(&stored) {
            changes.names.push((name.clone(), stored));
        }
        let before = self.before.leases.iter().filter(|stored| stored.name == *name);
        let kept = |holder: &HolderId| after.leases.iter().any(|lease| lease.holder == *holder);
        let ended = before.clone().filter(|stored| !kept(&stored.lease.holder));
        changes.ended_leases.extend(ended.map(|s| (name.clone(), s.lease.holder.clone())));
        for lease in &after.leases {
            let key = (name.clone(), lease.token);
            let items = self.items.get(&key).cloned().unwrap_or_default();
            let doubted = self.doubted.contains(&key);
            let is_same = |stored: &StoredLease| {
                stored.lease == *lease && stored.items == items && stored.doubted == doubted
            };
            if !before.clone().any(is_same) {
                let owner = self.owner(&key);
                let (name, lease) = (name.clone(), lease.clone());
                changes.leases.push(StoredLease { name, lease, owner, items, doubted });
            }
        }
    }

    fn add_waiters(&self, after: &CoordinationRecord, changes: &mut LeaseChanges) {
        let before = &self.before.waiters;
        let kept: BTreeMap<_, _> = after.waiters.iter().map(|t| (&t.holder, t)).collect();
        let left = before.keys().filter(|holder| !kept.contains_key(*holder));
        changes.left_waiters.extend(left.map(|holder| (*holder).clone()));
        let after = after.waiters.iter().map(|waiter| self.stored_waiter(waiter));
        let changed = after.filter(|stored| before.get(&stored.waiter.holder) != Some(stored));
        changes.waiters.extend(changed);
    }

    fn owner(&self, key: &(Name, Token)) -> Owner {
        if let Some(owner) = self.owners.get(key) {
            return owner.clone();
        }
        let Claimant { process, tree, .. } = self.claimant.clone();
        let (frame, uid) = (self.now.frame.id().to_owned(), Some(geteuid().as_raw()));
        Owner { frame, host: self.host(), process, tree, uid, since_ms: self.now.wall_ms }
    }

    fn stored_waiter(&self, waiter: &Waiter) -> StoredWaiter {
        let contact = self.contacts.get(&waiter.holder).cloned();
        let contact = contact.unwrap_or_else(|| self.new_contact());
        let Contact { frame, host, process, wakeup, since_ms } = contact;
        StoredWaiter { waiter: waiter.clone(), frame, host, process, wakeup, since_ms }
    }

    fn new_contact(&self) -> Contact {
        let Claimant { waiter, wakeup, .. } = self.claimant.clone();
        let (frame, since_ms) = (self.now.frame.id().to_owned(), self.now.wall_ms);
        Contact { frame, host: self.host(), process: waiter, wakeup, since_ms }
    }

    /// Returns the name of this machine, if the store has to know it.
    fn host(&self) -> Option<String> {
        self.now.frame.is_shared().then(host_name)
    }
}

impl From<&NameRecord> for StoredName {
    fn from(record: &NameRecord) -> Self {
        let NameRecord { capacity, token, arrivals, stats, .. } = *record;
        Self { capacity, token, arrivals, stats }
    }
}

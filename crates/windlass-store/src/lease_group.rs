//! The names that a decision is about, with everything that bears on it, as one of core's states.
//!
//! Loaded are the names asked for, whoever waits for them, whatever else those wait for, and so on:
//! no more, so that a decision costs nothing for names it has nothing to do with. What has changed
//! is written back, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use rustix::process::geteuid;
use windlass_core::{
    CoordinationRecord, CoordinationState, HolderId, Lease, Name, NameRecord, NameRefusal, Token,
};

use crate::clock::ClockReading;
use crate::error::StoreError;
use crate::process::Process;
use crate::tables::{Meta, Owner, ProcessTree, StoredLease, StoredName, StoredWaiter, Tables};

/// Above this bit a token says during which boot it was given out.
const EPOCH_BIT: u32 = 40;
/// What fits above it, in the signed integers of a database.
const EPOCHS: u64 = 1 << (63 - EPOCH_BIT);

/// How much of the line to load.
#[derive(Clone, Copy)]
pub(crate) enum Scope<'a> {
    /// All that hangs together.
    Line,
    /// Only the place of this holder: enough to be refused by those who hold.
    Own(&'a HolderId),
}

pub(crate) struct LeaseGroup<'a> {
    pub(crate) state: CoordinationState,
    pub(crate) reading: &'a ClockReading,
    before: CoordinationRecord,
    meta: Meta,
    owners: BTreeMap<(Name, Token), Owner>,
    waiting: BTreeMap<HolderId, Waiting>,
    /// Holds whose heartbeats are missing and whose processes are seen alive.
    vouched: Vec<(Name, Token)>,
    /// Whether processes are gone, as far as that was looked at: one may hold and wait for much.
    gone: BTreeMap<Process, bool>,
    /// Who stands behind the holds and the place in line that are new.
    pub(crate) claimant: Claimant,
}

/// Who asks, besides a name for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claimant {
    pub(crate) process: Option<Process>,
    pub(crate) waiter: Option<Process>,
    pub(crate) tree: Option<ProcessTree>,
    pub(crate) wakeup: Option<String>,
}

/// What a waiter has besides its place in line.
#[derive(Clone)]
struct Waiting {
    boot: String,
    process: Option<Process>,
    wakeup: Option<String>,
    since_ms: i64,
}

/// The processes of a stale holder have to be ended before its hold is given away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The name that is held.
    pub name: Name,
    /// Under which token.
    pub token: Token,
    /// By whom.
    pub holder: HolderId,
    /// How to find what is left.
    pub tree: ProcessTree,
    /// The user who asked for the hold, where that is known.
    pub uid: Option<u32>,
    /// How long its lease lasts still; zero once it is over.
    pub left: Duration,
}

impl<'a> LeaseGroup<'a> {
    pub(crate) fn load(
        records: &dyn Tables,
        names: &[Name],
        scope: Scope<'_>,
        reading: &'a ClockReading,
    ) -> Result<Self, StoreError> {
        let meta = settle_boot(records, reading)?;
        let mut group = Self {
            state: CoordinationState::default(),
            reading,
            before: CoordinationRecord { arrivals: meta.arrivals, ..CoordinationRecord::default() },
            meta,
            owners: BTreeMap::new(),
            waiting: BTreeMap::new(),
            vouched: Vec::new(),
            gone: BTreeMap::new(),
            claimant: Claimant::default(),
        };
        group.before.floor = Token(group.meta.epoch << EPOCH_BIT);
        let names = match scope {
            Scope::Line => group.load_line(records, names)?,
            Scope::Own(holder) => {
                records.waiter(holder)?.into_iter().for_each(|stored| group.load_waiter(stored));
                names.iter().cloned().collect()
            }
        };
        for name in names {
            group.load_name(records, name)?;
        }
        group.state = CoordinationState::restore(group.before.clone());
        group.drop_other_boots();
        for (name, token) in &group.vouched {
            group.state.vouch(name, *token, reading.at);
        }
        Ok(group)
    }

    /// The places in line, and all names that hang together through them.
    fn load_line(
        &mut self,
        records: &dyn Tables,
        names: &[Name],
    ) -> Result<BTreeSet<Name>, StoreError> {
        let mut seen = BTreeSet::new();
        let mut open = names.to_vec();
        while let Some(name) = open.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            for stored in records.waiters(Some(&name))? {
                if !self.waiting.contains_key(&stored.waiter.holder) {
                    open.extend(stored.waiter.needs.iter().map(|need| need.name.clone()));
                    self.load_waiter(stored);
                }
            }
        }
        Ok(seen)
    }

    fn load_waiter(&mut self, stored: StoredWaiter) {
        let StoredWaiter { waiter, boot, process, wakeup, since_ms } = stored;
        self.waiting.insert(waiter.holder.clone(), Waiting { boot, process, wakeup, since_ms });
        self.before.tickets.push(waiter);
    }

    fn load_name(&mut self, records: &dyn Tables, name: Name) -> Result<(), StoreError> {
        let Some(StoredName { capacity, token, stats }) = records.name(&name)? else {
            return Ok(());
        };
        let mut leases = Vec::new();
        for stored in records.leases(Some(&name))? {
            if stored.is_vouched_for(self.reading.at) {
                self.vouched.push((name.clone(), stored.lease.token));
            }
            let StoredLease { lease, owner, .. } = stored;
            self.owners.insert((name.clone(), lease.token), owner);
            leases.push(lease);
        }
        self.before.names.insert(name, NameRecord { capacity, token, leases, stats });
        Ok(())
    }

    /// Nothing survives a boot.
    fn drop_other_boots(&mut self) {
        let boot = &self.reading.boot;
        for ((name, token), _) in self.owners.iter().filter(|(_, owner)| owner.boot != *boot) {
            self.state.abandon(name, *token);
            self.state.bury(name, *token);
        }
        for (holder, _) in self.waiting.iter().filter(|(_, waiting)| waiting.boot != *boot) {
            self.state.leave(holder, self.reading.at);
        }
    }

    /// Looks for those who stood in the way and are gone. Whether there were any.
    pub(crate) fn clear_the_dead(&mut self, refusals: &[NameRefusal]) -> bool {
        let mut found = false;
        for refusal in refusals {
            let held: Vec<_> = self.state.leases(&refusal.name).cloned().collect();
            for lease in held.iter().filter(|lease| refusal.holders.contains(&lease.holder)) {
                found |= self.clear_holder(&refusal.name, lease);
            }
            for holder in &refusal.ahead {
                found |= self.clear_waiter(holder);
            }
        }
        found
    }

    /// Abandons a lease whose process is gone, and buries a stale one that nothing is left of as
    /// far as can be seen from here. Whether that changed anything.
    fn clear_holder(&mut self, name: &Name, lease: &Lease) -> bool {
        let Some(owner) = self.owners.get(&(name.clone(), lease.token)) else { return false };
        let (process, has_tree) = (owner.process.clone(), owner.tree.is_some());
        let gone = self.is_gone(process.as_ref());
        let stale = gone || lease.is_stale(self.reading.at);
        let unseen = !has_tree || !process.as_ref().is_some_and(Process::is_visible);
        if gone {
            self.state.abandon(name, lease.token);
        }
        if stale && unseen {
            self.state.bury(name, lease.token);
        }
        stale && unseen && !lease.is_reclaimable(self.reading.at)
    }

    fn clear_waiter(&mut self, holder: &HolderId) -> bool {
        let waiting = self.waiting.get(holder);
        let process = waiting.and_then(|waiting| waiting.process.clone());
        let gone = self.is_gone(process.as_ref());
        if gone {
            self.state.leave(holder, self.reading.at);
        }
        gone
    }

    fn is_gone(&mut self, process: Option<&Process>) -> bool {
        let Some(process) = process else { return false };
        if let Some(gone) = self.gone.get(process) {
            return *gone;
        }
        let gone = process.is_gone();
        self.gone.insert(process.clone(), gone);
        gone
    }

    /// The stale holds among those who stood in the way that somebody has to clear up after.
    pub(crate) fn leftovers(&self, refusals: &[NameRefusal]) -> Vec<Leftover> {
        let mut leftovers = Vec::new();
        for NameRefusal { name, holders, .. } in refusals {
            let leases = self.state.leases(name).filter(|lease| holders.contains(&lease.holder));
            for lease in leases.filter(|lease| lease.is_stale(self.reading.at)) {
                let Some(owner) = self.owners.get(&(name.clone(), lease.token)) else { continue };
                if let Some(tree) = owner.tree.clone() {
                    let (name, holder, token) = (name.clone(), lease.holder.clone(), lease.token);
                    let (uid, left) = (owner.uid, lease.time_left(self.reading.at));
                    leftovers.push(Leftover { name, token, holder, tree, uid, left });
                }
            }
        }
        leftovers
    }

    /// The processes whose end would make room.
    pub(crate) fn blockers(&self, refusals: &[NameRefusal]) -> Vec<Process> {
        let mut processes = Vec::new();
        for NameRefusal { name, holders, .. } in refusals {
            for lease in self.state.leases(name).filter(|l| holders.contains(&l.holder)) {
                let owner = self.owners.get(&(name.clone(), lease.token));
                processes.extend(owner.and_then(|owner| owner.process.clone()));
            }
        }
        processes
    }

    /// The wakeups of those whose turn has come; those who are gone lose their turn. Theirs are rung as
    /// well, since whoever rings a wakeup that nobody hears takes it down.
    pub(crate) fn wakeups(&mut self) -> Vec<String> {
        let mut wakeups = Vec::new();
        loop {
            let rung = self.state.take_rings();
            if rung.is_empty() {
                return wakeups;
            }
            for holder in &rung {
                self.clear_waiter(holder);
                wakeups.extend(self.waiting.get(holder).and_then(|waiting| waiting.wakeup.clone()));
            }
        }
    }

    /// Writes what has changed.
    pub(crate) fn save(&self, records: &dyn Tables) -> Result<(), StoreError> {
        let after = self.state.export();
        for (name, record) in &after.names {
            let before = self.before.names.get(name);
            if before != Some(record) {
                self.save_name(records, name, before, record)?;
            }
        }
        self.save_line(records, &after)?;
        if after.arrivals != self.before.arrivals {
            records.put_meta(&Meta { arrivals: after.arrivals, ..self.meta.clone() })?;
        }
        Ok(())
    }

    fn save_name(
        &self,
        records: &dyn Tables,
        name: &Name,
        before: Option<&NameRecord>,
        after: &NameRecord,
    ) -> Result<(), StoreError> {
        if before.map(StoredName::from) != Some(StoredName::from(after)) {
            records.put_name(name, &StoredName::from(after))?;
        }
        let before = before.map(|record| record.leases.as_slice()).unwrap_or_default();
        let kept = |holder: &HolderId| after.leases.iter().any(|lease| lease.holder == *holder);
        for lease in before.iter().filter(|lease| !kept(&lease.holder)) {
            records.delete_lease(name, &lease.holder)?;
        }
        for lease in after.leases.iter().filter(|lease| !before.contains(lease)) {
            let owner = self.owners.get(&(name.clone(), lease.token)).cloned();
            let owner = owner.unwrap_or_else(|| self.new_owner());
            records.put_lease(&StoredLease { name: name.clone(), lease: lease.clone(), owner })?;
        }
        Ok(())
    }

    fn save_line(
        &self,
        records: &dyn Tables,
        after: &CoordinationRecord,
    ) -> Result<(), StoreError> {
        let kept: BTreeSet<_> = after.tickets.iter().map(|waiter| &waiter.holder).collect();
        let before: BTreeMap<_, _> = self.before.tickets.iter().map(|t| (&t.holder, t)).collect();
        for holder in before.keys().filter(|holder| !kept.contains(*holder)) {
            records.delete_waiter(holder)?;
        }
        for waiter in after.tickets.iter().filter(|t| before.get(&t.holder) != Some(t)) {
            let waiting = self.waiting.get(&waiter.holder).cloned();
            let Waiting { boot, process, wakeup, since_ms } =
                waiting.unwrap_or_else(|| self.new_waiting());
            let waiter = waiter.clone();
            records.put_waiter(&StoredWaiter { waiter, boot, process, wakeup, since_ms })?;
        }
        Ok(())
    }

    fn new_owner(&self) -> Owner {
        let Claimant { process, tree, .. } = self.claimant.clone();
        let ClockReading { boot, wall_ms, .. } = self.reading.clone();
        let uid = Some(geteuid().as_raw());
        Owner { boot, process, tree, uid, since_ms: wall_ms }
    }

    fn new_waiting(&self) -> Waiting {
        let Claimant { waiter, wakeup, .. } = self.claimant.clone();
        let ClockReading { boot, wall_ms, .. } = self.reading.clone();
        Waiting { boot, process: waiter, wakeup, since_ms: wall_ms }
    }
}

impl From<&NameRecord> for StoredName {
    fn from(record: &NameRecord) -> Self {
        let NameRecord { capacity, token, stats, .. } = *record;
        Self { capacity, token, stats }
    }
}

/// Counts a boot that the store has not seen yet, so that tokens of this boot are above all of the
/// last one, also above those that were lost with it.
fn settle_boot(records: &dyn Tables, reading: &ClockReading) -> Result<Meta, StoreError> {
    let mut meta = records.meta()?;
    if meta.boot != reading.boot {
        // The boot during which the store was made is its first, and number 0.
        meta.epoch += u64::from(!meta.boot.is_empty());
        meta.boot.clone_from(&reading.boot);
        if meta.epoch >= EPOCHS {
            return Err(StoreError::TooManyBoots);
        }
        records.put_meta(&meta)?;
    }
    Ok(meta)
}

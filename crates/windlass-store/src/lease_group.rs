//! The names that one decision is about, with their leases and the heads of their queues.
//!
//! `windlass-core` decides; the group adds what core cannot know: which processes are alive, and whether the
//! times of a lease can be compared with now. Where holders may be on other machines, it doubts a lease
//! without heartbeats first, and gives it the same time again: the clock of a server may jump, and holders
//! may have been cut off from it like everyone else. It has only the first waiters of long queues. Once one of these was removed, because its process
//! has ended, others have come first: the caller saves the group and loads it again.

mod changes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_core::{
    Amount, CoordinationRecord, CoordinationState, HolderId, Lease, Name, NameRecord, NameRefusal,
    Token, Waiter,
};

use crate::clock::{Clock, ClockReading};
use crate::error::StoreError;
use crate::lease::{Owner, ProcessTree, StoredName, StoredWaiter};
use crate::process::{Liveness, Process};
use crate::tables::{LeaseSnapshot, Meta};

/// The bit above which a token carries the number of the era in which it was given out.
const ERA_BIT: u32 = 40;
/// How much of a limit an item counts.
const STEPS_PER_ITEM: u64 = Amount::ONE.steps();
/// How many eras fit above that bit in a database's signed integers.
const MAX_ERAS: u64 = 1 << (63 - ERA_BIT);

pub(crate) struct LeaseGroup<'a> {
    pub(crate) state: CoordinationState,
    clock: &'a dyn Clock,
    now: &'a ClockReading,
    /// The group as it was loaded.
    before: LeaseSnapshot,
    /// The leases whose holders have missed heartbeats once, and sent none since.
    doubted: BTreeSet<(Name, Token)>,
    /// The eras of the store, with this one counted.
    meta: Meta,
    owners: BTreeMap<(Name, Token), Owner>,
    /// The items that holders have.
    items: BTreeMap<(Name, Token), Vec<String>>,
    contacts: BTreeMap<HolderId, Contact>,
    /// Which processes have ended, as far as that was checked: one process may hold many names.
    gone: BTreeMap<Process, bool>,
    claimant: Claimant,
    /// A waiter was removed that others wait behind, which may not be loaded.
    lacks_waiters: bool,
}

/// The processes behind a claim.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claimant {
    pub(crate) process: Option<Process>,
    pub(crate) waiter: Option<Process>,
    pub(crate) tree: Option<ProcessTree>,
    pub(crate) wakeup: Option<String>,
}

/// How to reach a waiter.
#[derive(Clone)]
struct Contact {
    frame: String,
    host: Option<String>,
    process: Option<Process>,
    wakeup: Option<String>,
    since_ms: i64,
}

/// A stale lease whose processes the claimant has to end before it can take over the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The name that is held.
    pub name: Name,
    /// The fencing token of the stale lease.
    pub token: Token,
    /// The holder of the stale lease.
    pub holder: HolderId,
    /// How to find the holder's processes.
    pub tree: ProcessTree,
    /// The user who acquired the lease; none if an older version stored it.
    pub uid: Option<u32>,
    /// The time until the lease expires; zero if it has.
    pub left: Duration,
}

impl<'a> LeaseGroup<'a> {
    /// Builds the group from its rows. Leases and waiters of other frames are dropped.
    pub(crate) fn new(
        stored: LeaseSnapshot,
        clock: &'a dyn Clock,
        now: &'a ClockReading,
    ) -> Result<Self, StoreError> {
        let meta = stored.meta.in_era(now)?;
        let leases = stored.leases.iter();
        let mut group = Self {
            state: CoordinationState::restore(record(&stored, &meta)),
            clock,
            now,
            meta,
            owners: leases
                .clone()
                .map(|s| ((s.name.clone(), s.lease.token), s.owner.clone()))
                .collect(),
            items: leases
                .clone()
                .map(|s| ((s.name.clone(), s.lease.token), s.items.clone()))
                .collect(),
            doubted: leases
                .filter(|s| s.doubted)
                .map(|s| (s.name.clone(), s.lease.token))
                .collect(),
            contacts: stored.waiters.values().map(contact).collect(),
            gone: BTreeMap::new(),
            claimant: Claimant::default(),
            lacks_waiters: false,
            before: stored,
        };
        group.drop_other_frames();
        for stored in group.before.leases.iter().filter(|stored| stored.is_vouched_for(now.at)) {
            group.state.vouch(&stored.name, stored.lease.token, now.at);
        }
        if now.frame.is_shared() {
            group.doubt_silent();
        }
        Ok(group)
    }

    /// Gives leases that have missed heartbeats for the first time as much time again.
    fn doubt_silent(&mut self) {
        for stored in &self.before.leases {
            let key = (stored.name.clone(), stored.lease.token);
            if stored.is_valid(self.now) && stored.lease.is_stale(self.now.at) && !stored.doubted {
                self.state.vouch(&key.0, key.1, self.now.at);
                self.doubted.insert(key);
            }
        }
    }

    /// Notes that the holder of a lease is heard of. Where only heartbeats can be seen, one that comes late
    /// counts, as long as no one has found the lease stale.
    pub(crate) fn hear(&mut self, name: &Name, token: Token) {
        if self.now.frame.is_shared() {
            self.state.vouch(name, token, self.now.at);
            self.doubted.remove(&(name.clone(), token));
        }
    }

    pub(crate) fn now(&self) -> &'a ClockReading {
        self.now
    }

    /// Sets the processes behind the leases and the place in the queue that this decision adds. A
    /// holder that waits already keeps its place, but is reached from now on as it asks now.
    pub(crate) fn set_claimant(&mut self, holder: &HolderId, claimant: Claimant) {
        let Claimant { waiter, wakeup, .. } = claimant.clone();
        if let Some(contact) = self.contacts.get_mut(holder) {
            self.now.frame.id().clone_into(&mut contact.frame);
            (contact.process, contact.wakeup) = (waiter, wakeup);
        }
        self.claimant = claimant;
    }

    /// Ends the leases and waits of other frames: no process survives a boot, and those that use the original
    /// of a copied database know nothing of the copy.
    fn drop_other_frames(&mut self) {
        let frame = self.now.frame.id();
        for ((name, token), _) in self.owners.iter().filter(|(_, owner)| owner.frame != frame) {
            self.state.abandon(name, *token);
            self.state.clear_remains(name, *token);
        }
        for (holder, _) in self.contacts.iter().filter(|(_, contact)| contact.frame != frame) {
            self.state.leave(holder, self.now.at);
        }
    }

    /// Gives the holder under `token` as many of the items `all` as its weight counts, of those that no holder
    /// has.
    pub(crate) fn assign_items(&mut self, name: &Name, token: Token, all: &[String]) {
        let Some(lease) = self.state.leases(name).find(|lease| lease.token == token) else {
            return;
        };
        let wanted = usize::try_from(lease.weight / STEPS_PER_ITEM).unwrap_or(usize::MAX);
        let live: BTreeSet<Token> = self.state.leases(name).map(|lease| lease.token).collect();
        let held = self.items.iter().filter(|((of, by), _)| of == name && live.contains(by));
        let taken: BTreeSet<&String> = held.flat_map(|(_, items)| items).collect();
        let free: Vec<_> = all.iter().filter(|item| !taken.contains(item)).cloned().collect();
        let own = self.items.entry((name.clone(), token)).or_default();
        own.extend(free.into_iter().take(wanted.saturating_sub(own.len())));
    }

    /// Returns the names that were loaded.
    pub(crate) fn names(&self) -> Vec<Name> {
        self.before.names.keys().cloned().collect()
    }

    /// Returns whether waiters may have come first that are not loaded.
    pub(crate) fn lacks_waiters(&self) -> bool {
        self.lacks_waiters
    }

    /// Removes the holders and waiters among `refusals` whose processes have ended. Returns whether
    /// there were any.
    pub(crate) fn remove_dead(&mut self, refusals: &[NameRefusal]) -> bool {
        let mut found = false;
        for refusal in refusals {
            let held: Vec<_> = self.state.leases(&refusal.name).cloned().collect();
            for lease in held.iter().filter(|lease| refusal.holders.contains(&lease.holder)) {
                found |= self.remove_dead_holder(&refusal.name, lease);
            }
            for holder in &refusal.ahead {
                found |= self.remove_dead_waiter(holder);
            }
        }
        found
    }

    /// Removes waiters that were notified, whose processes have ended before they could claim. Returns whether
    /// there were any.
    pub(crate) fn remove_dead_passed_over(&mut self) -> bool {
        let waiters = self.before.waiters.values().map(|stored| &stored.waiter);
        let overdue = waiters.filter(|waiter| waiter.is_overdue(self.now.at));
        let overdue: Vec<_> = overdue.map(|waiter| waiter.holder.clone()).collect();
        overdue.iter().fold(false, |found, holder| self.remove_dead_waiter(holder) | found)
    }

    /// Ends a lease whose process has ended, unless processes may be left that work under it. A stale
    /// lease whose processes cannot be seen from here is given up. Returns whether that changed anything.
    fn remove_dead_holder(&mut self, name: &Name, lease: &Lease) -> bool {
        let Some(owner) = self.owners.get(&(name.clone(), lease.token)) else { return false };
        let (process, has_tree) = (owner.process.clone(), owner.tree.is_some());
        let gone = self.is_gone(process.as_ref());
        let stale = gone || lease.is_stale(self.now.at);
        let unseen = !has_tree || !process.as_ref().is_some_and(Process::is_visible);
        if gone {
            self.state.abandon(name, lease.token);
        }
        if stale && unseen {
            self.state.clear_remains(name, lease.token);
        }
        stale && unseen && !lease.is_reclaimable(self.now.at)
    }

    fn remove_dead_waiter(&mut self, holder: &HolderId) -> bool {
        let contact = self.contacts.get(holder);
        let process = contact.and_then(|contact| contact.process.clone());
        let gone = self.is_gone(process.as_ref());
        if gone {
            self.state.leave(holder, self.now.at);
            self.lacks_waiters = true;
        }
        gone
    }

    fn is_gone(&mut self, process: Option<&Process>) -> bool {
        let Some(process) = process else { return false };
        if let Some(gone) = self.gone.get(process) {
            return *gone;
        }
        let gone = self.clock.liveness(process) == Liveness::Gone;
        self.gone.insert(process.clone(), gone);
        gone
    }

    /// Returns the stale leases among `refusals` whose processes have to be ended first.
    pub(crate) fn leftovers(&self, refusals: &[NameRefusal]) -> Vec<Leftover> {
        let stale = self.refusing(refusals).filter(|(_, lease)| lease.is_stale(self.now.at));
        let leftover = |(name, lease): (&Name, &Lease)| {
            let owner = self.owners.get(&(name.clone(), lease.token))?;
            let (name, holder, token) = (name.clone(), lease.holder.clone(), lease.token);
            let (tree, uid, left) = (owner.tree.clone()?, owner.uid, lease.time_left(self.now.at));
            Some(Leftover { name, token, holder, tree, uid, left })
        };
        stale.filter_map(leftover).collect()
    }

    /// Returns the processes that hold what was refused.
    pub(crate) fn blockers(&self, refusals: &[NameRefusal]) -> Vec<Process> {
        let owners = self.refusing(refusals);
        let owners = owners.filter_map(|(name, l)| self.owners.get(&(name.clone(), l.token)));
        owners.filter_map(|owner| owner.process.clone()).collect()
    }

    /// Returns the leases of the holders that refused a claim.
    fn refusing<'b>(
        &'b self,
        refusals: &'b [NameRefusal],
    ) -> impl Iterator<Item = (&'b Name, &'b Lease)> {
        refusals.iter().flat_map(move |NameRefusal { name, holders, .. }| {
            let leases = self.state.leases(name).filter(|lease| holders.contains(&lease.holder));
            leases.map(move |lease| (name, lease))
        })
    }

    /// Returns the capacity of a semaphore or limit.
    pub(crate) fn capacity(&self, name: &Name) -> Option<u64> {
        self.before.names.get(name).and_then(|stored| stored.capacity)
    }

    /// Returns holders with their wake-ups, as far as they have one.
    pub(crate) fn wakeups_of(&self, holders: &[HolderId]) -> Vec<(HolderId, String)> {
        let wakeup = |holder: &HolderId| self.contacts.get(holder)?.wakeup.clone();
        let found = holders.iter().filter_map(|holder| Some((holder.clone(), wakeup(holder)?)));
        found.collect()
    }

    /// Returns the waiters whose turn has come, with their wake-ups. A waiter whose process has ended
    /// loses its turn; its wake-up is returned as well, because notifying an abandoned one removes it.
    pub(crate) fn take_turns(&mut self) -> Vec<(HolderId, String)> {
        let mut turns = Vec::new();
        loop {
            let called = self.state.take_notified();
            if called.is_empty() {
                return turns;
            }
            for holder in called {
                self.remove_dead_waiter(&holder);
                let wakeup = self.contacts.get(&holder).and_then(|c| c.wakeup.clone());
                turns.extend(wakeup.map(|wakeup| (holder, wakeup)));
            }
        }
    }
}

/// Returns the record from which core restores its state.
fn record(stored: &LeaseSnapshot, meta: &Meta) -> CoordinationRecord {
    let mut record =
        CoordinationRecord { floor: Token(meta.floor()), ..CoordinationRecord::default() };
    record.waiters = stored.waiters.values().map(|stored| stored.waiter.clone()).collect();
    for (name, stored_name) in &stored.names {
        let StoredName { capacity, token, arrivals, stats } = *stored_name;
        let leases = stored.leases.iter().filter(|stored| stored.name == *name);
        let leases = leases.map(|stored| stored.lease.clone()).collect();
        record.names.insert(name.clone(), NameRecord { capacity, token, leases, arrivals, stats });
    }
    record
}

fn contact(stored: &StoredWaiter) -> (HolderId, Contact) {
    let StoredWaiter { waiter: Waiter { holder, .. }, frame, host, process, wakeup, since_ms } =
        stored.clone();
    (holder, Contact { frame, host, process, wakeup, since_ms })
}

impl Meta {
    /// Counts an era that the store has not seen yet, so that its tokens are larger than all before, including
    /// those that a loss of power or a fail-over has undone.
    pub(crate) fn in_era(&self, now: &ClockReading) -> Result<Self, StoreError> {
        let era = now.frame.era();
        if self.era == era {
            return Ok(self.clone());
        }
        // The era in which the store was created is number 0.
        let eras = self.eras + u64::from(!self.era.is_empty());
        if eras >= MAX_ERAS {
            return Err(StoreError::TooManyEras);
        }
        Ok(Self { era, eras })
    }

    /// Returns the number above which all tokens of the era are.
    pub(crate) fn floor(&self) -> u64 {
        self.eras << ERA_BIT
    }
}

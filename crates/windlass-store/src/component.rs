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

use crate::error::StoreError;
use crate::moment::Moment;
use crate::process::Process;
use crate::records::{Meta, Owner, Records, StoredLease, StoredName, StoredTicket, Tree};

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

pub(crate) struct Component<'a> {
    pub(crate) state: CoordinationState,
    pub(crate) moment: &'a Moment,
    before: CoordinationRecord,
    meta: Meta,
    owners: BTreeMap<(Name, Token), Owner>,
    waiting: BTreeMap<HolderId, Waiting>,
    /// Holds whose heartbeats are missing and whose processes are seen alive.
    vouched: Vec<(Name, Token)>,
    /// Whether processes are gone, as far as that was looked at: one may hold and wait for much.
    gone: BTreeMap<Process, bool>,
    /// Who stands behind the holds and the place in line that are new.
    pub(crate) newcomer: Newcomer,
}

/// Who asks, besides a name for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Newcomer {
    pub(crate) process: Option<Process>,
    pub(crate) waiter: Option<Process>,
    pub(crate) tree: Option<Tree>,
    pub(crate) bell: Option<String>,
}

/// What a ticket has besides its place in line.
#[derive(Clone)]
struct Waiting {
    boot: String,
    process: Option<Process>,
    bell: Option<String>,
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
    pub tree: Tree,
    /// The user who asked for the hold, where that is known.
    pub uid: Option<u32>,
    /// How long its lease lasts still; zero once it is over.
    pub left: Duration,
}

impl<'a> Component<'a> {
    pub(crate) fn load(
        records: &dyn Records,
        names: &[Name],
        scope: Scope<'_>,
        moment: &'a Moment,
    ) -> Result<Self, StoreError> {
        let meta = settle_boot(records, moment)?;
        let mut component = Self {
            state: CoordinationState::default(),
            moment,
            before: CoordinationRecord { arrivals: meta.arrivals, ..CoordinationRecord::default() },
            meta,
            owners: BTreeMap::new(),
            waiting: BTreeMap::new(),
            vouched: Vec::new(),
            gone: BTreeMap::new(),
            newcomer: Newcomer::default(),
        };
        component.before.floor = Token(component.meta.epoch << EPOCH_BIT);
        let names = match scope {
            Scope::Line => component.load_line(records, names)?,
            Scope::Own(holder) => {
                records
                    .ticket(holder)?
                    .into_iter()
                    .for_each(|stored| component.load_ticket(stored));
                names.iter().cloned().collect()
            }
        };
        for name in names {
            component.load_name(records, name)?;
        }
        component.state = CoordinationState::restore(component.before.clone());
        component.drop_other_boots();
        for (name, token) in &component.vouched {
            component.state.vouch(name, *token, moment.at);
        }
        Ok(component)
    }

    /// The places in line, and all names that hang together through them.
    fn load_line(
        &mut self,
        records: &dyn Records,
        names: &[Name],
    ) -> Result<BTreeSet<Name>, StoreError> {
        let mut seen = BTreeSet::new();
        let mut open = names.to_vec();
        while let Some(name) = open.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            for stored in records.tickets(Some(&name))? {
                if !self.waiting.contains_key(&stored.ticket.holder) {
                    open.extend(stored.ticket.needs.iter().map(|need| need.name.clone()));
                    self.load_ticket(stored);
                }
            }
        }
        Ok(seen)
    }

    fn load_ticket(&mut self, stored: StoredTicket) {
        let StoredTicket { ticket, boot, process, bell, since_ms } = stored;
        self.waiting.insert(ticket.holder.clone(), Waiting { boot, process, bell, since_ms });
        self.before.tickets.push(ticket);
    }

    fn load_name(&mut self, records: &dyn Records, name: Name) -> Result<(), StoreError> {
        let Some(StoredName { capacity, token, stats }) = records.name(&name)? else {
            return Ok(());
        };
        let mut leases = Vec::new();
        for stored in records.leases(Some(&name))? {
            if stored.is_vouched_for(self.moment.at) {
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
        let boot = &self.moment.boot;
        for ((name, token), _) in self.owners.iter().filter(|(_, owner)| owner.boot != *boot) {
            self.state.abandon(name, *token);
            self.state.bury(name, *token);
        }
        for (holder, _) in self.waiting.iter().filter(|(_, waiting)| waiting.boot != *boot) {
            self.state.leave(holder, self.moment.at);
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
        let stale = gone || lease.is_stale(self.moment.at);
        let unseen = !has_tree || !process.as_ref().is_some_and(Process::is_in_sight);
        if gone {
            self.state.abandon(name, lease.token);
        }
        if stale && unseen {
            self.state.bury(name, lease.token);
        }
        stale && unseen && !lease.is_reclaimable(self.moment.at)
    }

    fn clear_waiter(&mut self, holder: &HolderId) -> bool {
        let waiting = self.waiting.get(holder);
        let process = waiting.and_then(|waiting| waiting.process.clone());
        let gone = self.is_gone(process.as_ref());
        if gone {
            self.state.leave(holder, self.moment.at);
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
            for lease in leases.filter(|lease| lease.is_stale(self.moment.at)) {
                let Some(owner) = self.owners.get(&(name.clone(), lease.token)) else { continue };
                if let Some(tree) = owner.tree.clone() {
                    let (name, holder, token) = (name.clone(), lease.holder.clone(), lease.token);
                    let (uid, left) = (owner.uid, lease.time_left(self.moment.at));
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

    /// The bells of those whose turn has come; those who are gone lose their turn. Theirs are rung as
    /// well, since whoever rings a bell that nobody hears takes it down.
    pub(crate) fn bells(&mut self) -> Vec<String> {
        let mut bells = Vec::new();
        loop {
            let rung = self.state.take_rings();
            if rung.is_empty() {
                return bells;
            }
            for holder in &rung {
                self.clear_waiter(holder);
                bells.extend(self.waiting.get(holder).and_then(|waiting| waiting.bell.clone()));
            }
        }
    }

    /// Writes what has changed.
    pub(crate) fn save(&self, records: &dyn Records) -> Result<(), StoreError> {
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
        records: &dyn Records,
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
        records: &dyn Records,
        after: &CoordinationRecord,
    ) -> Result<(), StoreError> {
        let kept: BTreeSet<_> = after.tickets.iter().map(|ticket| &ticket.holder).collect();
        let before: BTreeMap<_, _> = self.before.tickets.iter().map(|t| (&t.holder, t)).collect();
        for holder in before.keys().filter(|holder| !kept.contains(*holder)) {
            records.delete_ticket(holder)?;
        }
        for ticket in after.tickets.iter().filter(|t| before.get(&t.holder) != Some(t)) {
            let waiting = self.waiting.get(&ticket.holder).cloned();
            let Waiting { boot, process, bell, since_ms } =
                waiting.unwrap_or_else(|| self.new_waiting());
            let ticket = ticket.clone();
            records.put_ticket(&StoredTicket { ticket, boot, process, bell, since_ms })?;
        }
        Ok(())
    }

    fn new_owner(&self) -> Owner {
        let Newcomer { process, tree, .. } = self.newcomer.clone();
        let Moment { boot, wall_ms, .. } = self.moment.clone();
        let uid = Some(geteuid().as_raw());
        Owner { boot, process, tree, uid, since_ms: wall_ms }
    }

    fn new_waiting(&self) -> Waiting {
        let Newcomer { waiter, bell, .. } = self.newcomer.clone();
        let Moment { boot, wall_ms, .. } = self.moment.clone();
        Waiting { boot, process: waiter, bell, since_ms: wall_ms }
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
fn settle_boot(records: &dyn Records, moment: &Moment) -> Result<Meta, StoreError> {
    let mut meta = records.meta()?;
    if meta.boot != moment.boot {
        // The boot during which the store was made is its first, and number 0.
        meta.epoch += u64::from(!meta.boot.is_empty());
        meta.boot.clone_from(&moment.boot);
        if meta.epoch >= EPOCHS {
            return Err(StoreError::TooManyBoots);
        }
        records.put_meta(&meta)?;
    }
    Ok(meta)
}

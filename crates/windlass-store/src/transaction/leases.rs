//! Names: claiming, holding, releasing and waiting for them.
//!
//! `windlass-core` decides which claim gets a name, over what this transaction has loaded of the names and
//! the heads of their queues, and the transaction stores the answer.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::slice;

use windlass_core::{
    Answer, Claimed as CoreClaimed, Hold, HolderId, Name, NameRefusal, Need, Token, Waiter,
};

use super::Notices;
use super::claim::{Claim, Claimed, OnRefusal, Refused};
use super::limits::check_items;
use crate::clock::{Clock, ClockReading};
use crate::error::StoreError;
use crate::lease::{ProcessGroup, StoredLease, StoredName, StoredWaiter};
use crate::lease_group::LeaseGroup;
use crate::name::check_name;
use crate::process::Process;
use crate::tables::{LeaseChanges, LeaseQuery, LeaseTables, QueuePart};

/// Up to how many waiters ahead of a claim are counted. So a long queue costs nothing to those that join.
const COUNTED_AHEAD: usize = 128;

/// A name with its leases and waiters, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameView {
    /// The name.
    pub name: Name,
    /// Its capacity, its largest token and its counters.
    pub stored: StoredName,
    /// The leases on it.
    pub leases: Vec<StoredLease>,
    /// The waiters for it, in the order of the queue.
    pub waiters: Vec<StoredWaiter>,
}

/// The leases of a store and the queue for them, within a [`Transaction`](super::Transaction).
pub struct Leases<'a> {
    pub(super) tables: &'a dyn LeaseTables,
    clock: &'a dyn Clock,
    pub(super) now: &'a ClockReading,
    pub(super) notices: &'a Notices,
}

impl<'a> Leases<'a> {
    pub(super) fn new(
        tables: &'a dyn LeaseTables,
        clock: &'a dyn Clock,
        now: &'a ClockReading,
        notices: &'a Notices,
    ) -> Self {
        Self { tables, clock, now, notices }
    }

    /// Creates a semaphore, or changes its capacity if it has neither holders nor waiters.
    pub fn declare(&self, name: &str, capacity: u32) -> Result<(), StoreError> {
        let key = Name::Semaphore(name.to_owned());
        check_name(&key)?;
        if self
            .tables
            .name(&key)?
            .is_some_and(|stored| stored.capacity == Some(u64::from(capacity)))
        {
            return Ok(());
        }
        // Any waiter keeps the capacity from being changed, however far back it is.
        let capacity = u64::from(capacity);
        self.decide(slice::from_ref(&key), &[], QueuePart::Whole, |group| {
            let now = group.now().at;
            let Err(in_use) = group.state.declare(name, capacity, now) else { return Ok(()) };
            // All of its holders and waiters may be dead.
            let holders = group.state.leases(&key).map(|lease| lease.holder.clone()).collect();
            let ahead = group.state.waiters(&key).map(|waiter| waiter.holder.clone()).collect();
            let all = NameRefusal { name: key.clone(), available: 0, holders, ahead };
            if !group.remove_dead(&[all]) {
                return Err(in_use.into());
            }
            Ok(group.state.declare(name, capacity, now)?)
        })
    }

    /// Acquires all names of a claim, or joins the queue for them.
    pub fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let mut group = self.load_for(claim)?;
        let claimed = match self.refuse(&mut group, claim)? {
            Some(refused) => Claimed::Refused(refused),
            None => match group.state.claim(&claim.for_core(), group.now().at)? {
                CoreClaimed::Held(holds) => {
                    self.assign_items(&mut group, &holds)?;
                    Claimed::Held(holds)
                }
                CoreClaimed::Refused(refusals) => unreachable!("{refusals:?} were checked for"),
            },
        };
        self.save(group)?;
        if let Claimed::Held(_) = claimed {
            self.notices.remove_turn(claim.holder);
        }
        Ok(claimed)
    }

    /// Refuses claims of parts of items.
    fn check_items(&self, needs: &[Need]) -> Result<(), StoreError> {
        for need in needs {
            if let Name::Limit(limit) = &need.name
                && self.tables.limit_items(limit)?.is_some()
            {
                check_items(need)?;
            }
        }
        Ok(())
    }

    /// Gives a holder its items of limits that have items.
    fn assign_items(&self, group: &mut LeaseGroup<'_>, holds: &[Hold]) -> Result<(), StoreError> {
        for Hold { name, token, .. } in holds {
            if let Name::Limit(limit) = name
                && let Some(items) = self.tables.limit_items(limit)?
            {
                group.assign_items(name, *token, &items.names);
            }
        }
        Ok(())
    }

    /// Returns why a claim would be refused, and joins the queue if it is. A claim that would succeed
    /// takes nothing; the caller may claim later.
    pub fn refusal(&self, claim: &Claim<'_>) -> Result<Option<Refused>, StoreError> {
        let mut group = self.load_for(claim)?;
        let refused = self.refuse(&mut group, claim)?;
        self.save(group)?;
        Ok(refused)
    }

    /// Loads what a claim depends on. Dead holders and waiters are removed before the claim is refused
    /// because of them.
    fn load_for(&self, claim: &Claim<'_>) -> Result<LeaseGroup<'a>, StoreError> {
        let (names, core) = (claim.names()?, claim.for_core());
        self.check_items(claim.needs)?;
        let places: Vec<_> =
            [Some(claim.holder), claim.in_place_of].into_iter().flatten().collect();
        loop {
            let mut group = self.load(&names, &places, QueuePart::Head)?;
            group.set_claimant(claim.holder, claim.claimant());
            for (name, token) in claim.ended {
                group.state.clear_remains(name, *token);
            }
            let obstacles = group.state.obstacles(&core, group.now().at)?;
            if !(group.remove_dead(&obstacles) | group.remove_dead_passed_over()) {
                return Ok(group);
            }
            // Waiters may have come first that were not loaded.
            self.save(group)?;
        }
    }

    /// Adds the claim to the queue if something refuses it.
    fn refuse(
        &self,
        group: &mut LeaseGroup<'_>,
        claim: &Claim<'_>,
    ) -> Result<Option<Refused>, StoreError> {
        let (core, now) = (claim.for_core(), group.now().at);
        if group.state.obstacles(&core, now)?.is_empty() {
            return Ok(None);
        }
        let CoreClaimed::Refused(refusals) = group.state.claim(&core, now)? else {
            unreachable!("a claim with obstacles is refused")
        };
        let refused = self.refused(group, claim.holder, refusals)?;
        if claim.on_refusal == OnRefusal::GiveUp {
            group.state.leave(claim.holder, now);
        }
        Ok(Some(refused))
    }

    fn refused(
        &self,
        group: &LeaseGroup<'_>,
        holder: &HolderId,
        refusals: Vec<NameRefusal>,
    ) -> Result<Refused, StoreError> {
        let name = refusals[0].name.clone();
        let mut waiters = group.state.waiters(&name);
        let own = waiters.find(|waiter| waiter.holder == *holder).expect("it joined the queue");
        let ahead = self.tables.ahead(&name, own, COUNTED_AHEAD)?;
        let leftovers = group.leftovers(&refusals);
        let blockers = group.blockers(&refusals);
        Ok(Refused { refusals, leftovers, blockers, ahead })
    }

    /// Releases one name.
    pub fn release(
        &self,
        name: &Name,
        holder: &HolderId,
        token: Token,
    ) -> Result<Answer, StoreError> {
        self.decide(slice::from_ref(name), &[], QueuePart::Head, |group| {
            Ok(group.state.release(name, holder, token, group.now().at))
        })
    }

    /// Records a heartbeat of the holder of `name`.
    pub fn heartbeat(
        &self,
        name: &Name,
        holder: &HolderId,
        token: Token,
    ) -> Result<Answer, StoreError> {
        self.decide(slice::from_ref(name), &[], QueuePart::Head, |group| {
            group.hear(name, token);
            Ok(group.state.heartbeat(name, holder, token, group.now().at))
        })
    }

    /// Records a heartbeat for every name that `process` holds. Returns the names it has lost.
    pub fn heartbeat_process(&self, process: &Process) -> Result<Vec<(Name, Token)>, StoreError> {
        let at = self.now.at;
        let leases = self.tables.leases_of_process(process)?.into_iter();
        let is_held = |stored: &StoredLease| {
            let vouched = stored.owner.frame == self.now.frame.id() && stored.is_vouched_for(at);
            vouched || stored.is_valid(self.now)
        };
        let mut held: Vec<_> = leases.filter(is_held).collect();
        for stored in &mut held {
            stored.lease.refresh(at);
            stored.doubted = false;
        }
        let names = held.iter().map(|stored| (stored.name.clone(), stored.lease.token)).collect();
        self.tables.save(&LeaseChanges { leases: held, ..LeaseChanges::default() })?;
        Ok(names)
    }

    /// Returns whether `token` belongs to a valid lease on `name`, and its holder.
    pub fn check(
        &self,
        name: &Name,
        token: Token,
    ) -> Result<(Answer, Option<HolderId>), StoreError> {
        self.decide(slice::from_ref(name), &[], QueuePart::Head, |group| {
            let held: Vec<_> = group.state.leases(name).cloned().collect();
            let owner = held.iter().find(|lease| lease.token == token);
            let holders = held.iter().map(|lease| lease.holder.clone()).collect();
            let ahead = Vec::new();
            group.remove_dead(&[NameRefusal { name: name.clone(), available: 0, holders, ahead }]);
            let answer = group.state.check(name, token, group.now().at);
            Ok((answer, owner.map(|lease| lease.holder.clone())))
        })
    }

    /// Records the process group in which the holder's command runs.
    pub fn attach(
        &self,
        name: &Name,
        holder: &HolderId,
        token: Token,
        group: ProcessGroup,
    ) -> Result<(), StoreError> {
        let mut leases = self.tables.leases(Some(name))?;
        leases.retain(|stored| stored.lease.holder == *holder && stored.lease.token == token);
        for stored in &mut leases {
            stored.owner.tree.iter_mut().for_each(|tree| tree.group = Some(group));
        }
        self.tables.save(&LeaseChanges { leases, ..LeaseChanges::default() })
    }

    /// Has `process` hold `name` in the place of the process that did, for the same holder. Returns false,
    /// and changes nothing, if the lease is not valid any more.
    pub fn hand_over(
        &self,
        name: &Name,
        holder: &HolderId,
        token: Token,
        process: &Process,
    ) -> Result<bool, StoreError> {
        let mut leases = self.tables.leases(Some(name))?;
        leases.retain(|stored| {
            let is_it = stored.lease.holder == *holder && stored.lease.token == token;
            is_it && stored.is_valid(self.now)
        });
        for stored in &mut leases {
            stored.owner.process = Some(process.clone());
            stored.lease.refresh(self.now.at);
            stored.doubted = false;
        }
        let is_valid = !leases.is_empty();
        self.tables.save(&LeaseChanges { leases, ..LeaseChanges::default() })?;
        Ok(is_valid)
    }

    /// Removes a holder from the queue, if it waits.
    pub fn leave_queue(&self, holder: &HolderId) -> Result<(), StoreError> {
        self.decide(&[], &[holder], QueuePart::Head, |group| {
            group.state.leave(holder, group.now().at);
            Ok(())
        })
    }

    /// Returns the leases on `name`.
    pub fn on(&self, name: &Name) -> Result<Vec<StoredLease>, StoreError> {
        self.tables.leases(Some(name))
    }

    /// Returns every hold: the holder, the name and the token.
    pub fn held(&self) -> Result<Vec<(HolderId, Name, Token)>, StoreError> {
        let leases = self.tables.leases(None)?.into_iter();
        Ok(leases.map(|stored| (stored.lease.holder, stored.name, stored.lease.token)).collect())
    }

    /// Returns the waiters for `name`, in the order of the queue.
    pub fn queue(&self, name: &Name) -> Result<Vec<HolderId>, StoreError> {
        let mut waiters = self.tables.waiters(Some(name))?;
        waiters.sort_by_key(rank);
        Ok(waiters.into_iter().map(|stored| stored.waiter.holder).collect())
    }

    /// Returns the first waiters that these names have refused, also overdue ones, in the order of the
    /// queue: of each name until their weights add up to `enough`.
    pub fn first_waiters(&self, needs: &[Need], enough: u64) -> Result<Vec<Waiter>, StoreError> {
        let mut waiters = Vec::new();
        for Need { name, .. } in needs {
            waiters.append(&mut self.tables.queue_head(name, enough, &|_| true)?);
        }
        waiters.sort_by_key(rank);
        waiters.dedup_by(|one, other| one.waiter.holder == other.waiter.holder);
        Ok(waiters.into_iter().map(|stored| stored.waiter).collect())
    }

    /// Returns the process of a holder of `name`, or of a waiter for it; none if the claim named none.
    pub fn process_of(
        &self,
        name: &Name,
        holder: &HolderId,
    ) -> Result<Option<Process>, StoreError> {
        let mut leases = self.on(name)?.into_iter();
        match leases.find(|stored| stored.lease.holder == *holder) {
            Some(stored) => Ok(stored.owner.process),
            None => Ok(self.tables.waiter(holder)?.and_then(|stored| stored.process)),
        }
    }

    /// Returns every name that has a holder or a waiter.
    pub fn overview(&self) -> Result<Vec<NameView>, StoreError> {
        let (leases, mut waiters) = (self.tables.leases(None)?, self.tables.waiters(None)?);
        waiters.sort_by_key(rank);
        let held = leases.iter().map(|lease| &lease.name);
        let wanted = waiters.iter().flat_map(|stored| &stored.waiter.needs).map(|need| &need.name);
        let names: BTreeSet<&Name> = held.chain(wanted).collect();
        let view = |name: &Name| {
            let is_on = |lease: &&StoredLease| lease.name == *name;
            let waits =
                |stored: &&StoredWaiter| stored.waiter.needs.iter().any(|need| need.name == *name);
            Ok(NameView {
                name: name.clone(),
                stored: self.tables.name(name)?.unwrap_or_default(),
                leases: leases.iter().filter(is_on).cloned().collect(),
                waiters: waiters.iter().filter(waits).cloned().collect(),
            })
        };
        names.into_iter().map(view).collect()
    }

    /// Loads what a change of `names` and of the holder's place depends on, makes it, and saves the result.
    pub(super) fn decide<T>(
        &self,
        names: &[Name],
        holders: &[&HolderId],
        queues: QueuePart,
        change: impl FnOnce(&mut LeaseGroup<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut group = self.load(names, holders, queues)?;
        let result = change(&mut group)?;
        self.save(group)?;
        Ok(result)
    }

    fn load(
        &self,
        names: &[Name],
        holders: &[&HolderId],
        queues: QueuePart,
    ) -> Result<LeaseGroup<'a>, StoreError> {
        let query = LeaseQuery { names, holders, queues, at: self.now.at };
        LeaseGroup::new(self.tables.load(&query)?, self.clock, self.now)
    }

    fn save(&self, mut group: LeaseGroup<'a>) -> Result<(), StoreError> {
        loop {
            self.notices.add_turns(group.take_turns());
            self.tables.save(&group.changes())?;
            if !group.lacks_waiters() {
                return Ok(());
            }
            group = self.load(&group.names(), &[], QueuePart::Head)?;
            group.state.notify(self.now.at);
        }
    }
}

/// The place of a waiter in the queue: smaller comes first.
fn rank(stored: &StoredWaiter) -> (Reverse<i64>, u64) {
    (Reverse(stored.waiter.priority), stored.waiter.arrival)
}

#[cfg(test)]
mod tests;

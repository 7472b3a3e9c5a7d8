//! Names: claiming, holding, releasing and waiting for them.
//!
//! `windlass-core` decides which claim gets a name, over the group of leases that this transaction has
//! loaded, and the transaction stores the answer.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::slice;

use windlass_core::{Answer, Claimed as CoreClaimed, HolderId, Name, NameRefusal, Token};

use super::Notices;
use super::claim::{Claim, Claimed, OnRefusal, Refused};
use crate::clock::ClockReading;
use crate::error::StoreError;
use crate::lease::{ProcessGroup, StoredLease, StoredName, StoredWaiter};
use crate::lease_group::LeaseGroup;
use crate::name::check_name;
use crate::process::Process;
use crate::tables::{GroupChanges, LeaseTables, Scope};
use crate::wakeup::{Notice, Topic};

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
    tables: &'a dyn LeaseTables,
    now: &'a ClockReading,
    notices: &'a Notices,
}

impl<'a> Leases<'a> {
    pub(super) fn new(
        tables: &'a dyn LeaseTables,
        now: &'a ClockReading,
        notices: &'a Notices,
    ) -> Self {
        Self { tables, now, notices }
    }

    /// Creates a semaphore, or changes its capacity if it has neither holders nor waiters.
    pub fn declare(&self, name: &str, capacity: u32) -> Result<(), StoreError> {
        let key = Name::Semaphore(name.to_owned());
        check_name(&key)?;
        self.decide(slice::from_ref(&key), |group| {
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
        let names = claim.names()?;
        if let Some(refused) = self.refuse_by_holders(claim, &names)? {
            return Ok(Claimed::Refused(refused));
        }
        self.decide(&names, |group| match self.refuse(group, claim)? {
            Some(refused) => Ok(Claimed::Refused(refused)),
            None => match group.state.claim(&claim.for_core(), group.now().at)? {
                CoreClaimed::Held(holds) => Ok(Claimed::Held(holds)),
                CoreClaimed::Refused(refusals) => unreachable!("{refusals:?} were checked for"),
            },
        })
    }

    /// Returns why a claim would be refused, and joins the queue if it is. A claim that would succeed
    /// takes nothing; the caller may claim later.
    pub fn refusal(&self, claim: &Claim<'_>) -> Result<Option<Refused>, StoreError> {
        let names = claim.names()?;
        match self.refuse_by_holders(claim, &names)? {
            Some(refused) => Ok(Some(refused)),
            None => self.decide(&names, |group| self.refuse(group, claim)),
        }
    }

    /// Refuses a claim for one name that others hold, without loading the queue: whatever the queue is,
    /// the holders refuse it. So a long queue costs nothing to those that join it.
    fn refuse_by_holders(
        &self,
        claim: &Claim<'_>,
        names: &[Name],
    ) -> Result<Option<Refused>, StoreError> {
        let [_] = claim.needs else { return Ok(None) };
        let mut group = self.load(names, Scope::Own(claim.holder))?;
        let refused = self.refuse(&mut group, claim)?;
        if refused.is_some() {
            self.save(group)?;
        }
        Ok(refused)
    }

    /// Adds the claim to the queue if something refuses it, as far as the group knows. Dead holders and
    /// waiters are removed before the claim is refused because of them.
    fn refuse(
        &self,
        group: &mut LeaseGroup<'_>,
        claim: &Claim<'_>,
    ) -> Result<Option<Refused>, StoreError> {
        group.set_claimant(claim.holder, claim.claimant());
        for (name, token) in claim.ended {
            group.state.clear_remains(name, *token);
        }
        let (core, now) = (claim.for_core(), group.now().at);
        while group.remove_dead(&group.state.obstacles(&core, now)?) {}
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
        let ahead = self.tables.ahead(&name, own.priority, own.arrival)?;
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
        self.decide(slice::from_ref(name), |group| {
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
        self.decide(slice::from_ref(name), |group| {
            Ok(group.state.heartbeat(name, holder, token, group.now().at))
        })
    }

    /// Records a heartbeat for every name that `process` holds. Returns the names it has lost.
    pub fn heartbeat_process(&self, process: &Process) -> Result<Vec<Name>, StoreError> {
        let mut lost = Vec::new();
        for StoredLease { name, lease, .. } in self.tables.leases_of_process(process)? {
            if !self.heartbeat(&name, &lease.holder, lease.token)?.is_yes() {
                lost.push(name);
            }
        }
        Ok(lost)
    }

    /// Returns whether `token` belongs to a valid lease on `name`, and its holder.
    pub fn check(
        &self,
        name: &Name,
        token: Token,
    ) -> Result<(Answer, Option<HolderId>), StoreError> {
        self.decide(slice::from_ref(name), |group| {
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
        self.tables.save_group(&GroupChanges { leases, ..GroupChanges::default() })
    }

    /// Removes a holder from the queue, if it waits.
    pub fn leave_queue(&self, holder: &HolderId) -> Result<(), StoreError> {
        let Some(stored) = self.tables.waiter(holder)? else { return Ok(()) };
        let names: Vec<_> = stored.waiter.needs.into_iter().map(|need| need.name).collect();
        self.decide(&names, |group| {
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

    /// Loads the group that `names` belong to, changes it, and saves what has changed.
    fn decide<T>(
        &self,
        names: &[Name],
        change: impl FnOnce(&mut LeaseGroup<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut group = self.load(names, Scope::Group)?;
        let result = change(&mut group)?;
        self.save(group)?;
        Ok(result)
    }

    fn load(&self, names: &[Name], scope: Scope<'_>) -> Result<LeaseGroup<'a>, StoreError> {
        LeaseGroup::new(self.tables.load_group(names, scope)?, self.now)
    }

    fn save(&self, mut group: LeaseGroup<'_>) -> Result<(), StoreError> {
        let wakeups = group.wakeups();
        self.tables.save_group(&group.changes())?;
        self.notices.add(wakeups.into_iter().map(|wakeup| Notice::One(Topic::Turn, wakeup)));
        Ok(())
    }
}

/// The place of a waiter in the queue: smaller comes first.
fn rank(stored: &StoredWaiter) -> (Reverse<i64>, u64) {
    (Reverse(stored.waiter.priority), stored.waiter.arrival)
}

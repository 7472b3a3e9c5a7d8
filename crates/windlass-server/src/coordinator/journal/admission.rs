//! Claims the names that attempts need, in the commit that begins the attempts.
//!
//! Only the store knows whether a name is free. So one transaction takes a grant of the engine, claims
//! the names, and begins the work or returns the grant. A refused work holds nothing inside the run, and
//! keeps its place in the queue of the name. Knows nothing of processes.

use std::collections::BTreeMap;

use windlass_core::{Grant, Token};
use windlass_store::{
    Claim, Claimed, LeaseTerms, Leftover, Name, Need, Process, StoreError, Transaction,
};
use windlass_workflow::Plan;

use super::super::identity::RunIdentity;
use super::refusals::Refusals;
use super::{Committed, Start};
use crate::command::ResolveError;
use crate::process_tag;
use crate::schedule::Schedule;

/// Claims names for the attempts of a run, within one transaction.
pub(in crate::coordinator) struct NameClaims<'a> {
    transaction: &'a Transaction<'a>,
    identity: &'a RunIdentity,
    /// The process that will hold the names.
    pub(in crate::coordinator) process: &'a Process,
    /// The process that waits for them.
    waiter: &'a Process,
    /// Stale holds of which no process is left.
    cleared: &'a [(Name, Token)],
    /// The wake-up to notify when a waiter of the run comes first.
    wakeup: Option<&'a str>,
    refusals: Refusals<'a>,
    /// What dead holders have left running and has to end before a name is free.
    pub(in crate::coordinator) leftovers: Vec<Leftover>,
}

/// The result of a grant.
pub(in crate::coordinator) enum Admitted {
    Began(Start),
    /// A name has refused the work, for this reason.
    Refused(String),
}

impl<'a> NameClaims<'a> {
    /// Claims for `process`, which also waits. The next claims take names whose stale holds are
    /// `cleared`.
    pub(in crate::coordinator) fn new(
        transaction: &'a Transaction<'a>,
        identity: &'a RunIdentity,
        process: &'a Process,
        cleared: &'a [(Name, Token)],
        wakeup: Option<&'a str>,
    ) -> Self {
        let refusals = Refusals::new(transaction, identity);
        let (waiter, leftovers) = (process, Vec::new());
        Self { transaction, identity, process, waiter, cleared, wakeup, refusals, leftovers }
    }

    /// Takes every work that fits inside the run, and begins those whose names are free. The others
    /// keep a place in the queues of their names, and give back what they had inside the run.
    pub(super) fn admit(&mut self, schedule: &mut Schedule) -> Result<Committed, StoreError> {
        self.wake_refused(schedule)?;
        let mut committed = Committed::default();
        while let Some(grant) = schedule.take_next() {
            match self.admit_one(schedule, grant)? {
                Admitted::Began(start) => committed.starts.push(start),
                Admitted::Refused(why) => committed.refusals.push((grant.work, why)),
            }
        }
        Ok(committed)
    }

    /// Begins a granted work if its names are free, and takes the grant back otherwise.
    pub(in crate::coordinator) fn admit_one(
        &mut self,
        schedule: &mut Schedule,
        grant: Grant,
    ) -> Result<Admitted, StoreError> {
        let known = "it was granted just now";
        let needs = match self.needs(schedule, grant) {
            Ok(needs) => needs,
            Err(unresolved) => {
                schedule.begin(grant).expect(known);
                let broken = Some(unresolved);
                return Ok(Admitted::Began(Start { broken, ..Start::plain(grant) }));
            }
        };
        let claimed = if needs.is_empty() {
            Claimed::Held(Vec::new())
        } else {
            let claim = |claim: &Claim<'_>| self.transaction.leases().claim(claim);
            self.with_claim(schedule, grant, &needs, claim)?
        };
        match claimed {
            Claimed::Held(holds) => {
                schedule.begin(grant).expect(known);
                let names = holds.into_iter().map(|hold| (hold.name, hold.token)).collect();
                Ok(Admitted::Began(Start { names, ..Start::plain(grant) }))
            }
            Claimed::Refused(refused) => {
                let why = self.refusals.describe(&refused)?;
                self.leftovers.extend(refused.leftovers);
                schedule.refuse(grant).expect(known);
                Ok(Admitted::Refused(why))
            }
        }
    }

    /// Wakes the refused works whose names are free now. It does not wake the others, because the engine
    /// would reserve capacity inside the run that they could not use. What refuses a work also refuses
    /// later works that need the same names, so few works of a long queue are checked.
    pub(in crate::coordinator) fn wake_refused(
        &mut self,
        schedule: &mut Schedule,
    ) -> Result<(), StoreError> {
        let mut queues: BTreeMap<Vec<Need>, Vec<Grant>> = BTreeMap::new();
        for grant in schedule.refused() {
            match self.needs(schedule, grant) {
                Ok(needs) => queues.entry(needs).or_default().push(grant),
                Err(_) => schedule.wake(grant.work),
            }
        }
        for (needs, grants) in queues {
            for grant in self.in_queue(&needs[0].name, grants)? {
                let look = |claim: &Claim<'_>| self.transaction.leases().refusal(claim);
                match self.with_claim(schedule, grant, &needs, look)? {
                    None => schedule.wake(grant.work),
                    Some(refused) => {
                        self.leftovers.extend(refused.leftovers);
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the names, shared by the whole machine, that an attempt needs.
    fn needs(&self, schedule: &Schedule, grant: Grant) -> Result<Vec<Need>, ResolveError> {
        self.identity.resolve(schedule, |resolver| resolver.needs(grant))
    }

    /// Sorts attempts by their places in the queue of a name.
    fn in_queue(&self, name: &Name, mut grants: Vec<Grant>) -> Result<Vec<Grant>, StoreError> {
        if grants.len() > 1 {
            let queue = self.transaction.leases().queue(name)?.into_iter().enumerate();
            let places: BTreeMap<_, _> = queue.map(|(place, holder)| (holder, place)).collect();
            let place = |grant: &Grant| places.get(&self.identity.holder(*grant)).copied();
            grants.sort_by_cached_key(|grant| place(grant).unwrap_or(usize::MAX));
        }
        Ok(grants)
    }

    /// Calls `act` with the claim of an attempt.
    fn with_claim<T>(
        &self,
        schedule: &Schedule,
        grant: Grant,
        needs: &[Need],
        act: impl FnOnce(&Claim<'_>) -> T,
    ) -> T {
        let holder = self.identity.holder(grant);
        let tree = process_tag::tree_of(&self.identity.attempt_tag(grant));
        let (process, waiter) = (Some(self.process), Some(self.waiter));
        let tree = Some(&tree);
        let terms = terms(schedule.plan());
        let (ended, wakeup) = (self.cleared, self.wakeup);
        act(&Claim { process, waiter, tree, ended, wakeup, terms, ..Claim::new(&holder, needs) })
    }
}

/// Returns the lease terms of all names of a run: the shortest heartbeat timeout of its semaphores.
pub(in crate::coordinator) fn terms(plan: &Plan) -> LeaseTerms {
    let usual = LeaseTerms::default();
    let asked = plan.semaphores.iter().filter_map(|semaphore| semaphore.heartbeat_timeout);
    let heartbeat_timeout =
        asked.min().map_or(usual.heartbeat_timeout, |asked| asked.min(usual.heartbeat_timeout));
    LeaseTerms { heartbeat_timeout, ..usual }
}

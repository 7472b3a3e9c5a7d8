//! Claims the names that attempts need, in the commit that begins the attempts.
//!
//! Only the store knows whether a name is free. So one transaction takes a grant of the engine and claims
//! the names; a grant whose names are taken is returned. A refused work holds nothing inside the run, and
//! keeps its place in the queue of the name. A grant is no fact, so that a transaction that is repeated
//! claims again for what was granted before. Knows nothing of processes.

use windlass_core::{ClaimError, Grant, HolderId, Token};
use windlass_store::{
    Claim, Claimed, LeaseTerms, Leftover, Name, Need, Process, StoreError, Transaction, Waiter,
};
use windlass_workflow::Plan;

use super::super::identity::RunIdentity;
use super::refusals::Refusals;
use super::{Committed, Start};
use crate::command::ResolveError;
use crate::participant::{Asking, LimitTurn, Participant};
use crate::process_tag;
use crate::schedule::Schedule;

/// How many slots' waiters of a queue are looked at for one commit. If more of a run can go on, the wake-up
/// of the next one brings the next commit.
pub(crate) const LOOKED_AT: u64 = 64;

/// Claims names for the attempts of a run, within one transaction.
pub(in crate::coordinator) struct NameClaims<'a> {
    transaction: &'a Transaction<'a>,
    identity: &'a RunIdentity,
    /// The process that will hold the names.
    pub(in crate::coordinator) process: &'a Process,
    /// The process that waits for them.
    waiter: &'a Process,
    /// Whose place in the queues of limits its attempts have.
    place: &'a HolderId,
    /// Stale holds of which no process is left.
    cleared: &'a [(Name, Token)],
    /// The wake-up to notify when a waiter of the run comes first.
    wakeup: Option<&'a str>,
    /// None if no user reads why a step is refused.
    refusals: Option<Refusals<'a>>,
    /// What dead holders have left running and has to end before a name is free.
    pub(in crate::coordinator) leftovers: Vec<Leftover>,
}

/// The result of a grant.
pub(in crate::coordinator) enum Admitted {
    /// The attempt has its names, and may begin.
    Held(Start),
    /// A name has refused the work, for this reason.
    Refused(String),
}

impl<'a> NameClaims<'a> {
    /// Claims for `process`, which also waits; limits at `place` in their queues. The next claims take names
    /// whose stale holds are `cleared`.
    pub(in crate::coordinator) fn new(
        transaction: &'a Transaction<'a>,
        identity: &'a RunIdentity,
        process: &'a Process,
        place: &'a HolderId,
        cleared: &'a [(Name, Token)],
        wakeup: Option<&'a str>,
    ) -> Self {
        let refusals = Some(Refusals::new(transaction, identity));
        let (waiter, leftovers) = (process, Vec::new());
        Self { transaction, identity, process, waiter, place, cleared, wakeup, refusals, leftovers }
    }

    /// Looks no holder up to say why a step is refused.
    pub(in crate::coordinator) fn silent(self) -> Self {
        Self { refusals: None, ..self }
    }

    /// Takes every work that fits inside the run, and claims its names. Those that get them may begin once
    /// that is committed. The others keep a place in the queues of their names, and give back what they had
    /// inside the run. `granted` has the works that an earlier call has taken, and gets those that it takes.
    pub(super) fn admit(
        &mut self,
        schedule: &mut Schedule,
        granted: &mut Vec<Grant>,
    ) -> Result<Committed, StoreError> {
        let mut committed = Committed::default();
        for &grant in &*granted {
            self.admit_into(&mut committed, schedule, grant)?;
        }
        self.wake_refused(schedule)?;
        while let Some(grant) = schedule.take_next() {
            granted.push(grant);
            self.admit_into(&mut committed, schedule, grant)?;
        }
        Ok(committed)
    }

    /// Does the same for a run that takes from limits of the store: gives it what others leave, and a place in
    /// the queues if that is not enough.
    pub(super) fn admit_all(
        &mut self,
        schedule: &mut Schedule,
        granted: &mut Vec<Grant>,
        participant: &Participant,
        asking: Asking<'_>,
    ) -> Result<Committed, StoreError> {
        let mut rooms = participant.share(self.transaction, asking, schedule.shared_capacity())?;
        if !participant.is_idle() {
            schedule.search_again();
        }
        let mut committed = self.admit(schedule, granted)?;
        loop {
            let has_started = committed.starts.iter().any(Start::has_limits);
            let wait = schedule.limit_wait();
            schedule.set_waits_for_limits(wait.is_some());
            let (transaction, wait) = (self.transaction, wait.as_ref());
            let turn = participant.queue(transaction, asking, &rooms, wait, has_started)?;
            let why = match turn {
                LimitTurn::Nothing => return Ok(committed),
                LimitTurn::Impossible(why) => Some(why),
                LimitTurn::Refused(refused) => {
                    let why =
                        self.refusals.as_mut().map(|all| all.describe(&refused)).transpose()?;
                    self.leftovers.extend(refused.leftovers);
                    why
                }
                LimitTurn::Free => {
                    let before = rooms;
                    rooms = participant.share(transaction, asking, schedule.shared_capacity())?;
                    if rooms == before {
                        return Ok(committed);
                    }
                    schedule.search_again();
                    let mut more = Vec::new();
                    let admitted = self.admit(schedule, &mut more)?;
                    granted.append(&mut more);
                    committed.starts.extend(admitted.starts);
                    committed.refusals.extend(admitted.refusals);
                    continue;
                }
            };
            let work = wait.map(|wait| wait.work);
            committed.refusals.extend(work.zip(why));
            return Ok(committed);
        }
    }

    fn admit_into(
        &mut self,
        committed: &mut Committed,
        schedule: &mut Schedule,
        grant: Grant,
    ) -> Result<(), StoreError> {
        match self.admit_one(schedule, grant)? {
            Admitted::Held(start) => committed.starts.push(start),
            Admitted::Refused(why) => committed.refusals.push((grant.work, why)),
        }
        Ok(())
    }

    /// Claims the names of a granted work, and takes the grant back if one is not free.
    pub(in crate::coordinator) fn admit_one(
        &mut self,
        schedule: &mut Schedule,
        grant: Grant,
    ) -> Result<Admitted, StoreError> {
        let needs = match self.needs(schedule, grant) {
            Ok(needs) => needs,
            Err(unresolved) => {
                let broken = Some(unresolved);
                return Ok(Admitted::Held(Start { broken, ..Start::plain(grant) }));
            }
        };
        let claimed = if needs.is_empty() {
            Claimed::Held(Vec::new())
        } else {
            let claim = |claim: &Claim<'_>| self.transaction.leases().claim(claim);
            match self.with_claim(schedule, grant, &needs, claim) {
                // A limit was removed or lowered, and the works wait until it is set again.
                Err(error) if is_unmet(&error) => {
                    schedule.refuse(grant, needs).expect("it was granted");
                    return Ok(Admitted::Refused(error.to_string()));
                }
                Err(StoreError::Limit(changed)) => {
                    let broken = Some(ResolveError::Limit(changed));
                    return Ok(Admitted::Held(Start { broken, ..Start::plain(grant) }));
                }
                claimed => claimed?,
            }
        };
        match claimed {
            Claimed::Held(holds) => {
                let names: Vec<_> = holds.into_iter().map(|hold| (hold.name, hold.token)).collect();
                let items = items_of(self.transaction, &names)?;
                Ok(Admitted::Held(Start { names, items, ..Start::plain(grant) }))
            }
            Claimed::Refused(refused) => {
                let why = match &mut self.refusals {
                    Some(refusals) => refusals.describe(&refused)?,
                    None => String::new(),
                };
                self.leftovers.extend(refused.leftovers);
                schedule.refuse(grant, needs).expect("it was granted");
                Ok(Admitted::Refused(why))
            }
        }
    }

    /// Wakes the refused works whose names are free now. It does not wake the others, because the engine
    /// would reserve capacity inside the run that they could not use. The store calls a waiter whose turn
    /// has come. What refuses a work also refuses later works that need the same names, so of those that
    /// were not called only the first is checked.
    pub(super) fn wake_refused(&mut self, schedule: &mut Schedule) -> Result<(), StoreError> {
        schedule.refused_needs().iter().try_for_each(|needs| self.wake_refused_by(schedule, needs))
    }

    /// Does the same for the works that need this.
    pub(in crate::coordinator) fn wake_refused_by(
        &mut self,
        schedule: &mut Schedule,
        needs: &[Need],
    ) -> Result<(), StoreError> {
        for (grant, is_called) in self.first_refused(schedule, needs)? {
            if !is_called {
                // It is first, or what is before it may have ended without a word.
                let look = |claim: &Claim<'_>| self.transaction.leases().refusal(claim);
                match self.with_claim(schedule, grant, needs, look) {
                    Ok(Some(refused)) => {
                        self.leftovers.extend(refused.leftovers);
                        break;
                    }
                    // The capacity of the run has no room for it then.
                    Err(error) if !is_unmet(&error) => return Err(error),
                    _ => {}
                }
            }
            schedule.wake(grant.work);
        }
        Ok(())
    }

    /// Returns the names, shared by the whole machine, that an attempt needs.
    fn needs(&self, schedule: &Schedule, grant: Grant) -> Result<Vec<Need>, ResolveError> {
        self.identity.resolve(schedule, |resolver| resolver.needs(grant))
    }

    /// Returns the refused attempts with these needs that are at the head of the queue, in its order, and
    /// whether the store has called them. If there is none, any of them stands for all.
    fn first_refused(
        &self,
        schedule: &Schedule,
        needs: &[Need],
    ) -> Result<Vec<(Grant, bool)>, StoreError> {
        let first = self.transaction.leases().first_waiters(needs, LOOKED_AT)?;
        let attempt = |waiter: &Waiter| {
            let grant = self.identity.grant_of(&waiter.holder)?;
            let is_it = self.identity.holder(grant) == waiter.holder;
            let is_it = is_it && schedule.is_refused(grant, needs);
            is_it.then_some((grant, waiter.notified_at.is_some()))
        };
        let mut attempts: Vec<_> = first.iter().filter_map(attempt).collect();
        if attempts.is_empty() {
            attempts.extend(schedule.any_refused(needs).map(|grant| (grant, false)));
        }
        Ok(attempts)
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
        let (priority, claim) = (i64::from(schedule.plan().priority), Claim::new(&holder, needs));
        let in_place_of = Some(self.place);
        act(&Claim { process, waiter, tree, in_place_of, ended, wakeup, terms, priority, ..claim })
    }
}

/// Returns whether a claim needs a limit that the store does not have, or more of it than there is.
fn is_unmet(error: &StoreError) -> bool {
    matches!(error, StoreError::Claim(ClaimError::NoLimit { .. } | ClaimError::AboveLimit { .. }))
}

/// Returns the variables that tell the holder of `names` which items of limits it has.
pub(in crate::coordinator) fn items_of(
    transaction: &Transaction<'_>,
    names: &[(Name, Token)],
) -> Result<Vec<(String, String)>, StoreError> {
    let limits = names.iter().filter(|(name, _)| matches!(name, Name::Limit(_)));
    let items = limits.map(|(name, token)| transaction.limits().items(name.text(), *token));
    items.filter_map(Result::transpose).map(|items| Ok(items?.variable())).collect()
}

/// Returns the lease terms of all names of a run: the shortest heartbeat timeout of its semaphores.
pub(in crate::coordinator) fn terms(plan: &Plan) -> LeaseTerms {
    let usual = LeaseTerms::default();
    let asked = plan.semaphores.iter().filter_map(|semaphore| semaphore.heartbeat_timeout);
    let heartbeat_timeout =
        asked.min().map_or(usual.heartbeat_timeout, |asked| asked.min(usual.heartbeat_timeout));
    LeaseTerms { heartbeat_timeout, ..usual }
}

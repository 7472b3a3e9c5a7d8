//! How attempts get the names that they need, in the commit that begins them.

use std::collections::BTreeMap;

use windlass_core::{Grant, HolderId, Token};
use windlass_store::{
    Claim, Claimed, LeaseTerms, Leftover, Name, Need, Process, ProcessTree, Refused, StoreError,
    Transaction,
};
use windlass_workflow::Plan;

use super::super::identity::RunIdentity;
use super::{Committed, Start};
use crate::asking::other_users_leftover;
use crate::command::ResolveError;
use crate::schedule::Schedule;
use crate::tree;
use crate::users::user_name;

/// Claims names for the attempts of a run, within one transaction.
pub(super) struct NameClaims<'a> {
    pub(super) transaction: &'a Transaction<'a>,
    pub(super) identity: &'a RunIdentity,
    pub(super) process: &'a Process,
    /// Stale holds of which no process is left.
    pub(super) cleared: &'a [(Name, Token)],
    /// The wake-up to notify when a waiter of the run comes first.
    pub(super) wakeup: Option<&'a str>,
    /// What dead holders have left running and has to end before a name is free.
    pub(super) leftovers: Vec<Leftover>,
}

impl NameClaims<'_> {
    /// Takes every work that fits inside the run, and begins those whose names are free. The others
    /// keep a place in the queues of their names, and give back what they had inside the run.
    pub(super) fn admit(&mut self, schedule: &mut Schedule) -> Result<Committed, StoreError> {
        let known = "it was granted just now";
        self.wake_refused(schedule)?;
        let mut committed = Committed::default();
        while let Some(grant) = schedule.take_next() {
            let needs = match self.needs(schedule, grant) {
                Ok(needs) => needs,
                Err(unresolved) => {
                    schedule.begin(grant).expect(known);
                    let broken = Some(unresolved);
                    committed.starts.push(Start { broken, ..Start::plain(grant) });
                    continue;
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
                    committed.starts.push(Start { names, ..Start::plain(grant) });
                }
                Claimed::Refused(refused) => {
                    committed.refusals.push((grant.work, waits_for(&refused)));
                    self.leftovers.extend(refused.leftovers);
                    schedule.refuse(grant).expect(known);
                }
            }
        }
        Ok(committed)
    }

    /// Has those refused works look again whose names are free now. The others do not, because the
    /// engine would reserve capacity inside the run for them that they could not use. What refuses one
    /// refuses those behind it that need the same, so few of a long queue are looked at.
    fn wake_refused(&mut self, schedule: &mut Schedule) -> Result<(), StoreError> {
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
        let tree = ProcessTree { mark: tree::mark(&self.identity.attempt_tag(grant)), group: None };
        let (process, tree) = (Some(self.process), Some(&tree));
        let terms = terms(schedule.plan());
        let (ended, bell) = (self.cleared, self.wakeup);
        act(&Claim { process, tree, ended, wakeup: bell, terms, ..Claim::new(&holder, needs) })
    }
}

/// Names the first name that was refused, and its first holder or the first waiter ahead.
fn waits_for(refused: &Refused) -> String {
    let (name, first) = refused.first();
    if let Some(Leftover { name, uid: Some(uid), left, .. }) = other_users_leftover(refused) {
        let (user, left) = (user_name(*uid), left.as_secs() + 1);
        return format!(
            "{name}: its holder has ended, but what {user} has left running cannot be ended here; \
             its lease lasts for {left} s at most"
        );
    }
    match refused.refusals[0].holders.is_empty() {
        false => format!("{name}, held by {}", brief(first)),
        true => format!("{name}, queued behind {}", brief(first)),
    }
}

/// Shortens a holder to its process or its run.
fn brief(holder: &HolderId) -> &str {
    let whole = holder.as_str();
    let end = if whole.starts_with("run ") { '/' } else { '(' };
    whole.split(end).next().unwrap_or(whole).trim_end()
}

/// Returns the lease terms of all names of a run: the shortest heartbeat timeout of its semaphores.
pub(in crate::coordinator) fn terms(plan: &Plan) -> LeaseTerms {
    let usual = LeaseTerms::default();
    let asked = plan.semaphores.iter().filter_map(|semaphore| semaphore.heartbeat_timeout);
    let heartbeat_timeout =
        asked.min().map_or(usual.heartbeat_timeout, |asked| asked.min(usual.heartbeat_timeout));
    LeaseTerms { heartbeat_timeout, ..usual }
}

#[cfg(test)]
mod tests {
    use windlass_core::NameRefusal;

    use super::*;

    #[test]
    fn a_waiter_that_is_only_queued_holds_nothing_yet() {
        let said = |holders: &[&str], ahead: &[&str]| {
            let all = |ids: &[&str]| ids.iter().map(|id| HolderId::new(*id)).collect();
            let name = Name::Lock("x".to_owned());
            let refusal =
                NameRefusal { name, available: 0, holders: all(holders), ahead: all(ahead) };
            let refusals = vec![refusal];
            waits_for(&Refused { refusals, leftovers: Vec::new(), blockers: Vec::new(), ahead: 0 })
        };
        let (first, second) = ("run 1a2b/3@1 epoch 4", "process 7 (boot)");
        assert_eq!(said(&[first], &[second]), "lock \"x\", held by run 1a2b");
        let waits = "lock \"x\", queued behind process 7";
        assert_eq!(said(&[], &[second, first]), waits);
    }
}

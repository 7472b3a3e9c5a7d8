//! Who leads a run, and how its attempts get their names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use windlass_core::{Fact, Grant, HolderId, Phase, Token, WorkId};
use windlass_store::{
    Claim, Claimed, LeaseTerms, Leftover, Name, Need, Process, Refused, RunEnd, RunRecord,
    StoreError, Transaction, Tree,
};
use windlass_workflow::Plan;

use super::{Expected, RunError};
use crate::asking::other_users_leftover;
use crate::command::{CommandResolver, ResolveError};
use crate::presence::Presence;
use crate::schedule::Schedule;
use crate::tree;
use crate::users::user_name;

/// Who leads the run, and under which epoch.
pub(super) struct Leader {
    pub(super) run: RunRecord,
    /// Where the store is, once it attends to the run.
    state: PathBuf,
    pub(super) holder: HolderId,
    pub(super) process: Process,
    pub(super) epoch: Token,
    /// Says that it is there, also to those who cannot see its children.
    pub(super) presence: Option<Presence>,
}

/// An attempt that the store knows about, with the names it holds.
pub(super) struct Start {
    pub(super) grant: Grant,
    pub(super) names: Vec<(Name, Token)>,
    /// Why it cannot be started.
    pub(super) broken: Option<ResolveError>,
}

impl Leader {
    /// The right to lead `run`, or who else has it.
    pub(super) fn take_over(
        transaction: &Transaction<'_>,
        run: RunRecord,
    ) -> Result<Result<Self, (String, HolderId)>, StoreError> {
        let unknown = |source| StoreError::Io { path: "/proc/self".into(), source };
        let process = Process::current().map_err(unknown)?;
        let holder = HolderId::new(format!("windlass[{}.{}]", process.pid, process.started));
        let needs = [Need::one(Name::Run(run.id.clone()))];
        let claim = Claim { process: Some(&process), ..Claim::new(&holder, &needs) };
        match transaction.claim(&claim)? {
            Claimed::Held(holds) => {
                let epoch = holds[0].token;
                let state = PathBuf::new();
                Ok(Ok(Self { run, state, holder, process, epoch, presence: None }))
            }
            Claimed::Refused(refused) => {
                transaction.leave_line(&holder)?;
                Ok(Err((run.id, refused.first().1.clone())))
            }
        }
    }

    /// The right to lead a run that is stored, with its end, if it has ended and `expected` says so. Both
    /// are looked at in the same commit: whoever led the run may have ended it a moment ago.
    pub(super) fn succeed(
        transaction: &Transaction<'_>,
        run: RunRecord,
        plan: &Plan,
        expected: Expected,
    ) -> Result<Result<(Self, Option<RunEnd>), RunError>, StoreError> {
        let end = transaction.listing(&run.id)?.end;
        if let (Expected::Open, Some(RunEnd { outcome, .. })) = (expected, end) {
            return Ok(Err(RunError::Over { run: run.id, outcome }));
        }
        declare(transaction, plan)?;
        let leader = match Self::take_over(transaction, run)? {
            Ok(leader) => leader,
            Err((run, by)) => return Ok(Err(RunError::Led { run, by })),
        };
        if (expected, end) == (Expected::Over, None) {
            leader.give_up(transaction)?;
            return Ok(Err(RunError::NotOver { run: leader.run.id }));
        }
        // No step waits at a guard before this leader has checked it: a decision would be lost.
        for wait in transaction.waits(&leader.run.id)? {
            transaction.delete_wait(&leader.run.id, wait.work)?;
        }
        Ok(Ok((leader, end)))
    }

    /// Somebody else may lead the run.
    pub(super) fn give_up(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        let name = Name::Run(self.run.id.clone());
        transaction.release(&name, &self.holder, self.epoch).map(drop)
    }

    /// Sees to it that whatever an earlier leader has started can be found.
    pub(super) fn attend(&mut self, state: &Path) -> Result<(), RunError> {
        let what = "the processes of an earlier leader cannot be waited for";
        let presence = Presence::take(state, &self.run.id, &self.process);
        self.presence = Some(presence.map_err(|source| RunError::Io { what, source })?);
        state.clone_into(&mut self.state);
        Ok(())
    }

    /// Refuses to go on once somebody else leads the run.
    pub(super) fn expect_to_lead(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        transaction.append(&self.run.id, self.epoch, &[])
    }

    /// Adds what has happened to the journal; refused, also if it is nothing, once somebody else leads
    /// the run.
    pub(super) fn append(
        &self,
        transaction: &Transaction<'_>,
        schedule: &mut Schedule,
    ) -> Result<Vec<Fact>, StoreError> {
        let facts = schedule.take_facts();
        #[cfg(windlass_faults)]
        crate::fault::note_digest(schedule.engine().digest());
        transaction.append(&self.run.id, self.epoch, &facts)?;
        Ok(facts)
    }

    /// Has the steps in a phase that `fits` stand in no line any more.
    pub(super) fn leave_lines(
        &self,
        transaction: &Transaction<'_>,
        schedule: &mut Schedule,
        fits: impl Fn(Phase) -> bool,
    ) -> Result<(), StoreError> {
        let mut left = schedule.leave_lines(fits).into_iter();
        left.try_for_each(|grant| transaction.leave_line(&self.holder_of(grant)))
    }

    /// How to start the steps of `schedule`.
    pub(super) fn orders<'a>(
        &'a self,
        schedule: &'a Schedule,
        outputs: &'a dyn Fn(&str, &str) -> Option<String>,
    ) -> CommandResolver<'a> {
        let (run, dir, state) = (&self.run.id, &self.run.dir, &self.state);
        CommandResolver { plan: schedule.plan(), run, dir, state, outputs }
    }

    /// The host-wide names that an attempt needs.
    fn needs(
        &self,
        schedule: &Schedule,
        logs: &Path,
        grant: Grant,
    ) -> Result<Vec<Need>, ResolveError> {
        let written = |step: &str, key: &str| schedule.output(logs, step, key);
        self.orders(schedule, &written).needs(grant)
    }

    /// The attempts in the order in which they stand in line for a name.
    fn in_line(
        &self,
        transaction: &Transaction<'_>,
        name: &Name,
        mut grants: Vec<Grant>,
    ) -> Result<Vec<Grant>, StoreError> {
        if grants.len() > 1 {
            let line = transaction.line(name)?.into_iter().enumerate();
            let places: BTreeMap<_, _> = line.map(|(place, holder)| (holder, place)).collect();
            let place = |grant: &Grant| places.get(&self.holder_of(*grant)).copied();
            grants.sort_by_cached_key(|grant| place(grant).unwrap_or(usize::MAX));
        }
        Ok(grants)
    }

    /// What marks every process of the run.
    pub(super) fn mark(&self) -> String {
        format!("run-{}", self.run.id)
    }

    /// What marks the processes of an attempt, for whoever takes its names over.
    pub(super) fn mark_of(&self, grant: Grant) -> String {
        format!("run-{}-{}-{}-{}", self.run.id, self.epoch, grant.work, grant.attempt)
    }

    /// Who an attempt is when it asks for names: unique for this life of the run.
    pub(super) fn holder_of(&self, grant: Grant) -> HolderId {
        let Grant { work, attempt } = grant;
        HolderId::new(format!("run {}/{work}@{attempt} epoch {}", self.run.id, self.epoch))
    }
}

/// How the names of a run are asked for.
pub(super) struct Asking<'a> {
    /// Stale holds of which nothing is left.
    pub(super) ended: &'a [(Name, Token)],
    /// What has to be ended before a name can be had.
    pub(super) leftovers: &'a mut Vec<Leftover>,
    /// The bell to ring when a place in line comes up.
    pub(super) bell: Option<&'a str>,
    /// Who was refused, and by which name.
    pub(super) refusals: &'a mut Vec<(WorkId, String)>,
}

/// Takes every work that fits inside the run, and begins those whose names can be had in this very
/// commit. The others keep a place in line, and what they had inside the run is free again.
pub(super) fn admit(
    schedule: &mut Schedule,
    leader: &Leader,
    logs: &Path,
    transaction: &Transaction<'_>,
    asking: &mut Asking<'_>,
) -> Result<Vec<Start>, StoreError> {
    let known = "it was granted just now";
    ring(schedule, leader, logs, transaction, asking)?;
    let mut starts = Vec::new();
    while let Some(grant) = schedule.take_next() {
        let needs = match leader.needs(schedule, logs, grant) {
            Ok(needs) => needs,
            Err(unready) => {
                schedule.begin(grant).expect(known);
                starts.push(Start { grant, names: Vec::new(), broken: Some(unready) });
                continue;
            }
        };
        let claimed = if needs.is_empty() {
            Claimed::Held(Vec::new())
        } else {
            asking.with_claim(schedule, leader, grant, &needs, |claim| transaction.claim(claim))?
        };
        match claimed {
            Claimed::Held(holds) => {
                schedule.begin(grant).expect(known);
                let names = holds.into_iter().map(|hold| (hold.name, hold.token)).collect();
                starts.push(Start { grant, names, broken: None });
            }
            Claimed::Refused(refused) => {
                asking.refusals.push((grant.work, waits_for(&refused)));
                asking.leftovers.extend(refused.leftovers);
                schedule.refuse(grant).expect(known);
            }
        }
    }
    Ok(starts)
}

/// Has those look again whose names can be had now. The others do not, because what refuses them
/// inside would be set aside for them, though they could not use it. What refuses one refuses those
/// behind it that need the same, so of a long line hardly any have to be looked at.
fn ring(
    schedule: &mut Schedule,
    leader: &Leader,
    logs: &Path,
    transaction: &Transaction<'_>,
    asking: &mut Asking<'_>,
) -> Result<(), StoreError> {
    let mut lines: BTreeMap<Vec<Need>, Vec<Grant>> = BTreeMap::new();
    for grant in schedule.refused() {
        match leader.needs(schedule, logs, grant) {
            Ok(needs) => lines.entry(needs).or_default().push(grant),
            Err(_) => schedule.ring(grant.work),
        }
    }
    for (needs, grants) in lines {
        for grant in leader.in_line(transaction, &needs[0].name, grants)? {
            let look = |claim: &Claim<'_>| transaction.refusal(claim);
            match asking.with_claim(schedule, leader, grant, &needs, look)? {
                None => schedule.ring(grant.work),
                Some(refused) => {
                    asking.leftovers.extend(refused.leftovers);
                    break;
                }
            }
        }
    }
    Ok(())
}

impl Asking<'_> {
    /// Acts with the claim of an attempt.
    fn with_claim<T>(
        &self,
        schedule: &Schedule,
        leader: &Leader,
        grant: Grant,
        needs: &[Need],
        act: impl FnOnce(&Claim<'_>) -> T,
    ) -> T {
        let holder = leader.holder_of(grant);
        let tree = Tree { mark: tree::mark(&leader.mark_of(grant)), group: None };
        let (process, tree) = (Some(&leader.process), Some(&tree));
        let terms = terms(schedule.plan());
        let Asking { ended, bell, .. } = *self;
        act(&Claim { process, tree, ended, bell, terms, ..Claim::new(&holder, needs) })
    }
}

/// The first name that was refused, and its first holder or the first waiter ahead.
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

/// A holder without what only tells its lives apart: a process, or a run.
fn brief(holder: &HolderId) -> &str {
    let whole = holder.as_str();
    let end = if whole.starts_with("run ") { '/' } else { '(' };
    whole.split(end).next().unwrap_or(whole).trim_end()
}

/// Declares the semaphores that the steps of a plan hold slots of, for all who use the store.
pub(super) fn declare(transaction: &Transaction<'_>, plan: &Plan) -> Result<(), StoreError> {
    let used = |place: usize| {
        plan.steps.iter().any(|step| step.semaphores.iter().any(|slots| slots.semaphore == place))
    };
    for (place, semaphore) in plan.semaphores.iter().enumerate() {
        if used(place) {
            transaction.declare(&semaphore.name, semaphore.capacity)?;
        }
    }
    Ok(())
}

/// What all names of a run are held by: the shortest time without a heartbeat that any of its
/// semaphores asks for.
pub(super) fn terms(plan: &Plan) -> LeaseTerms {
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

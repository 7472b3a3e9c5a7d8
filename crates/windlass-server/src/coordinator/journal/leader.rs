//! The lead of a run: a lease whose fencing token is the epoch of everything that the leader writes.
//!
//! A run has one leader at a time. The store refuses facts under an older epoch, so a leader that has lost
//! its lease can write nothing any more. A new leader locks the leader file of the run before it acts.

use std::collections::BTreeSet;
use std::path::Path;

use windlass_core::{Fact, HolderId, Token};
use windlass_store::{
    Claim, Claimed, Name, Need, Process, RunEnd, RunRecord, StoreError, StoredLease, Transaction,
};
use windlass_workflow::Plan;

use super::super::RunError;
use super::super::identity::{RunIdentity, run_tag};
use crate::leader_file::LeaderFile;

/// This process as the leader of a run.
pub(in crate::coordinator) struct Leader {
    run: RunRecord,
    holder: HolderId,
    process: Process,
    epoch: Token,
    /// Shows that the leader lives, also to processes that cannot see its children.
    leader_file: Option<LeaderFile>,
}

/// Whether a run that is taken over must have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coordinator) enum Expected {
    Open,
    Over,
}

impl Leader {
    /// Claims the lead of `run` for this process. Returns the run's id and its leader if another process
    /// leads it.
    pub(in crate::coordinator) fn claim(
        transaction: &Transaction<'_>,
        run: RunRecord,
        process: Process,
    ) -> Result<Result<Self, (String, HolderId)>, StoreError> {
        let holder = HolderId::new(format!("windlass[{}]", process.id()));
        let needs = [Need::one(Name::Run(run.id.clone()))];
        let claim = Claim { process: Some(&process), ..Claim::new(&holder, &needs) };
        match transaction.leases().claim(&claim)? {
            Claimed::Held(holds) => {
                let epoch = holds[0].token;
                Ok(Ok(Self { run, holder, process, epoch, leader_file: None }))
            }
            Claimed::Refused(refused) => {
                transaction.leases().leave_queue(&holder)?;
                Ok(Err((run.id, refused.first().1.clone())))
            }
        }
    }

    /// Takes over the lead of a stored run. Returns how the run has ended, if it has and `expected`
    /// allows it. Both are read in the commit that claims the lead, because the last leader may have
    /// ended the run a moment ago.
    pub(in crate::coordinator) fn take_over(
        transaction: &Transaction<'_>,
        run: RunRecord,
        plan: &Plan,
        expected: Expected,
        process: Process,
    ) -> Result<Result<(Self, Option<RunEnd>), RunError>, StoreError> {
        let end = transaction.runs().listing(&run.id)?.end;
        if let (Expected::Open, Some(RunEnd { outcome, .. })) = (expected, end) {
            return Ok(Err(RunError::Over { run: run.id, outcome }));
        }
        declare(transaction, plan)?;
        let leader = match Self::claim(transaction, run, process)? {
            Ok(leader) => leader,
            Err((run, by)) => return Ok(Err(RunError::Led { run, by })),
        };
        if (expected, end) == (Expected::Over, None) {
            leader.give_up(transaction)?;
            return Ok(Err(RunError::NotOver { run: leader.run.id }));
        }
        // No step waits at a guard before this leader has checked it: a user's decision would be lost.
        for wait in transaction.steps().guard_waits(&leader.run.id)? {
            transaction.steps().delete_guard_wait(&leader.run.id, wait.work)?;
        }
        Ok(Ok((leader, end)))
    }

    /// Ends the lead of a run that a process had before this machine, which is the home of the run, was booted.
    pub(in crate::coordinator) fn depose_of_other_boots(
        transaction: &Transaction<'_>,
        run: &str,
        process: &Process,
    ) -> Result<(), StoreError> {
        let leases = transaction.leases().on(&Name::Run(run.to_owned()))?;
        let mut boots = leases.iter().filter_map(|stored| stored.owner.process.as_ref());
        match boots.any(|leader| leader.boot != process.boot) {
            true => Self::depose(transaction, run),
            false => Ok(()),
        }
    }

    /// Ends the lead of a run, whichever process has it.
    pub(in crate::coordinator) fn depose(
        transaction: &Transaction<'_>,
        run: &str,
    ) -> Result<(), StoreError> {
        let name = Name::Run(run.to_owned());
        for StoredLease { lease, .. } in transaction.leases().on(&name)? {
            transaction.leases().release(&name, &lease.holder, lease.token)?;
        }
        Ok(())
    }

    /// Lets another process lead the run.
    pub(in crate::coordinator) fn give_up(
        &self,
        transaction: &Transaction<'_>,
    ) -> Result<(), StoreError> {
        let name = Name::Run(self.run.id.clone());
        transaction.leases().release(&name, &self.holder, self.epoch).map(drop)
    }

    /// Locks the run's leader file, once no process of an earlier leader is left that holds it.
    pub(in crate::coordinator) fn attend(&mut self, state: &Path) -> Result<(), RunError> {
        let what = "cannot wait for the processes of an earlier leader";
        let leader_file = LeaderFile::take(state, &self.run.id, &self.process);
        self.leader_file = Some(leader_file.map_err(|source| RunError::Io { what, source })?);
        Ok(())
    }

    /// Fails once another process leads the run.
    pub(super) fn expect_to_lead(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        self.append(transaction, &[])
    }

    /// Adds facts to the journal; fails, also without any, once another process leads the run.
    pub(in crate::coordinator) fn append(
        &self,
        transaction: &Transaction<'_>,
        facts: &[Fact],
    ) -> Result<(), StoreError> {
        transaction.facts().append(&self.run.id, self.epoch, facts)
    }

    pub(in crate::coordinator) fn run_id(&self) -> &str {
        &self.run.id
    }

    /// Returns the tag that every process of the run carries.
    pub(in crate::coordinator) fn tag(&self) -> String {
        run_tag(&self.run.id)
    }

    pub(in crate::coordinator) fn process(&self) -> &Process {
        &self.process
    }

    /// Returns the run's identity under this leader, for a store in `state`.
    pub(in crate::coordinator) fn identity(&self, state: &Path) -> RunIdentity {
        RunIdentity::new(&self.run.id, &self.run.dir, state, self.epoch)
    }
}

/// Declares the semaphores of which the steps of a plan hold slots, for all users of the store.
pub(in crate::coordinator) fn declare(
    transaction: &Transaction<'_>,
    plan: &Plan,
) -> Result<(), StoreError> {
    let used = |place: usize| {
        plan.steps
            .iter()
            .any(|step| step.needs.semaphores.iter().any(|slots| slots.semaphore == place))
    };
    for (place, semaphore) in plan.semaphores.iter().enumerate() {
        if used(place) {
            transaction.leases().declare(&semaphore.name, semaphore.capacity)?;
        }
    }
    Ok(())
}

/// Checks that the store has the limits that steps of a plan use, and as much of them as each step needs.
pub(crate) fn expect_limits(transaction: &Transaction<'_>, plan: &Plan) -> Result<(), StoreError> {
    let used: BTreeSet<_> = plan.steps.iter().flat_map(|step| step.needs.limits()).collect();
    used.into_iter().try_for_each(|(limit, amount)| transaction.limits().expect(limit, amount))
}

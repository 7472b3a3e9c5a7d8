//! The lead: the lease of the one scheduler that leads the submitted runs of a store.

use windlass_core::Token;
use windlass_store::{
    Claim, Claimed, HolderId, LeaseTerms, Name, Need, Process, Store, StoreError, Transaction,
};

use crate::coordinator::RunError;
use crate::heartbeat::Heartbeat;

/// The lease of the scheduler that leads. Its heartbeats go on as long as this exists.
pub(super) struct Lead {
    holder: HolderId,
    epoch: Token,
    _heartbeat: Heartbeat,
}

impl Lead {
    /// Keeps the lease that a process has claimed.
    pub(super) fn keep(
        store: &Store,
        process: &Process,
        terms: LeaseTerms,
        epoch: Token,
    ) -> Result<Self, RunError> {
        let heartbeat = Heartbeat::of_process(store, process.clone(), terms);
        let what = "heartbeats cannot be sent";
        let _heartbeat = heartbeat.map_err(|source| RunError::Io { what, source })?;
        Ok(Self { holder: holder(process), epoch, _heartbeat })
    }

    pub(super) fn epoch(&self) -> Token {
        self.epoch
    }

    /// Lets another scheduler lead.
    pub(super) fn release(&self, transaction: &Transaction<'_>) -> Result<(), StoreError> {
        transaction.leases().release(&Name::Scheduler, &self.holder, self.epoch).map(drop)
    }
}

/// Claims the lead for a process. `wakeup` is notified when its turn may have come.
pub(in crate::service) fn claim_lead(
    store: &mut Store,
    process: &Process,
    terms: LeaseTerms,
    wakeup: &str,
) -> Result<Claimed, StoreError> {
    let (holder, needs) = (holder(process), [Need::one(Name::Scheduler)]);
    let (process, wakeup) = (Some(process), Some(wakeup));
    let claim = Claim { process, terms, wakeup, ..Claim::new(&holder, &needs) };
    store.transact(|transaction| transaction.leases().claim(&claim))
}

/// Returns whether no other scheduler has taken over the lead that has the token `epoch`.
pub(super) fn leads(transaction: &Transaction<'_>, epoch: Token) -> Result<bool, StoreError> {
    let held = transaction.leases().on(&Name::Scheduler)?;
    Ok(held.iter().any(|stored| stored.lease.token == epoch))
}

/// Returns the holder of the lead, or of a place in its queue, that a process has.
pub(super) fn holder(process: &Process) -> HolderId {
    HolderId::new(format!("windlass[{}] scheduler", process.id()))
}

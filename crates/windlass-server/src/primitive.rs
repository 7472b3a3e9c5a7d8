//! The primitives themselves, for scripts that hold names for longer than one command.

use std::io;
use std::time::Duration;

use windlass_core::{Answer, Hold as NameHold, HolderId, LeaseTerms, Name, Need, Token};
use windlass_store::{Process, Refused, Store, StoreError};

use crate::hold::HoldError;
use crate::lock_client::LockClient;
use crate::signals::SignalPipe;

/// A request for one name, by a holder that the caller has named.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// Who asks: one incarnation of whatever it stands for.
    pub holder: HolderId,
    /// What it asks for.
    pub need: Need,
    /// The capacity to declare first, if it is a semaphore.
    pub capacity: Option<u32>,
    /// For how long to hold it.
    pub terms: LeaseTerms,
    /// The process without which the hold is void.
    pub pid: Option<u32>,
    /// How long to wait for it.
    pub wait: Option<Duration>,
}

/// Takes a name, and keeps it until it is released, or no heartbeat comes for too long.
pub fn acquire(
    store: &mut Store,
    order: &Acquire,
    told: impl FnMut(&Refused),
) -> Result<NameHold, HoldError> {
    let failed = |what| move |source| HoldError::Io { what, source };
    let signals = SignalPipe::open().map_err(failed("signals cannot be watched"))?;
    let process = order.pid.map(named).transpose()?;
    let waiter = Process::current().map_err(failed("this process cannot be identified"))?;
    let client = LockClient {
        holder: &order.holder,
        needs: std::slice::from_ref(&order.need),
        terms: order.terms,
        process: process.as_ref(),
        waiter: &waiter,
        tree: None,
        declared: order.capacity.map(|capacity| (order.need.name.text(), capacity)),
        wait: order.wait,
        signals: Some(&signals),
    };
    let (mut holds, _) = client.acquire(store, told)?;
    Ok(holds.pop().expect("one name was asked for"))
}

/// The process that the caller has named.
fn named(pid: u32) -> Result<Process, HoldError> {
    Process::of(pid).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => HoldError::NoProcess { pid },
        _ => HoldError::Io { what: "the process that is named cannot be seen", source },
    })
}

/// Gives a name back.
pub fn release(
    store: &mut Store,
    name: &Name,
    holder: &HolderId,
    token: Token,
) -> Result<Answer, StoreError> {
    store.transact_leases(|transaction| transaction.leases().release(name, holder, token))
}

/// A sign of life.
pub fn heartbeat(
    store: &mut Store,
    name: &Name,
    holder: &HolderId,
    token: Token,
) -> Result<Answer, StoreError> {
    store.transact_leases(|transaction| transaction.leases().heartbeat(name, holder, token))
}

/// Whether a token is that of a present hold, and of `holder`, if one is named.
pub fn check(
    store: &mut Store,
    name: &Name,
    holder: Option<&HolderId>,
    token: Token,
) -> Result<Answer, StoreError> {
    let (answer, owner) =
        store.transact_leases(|transaction| transaction.leases().check(name, token))?;
    let other = holder.is_some_and(|holder| owner.as_ref() != Some(holder));
    Ok(match answer {
        Answer::Valid if other && matches!(name, Name::Semaphore(_)) => Answer::NotHolder,
        Answer::Valid if other => Answer::NotOwner,
        answer => answer,
    })
}

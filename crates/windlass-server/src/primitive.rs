//! Acquires, renews, checks and releases single names, for scripts that hold one for longer than a command.

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
    /// The holder; no other holder may use the same id.
    pub holder: HolderId,
    /// The name, and how much of it.
    pub need: Need,
    /// The capacity to declare first, if it is a semaphore.
    pub capacity: Option<u32>,
    /// For how long to hold it.
    pub terms: LeaseTerms,
    /// The process with which the lease ends.
    pub pid: Option<u32>,
    /// How long to wait for it.
    pub wait: Option<Duration>,
}

/// Acquires a name, which is held until it is released or its heartbeats stop.
pub fn acquire(
    store: &mut Store,
    order: &Acquire,
    on_refused: impl FnMut(&Refused),
) -> Result<NameHold, HoldError> {
    let failed = |what| move |source| HoldError::Io { what, source };
    let signals = SignalPipe::open().map_err(failed("cannot watch signals"))?;
    let process = order.pid.map(named).transpose()?;
    let waiter = Process::current().map_err(failed("cannot identify this process"))?;
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
    let (mut holds, _) = client.acquire(store, on_refused)?;
    Ok(holds.pop().expect("one name was asked for"))
}

/// Returns the process that the caller has named.
fn named(pid: u32) -> Result<Process, HoldError> {
    Process::of(pid).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => HoldError::NoProcess { pid },
        _ => HoldError::Io { what: "cannot inspect the process of --pid", source },
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

/// Renews the lease of a holder.
pub fn heartbeat(
    store: &mut Store,
    name: &Name,
    holder: &HolderId,
    token: Token,
) -> Result<Answer, StoreError> {
    store.transact_leases(|transaction| transaction.leases().heartbeat(name, holder, token))
}

/// Returns whether a token is that of a present hold, and of `holder`, if one is named.
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
        Answer::Valid if other && matches!(name, Name::Semaphore(_) | Name::Limit(_)) => {
            Answer::NotHolder
        }
        Answer::Valid if other => Answer::NotOwner,
        answer => answer,
    })
}

//! LockClient for names until they are had: in line, woken by a bell, without using the processor.
//!
//! One who waits is woken when its turn has come, and, if it is the next, when a process that holds
//! what it waits for ends. Besides that it looks again every few seconds, in case a bell was lost
//! with the process that should have rung it. Whatever a dead holder has left running is ended
//! before its names are taken.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{PidfdFlags, pidfd_open};
use windlass_core::{Hold, HolderId, LeaseTerms, Name, Need, Token};
use windlass_store::{
    Claim, Claimed, Leftover, OnRefusal, Process, ProcessTree, Refused, Store, StoreError,
    StoredLease, Topic, Wakeup,
};

use crate::attempt::pid;
use crate::hold::HoldError;
use crate::leader_file;
use crate::poll::poll;
use crate::process_tag;
use crate::signals::SignalPipe;

/// How often the first in line looks again though nobody rang.
const NET: Duration = Duration::from_secs(2);
/// How often the last in line does.
const WIDEST_NET: Duration = Duration::from_secs(60);
/// How many holders one waiter watches.
const WATCHED: usize = 64;

/// Who asks for what.
pub(crate) struct LockClient<'a> {
    pub(crate) holder: &'a HolderId,
    pub(crate) needs: &'a [Need],
    pub(crate) terms: LeaseTerms,
    /// The process without which the hold is void.
    pub(crate) process: Option<&'a Process>,
    /// The process that waits.
    pub(crate) waiter: &'a Process,
    pub(crate) tree: Option<&'a ProcessTree>,
    /// Declared first, in the same commit: a semaphore and its capacity.
    pub(crate) declared: Option<(&'a str, u32)>,
    /// How long to wait; none to wait for as long as it takes.
    pub(crate) wait: Option<Duration>,
    /// What ends the wait.
    pub(crate) signals: Option<&'a SignalPipe>,
}

impl LockClient<'_> {
    /// Takes the names together, as soon as they can be had. `told` hears of the first refusal. With
    /// them comes a moment before the claim was sent that succeeded: time counts from there.
    pub(crate) fn acquire(
        &self,
        store: &mut Store,
        mut told: impl FnMut(&Refused),
    ) -> Result<(Vec<Hold>, Instant), HoldError> {
        if let Some(signals) = self.signals {
            store.interrupt_when(signals.flag());
        }
        let had = self.acquire_within(store, Instant::now(), &mut told);
        // From here on a signal is the command's affair, and must not keep us from giving back.
        store.interrupt_when(|| false);
        match (had, self.signals) {
            (Err(HoldError::Store(StoreError::Interrupted)), Some(signals)) => {
                Err(HoldError::interrupted(signals))
            }
            (had, _) => had,
        }
    }

    fn acquire_within(
        &self,
        store: &mut Store,
        began: Instant,
        told: &mut impl FnMut(&Refused),
    ) -> Result<(Vec<Hold>, Instant), HoldError> {
        let refused = match self.claim(store, OnRefusal::GiveUp, None)? {
            (Claimed::Held(holds), sent) => return Ok((holds, sent)),
            (Claimed::Refused(refused), _) => refused,
        };
        told(&refused);
        if self.left(began).is_some_and(|left| left.is_zero()) {
            return Err(not_had(&refused));
        }
        let waited = self.wait_in_line(store, began);
        if waited.is_err() {
            store.interrupt_when(|| false);
            // The place in line goes with us; if the store is gone, so is the line.
            let _ =
                store.transact_leases(|transaction| transaction.leases().leave_queue(self.holder));
        }
        waited
    }

    fn wait_in_line(
        &self,
        store: &mut Store,
        began: Instant,
    ) -> Result<(Vec<Hold>, Instant), HoldError> {
        let wakeup = store.register(&Topic::Turn)?;
        loop {
            wakeup.drain();
            let refused = match self.claim(store, OnRefusal::Wait, Some(&wakeup))? {
                (Claimed::Held(holds), sent) => return Ok((holds, sent)),
                (Claimed::Refused(refused), _) => refused,
            };
            let left = self.left(began);
            if left.is_some_and(|left| left.is_zero()) {
                return Err(not_had(&refused));
            }
            self.rest(&wakeup, &refused, left)?;
        }
    }

    /// How long to wait still.
    fn left(&self, began: Instant) -> Option<Duration> {
        self.wait.map(|wait| wait.saturating_sub(began.elapsed()))
    }

    /// Claims once, and again after everything was ended that dead holders have left.
    fn claim(
        &self,
        store: &mut Store,
        patience: OnRefusal,
        wakeup: Option<&Wakeup>,
    ) -> Result<(Claimed, Instant), HoldError> {
        let mut ended: Vec<(Name, Token)> = Vec::new();
        loop {
            let sent = Instant::now();
            let claim = Claim {
                terms: self.terms,
                process: self.process,
                waiter: Some(self.waiter),
                tree: self.tree,
                on_refusal: patience,
                wakeup: wakeup.map(Wakeup::name),
                ended: &ended,
                ..Claim::new(self.holder, self.needs)
            };
            let claimed = match self.declared {
                None => store.transact_leases(|transaction| transaction.leases().claim(&claim))?,
                // A capacity outlives its holders, so it has to survive what they do not.
                Some((name, capacity)) => store.transact(|transaction| {
                    transaction.leases().declare(name, capacity)?;
                    transaction.leases().claim(&claim)
                })?,
            };
            let Claimed::Refused(refused) = &claimed else { return Ok((claimed, sent)) };
            let before = ended.len();
            for leftover in &refused.leftovers {
                let what = "what a dead holder has left running cannot be ended";
                let free = leader_file::end_leftover(store.dir(), leftover);
                let free = free.map_err(|source| HoldError::Io { what, source })?;
                let seen = (leftover.name.clone(), leftover.token);
                if free && !ended.contains(&seen) {
                    ended.push(seen);
                }
            }
            if ended.len() == before {
                return Ok((claimed, sent));
            }
        }
    }

    /// Waits until something may have changed, or `left` is over.
    fn rest(
        &self,
        wakeup: &Wakeup,
        refused: &Refused,
        left: Option<Duration>,
    ) -> Result<(), HoldError> {
        let next = refused.ahead == 0;
        let watched: Vec<_> = refused.blockers.iter().filter(|_| next).take(WATCHED).collect();
        let handles: Vec<_> = watched.iter().filter_map(|process| watch(process)).collect();
        let mut sources: Vec<&dyn AsFd> = vec![wakeup];
        sources.extend(handles.iter().map(|handle| handle as &dyn AsFd));
        sources.extend(self.signals.map(|signals| signals as &dyn AsFd));
        let net = net(refused.ahead);
        let ready = poll(&sources, Some(left.map_or(net, |left| left.min(net))));
        let what = "waiting is not possible";
        let ready = ready.map_err(|source| HoldError::Io { what, source })?;
        match self.signals.filter(|_| *ready.last().expect("there is a wakeup")) {
            Some(signals) => Err(HoldError::interrupted(signals)),
            None => Ok(()),
        }
    }
}

/// Whoever has started this process and has so much of a name that was refused that the rest is not
/// enough, so that the two may wait for each other.
pub fn waits_for_its_own(
    store: &mut Store,
    needs: &[Need],
    refused: &Refused,
) -> Result<Option<(Name, HolderId)>, StoreError> {
    store.read(|transaction| {
        for refusal in &refused.refusals {
            let leases = transaction.leases().on(&refusal.name)?;
            let wanted = needs.iter().filter(|need| need.name == refusal.name);
            let wanted = wanted.map(|need| need.weight).sum();
            if let Some(own) = too_much_of_its_own(&leases, refusal.available, wanted) {
                return Ok(Some((refusal.name.clone(), own.lease.holder.clone())));
            }
        }
        Ok(None)
    })
}

/// Returns what another user has left running under a name that was refused. This process cannot end
/// it, so the name is free when the lease is over.
#[must_use]
pub fn other_users_leftover(refused: &Refused) -> Option<&Leftover> {
    refused.leftovers.iter().find(|leftover| leader_file::is_out_of_reach(leftover))
}

/// A lease of whoever has started this process, if there is one and `wanted` is not had without it.
fn too_much_of_its_own(
    leases: &[StoredLease],
    available: u32,
    wanted: u32,
) -> Option<&StoredLease> {
    let marked = |lease: &&StoredLease| {
        lease.owner.tree.as_ref().is_some_and(|tree| process_tag::is_in(tree))
    };
    let (own, others): (Vec<_>, Vec<_>) = leases.iter().partition(marked);
    let theirs = others.iter().fold(available, |sum, other| sum.saturating_add(other.lease.weight));
    own.first().copied().filter(|_| wanted > theirs)
}

/// Something that can be read once a process has ended. None if it cannot be seen, or has ended:
/// that is found out by looking again.
fn watch(process: &Process) -> Option<OwnedFd> {
    let handle =
        pidfd_open(pid(process.pid).filter(|_| process.is_visible())?, PidfdFlags::empty());
    handle.ok().filter(|_| !process.is_gone())
}

/// How often to look again though nobody rang: rarely for those far behind, so that a long line
/// does not keep the machine busy.
fn net(ahead: usize) -> Duration {
    let factor = u32::try_from(ahead / 4 + 1).unwrap_or(u32::MAX);
    NET.saturating_mul(factor).min(WIDEST_NET)
}

fn not_had(refused: &Refused) -> HoldError {
    let (name, by) = refused.first();
    HoldError::NotHad { name: name.clone(), by: by.clone() }
}

impl From<StoreError> for HoldError {
    fn from(error: StoreError) -> Self {
        HoldError::Store(error)
    }
}

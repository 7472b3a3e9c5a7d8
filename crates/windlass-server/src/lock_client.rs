//! Claims names, and waits in the queue until they are free, without using the processor.
//!
//! A release notifies the wake-up of the next waiter: a fifo in the state directory, which the waiter polls
//! together with its signals. The first waiter also polls the processes of the holders, so the death of a
//! holder wakes it like a release. Every few seconds, less often further back in the queue, a waiter claims
//! again, in case a wake-up was lost with the process that should have sent it.
//!
//! What a dead holder has left running is killed outside the transaction before its names are claimed
//! again. That is sound because a stale lease is never revived.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{PidfdFlags, pidfd_open};
use windlass_core::{Hold, HolderId, LeaseTerms, Name, Need, Timestamp, Token};
use windlass_store::{
    Claim, Claimed, Leftover, OnRefusal, Process, ProcessTree, Refused, Store, StoreError,
    StoredLease, Topic, Wakeup, WriterWait,
};

use crate::attempt::pid;
use crate::fence;
use crate::hold::HoldError;
use crate::leader_file;
use crate::poll::poll;
use crate::process_tag;
use crate::signals::SignalPipe;

/// How often the first waiter claims again without a wake-up.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
/// How often the last waiter of a long queue does.
const LONGEST_RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// The number of holders whose processes one waiter polls.
const WATCHED: usize = 64;

/// A claim of one holder, and how long to wait for it.
pub(crate) struct LockClient<'a> {
    pub(crate) holder: &'a HolderId,
    pub(crate) needs: &'a [Need],
    pub(crate) terms: LeaseTerms,
    /// The process with which the lease ends.
    pub(crate) process: Option<&'a Process>,
    /// The process that waits.
    pub(crate) waiter: &'a Process,
    pub(crate) tree: Option<&'a ProcessTree>,
    /// A semaphore to declare in the same commit, and its capacity.
    pub(crate) declared: Option<(&'a str, u32)>,
    /// How long to wait; none to wait without limit.
    pub(crate) wait: Option<Duration>,
    /// The signals that end the wait.
    pub(crate) signals: Option<&'a SignalPipe>,
}

impl LockClient<'_> {
    /// Claims the names together, and waits until they are free. Calls `on_refused` with the first refusal.
    /// Returns the holds, and a time before the successful claim was sent, from which the lease counts.
    pub(crate) fn acquire(
        &self,
        store: &mut Store,
        mut on_refused: impl FnMut(&Refused),
    ) -> Result<(Vec<Hold>, Timestamp), HoldError> {
        let began = Instant::now();
        store.give_up_when(patience(self.signals, self.wait));
        let acquired = self.acquire_within(store, began, &mut on_refused);
        // From here on signals are passed to the command.
        store.give_up_when(|_| None);
        match (acquired, self.signals) {
            (Err(HoldError::Store(StoreError::Interrupted)), Some(signals)) => {
                Err(HoldError::interrupted(signals))
            }
            (acquired, _) => acquired,
        }
    }

    fn acquire_within(
        &self,
        store: &mut Store,
        began: Instant,
        on_refused: &mut impl FnMut(&Refused),
    ) -> Result<(Vec<Hold>, Timestamp), HoldError> {
        let refused = match self.claim(store, OnRefusal::GiveUp, None)? {
            (Claimed::Held(holds), sent) => return Ok((holds, sent)),
            (Claimed::Refused(refused), _) => refused,
        };
        on_refused(&refused);
        if self.left(began).is_some_and(|left| left.is_zero()) {
            return Err(timed_out(&refused));
        }
        let waited = self.wait_in_queue(store, began);
        if waited.is_err() {
            // If no process can write, the place in the queue ends with this process.
            store.give_up_when(|wait| wait.is_long().then_some(StoreError::Interrupted));
            let _ =
                store.transact_leases(|transaction| transaction.leases().leave_queue(self.holder));
        }
        waited
    }

    fn wait_in_queue(
        &self,
        store: &mut Store,
        began: Instant,
    ) -> Result<(Vec<Hold>, Timestamp), HoldError> {
        let wakeup = store.register(&Topic::Turn)?;
        loop {
            wakeup.drain();
            let refused = match self.claim(store, OnRefusal::Wait, Some(&wakeup))? {
                (Claimed::Held(holds), sent) => return Ok((holds, sent)),
                (Claimed::Refused(refused), _) => refused,
            };
            let left = self.left(began);
            if left.is_some_and(|left| left.is_zero()) {
                return Err(timed_out(&refused));
            }
            self.rest(&wakeup, &refused, left)?;
        }
    }

    /// Returns how long to wait still.
    fn left(&self, began: Instant) -> Option<Duration> {
        self.wait.map(|wait| wait.saturating_sub(began.elapsed()))
    }

    /// Claims once, and again whenever processes were killed that dead holders have left.
    fn claim(
        &self,
        store: &mut Store,
        patience: OnRefusal,
        wakeup: Option<&Wakeup>,
    ) -> Result<(Claimed, Timestamp), HoldError> {
        let mut ended: Vec<(Name, Token)> = Vec::new();
        loop {
            let sent = fence::now();
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
                // A capacity outlives its holders, so it has to survive a loss of power, which they do not.
                Some((name, capacity)) => store.transact(|transaction| {
                    transaction.leases().declare(name, capacity)?;
                    transaction.leases().claim(&claim)
                })?,
            };
            let Claimed::Refused(refused) = &claimed else { return Ok((claimed, sent)) };
            let before = ended.len();
            for leftover in &refused.leftovers {
                let what = "cannot kill the processes that a dead holder has left";
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
        let interval = retry_interval(refused.ahead);
        let ready = poll(&sources, Some(left.map_or(interval, |left| left.min(interval))));
        let what = "cannot wait for the lock";
        let ready = ready.map_err(|source| HoldError::Io { what, source })?;
        match self.signals.filter(|_| *ready.last().expect("the wake-up is the first source")) {
            Some(signals) => Err(HoldError::interrupted(signals)),
            None => Ok(()),
        }
    }
}

/// Returns a holder that has started this process and holds so much of a refused name that the rest is not
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

/// Returns a lease of a holder that has started this process, if `wanted` does not fit beside it.
fn too_much_of_its_own(
    leases: &[StoredLease],
    available: u64,
    wanted: u64,
) -> Option<&StoredLease> {
    let has_started_us =
        |lease: &&StoredLease| lease.owner.tree.as_ref().is_some_and(process_tag::is_in);
    let (own, others): (Vec<_>, Vec<_>) = leases.iter().partition(has_started_us);
    let theirs = others.iter().fold(available, |sum, other| sum.saturating_add(other.lease.weight));
    own.first().copied().filter(|_| wanted > theirs)
}

/// Returns when to give up a wait for other writers that begins now: with a signal, and when the caller's
/// time is over and no process can write.
pub(crate) fn patience(
    signals: Option<&SignalPipe>,
    limit: Option<Duration>,
) -> impl Fn(&dyn WriterWait) -> Option<StoreError> + 'static {
    let (signalled, began) = (signals.map(SignalPipe::flag), Instant::now());
    move |wait| {
        if signalled.as_ref().is_some_and(|signalled| signalled()) {
            return Some(StoreError::Interrupted);
        }
        let over = limit.is_some_and(|limit| began.elapsed() >= limit) && wait.is_long();
        over.then(|| StoreError::Busy(wait.blocker()))
    }
}

/// Returns a pidfd of a process; none if it is not visible or has ended, which the next claim finds out.
fn watch(process: &Process) -> Option<OwnedFd> {
    let handle =
        pidfd_open(pid(process.pid).filter(|_| process.is_visible())?, PidfdFlags::empty());
    handle.ok().filter(|_| !process.is_gone())
}

/// Returns how often to claim again without a wake-up: less often for a waiter far back, so that a long
/// queue does not keep the machine busy.
fn retry_interval(ahead: usize) -> Duration {
    let factor = u32::try_from(ahead / 4 + 1).unwrap_or(u32::MAX);
    RETRY_INTERVAL.saturating_mul(factor).min(LONGEST_RETRY_INTERVAL)
}

fn timed_out(refused: &Refused) -> HoldError {
    let (name, by) = refused.first();
    HoldError::NotAcquired { name: name.clone(), by: by.clone() }
}

impl From<StoreError> for HoldError {
    fn from(error: StoreError) -> Self {
        HoldError::Store(error)
    }
}

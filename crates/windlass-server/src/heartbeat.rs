//! Heartbeats, from a thread and a connection of their own.
//!
//! A holder counts its time from before it sent the last good heartbeat, also while its machine sleeps. If
//! none gets through in time, it takes its lease for lost before another process can take it over. While no
//! process can write to the store, none can take it over either: the holder asks the next writer to refresh all
//! leases, and that counts as a heartbeat. A server that does not answer holds no heartbeat up for long: the
//! next one goes out on another connection.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::thread;
use std::time::Duration;

use thiserror::Error;
use windlass_core::{Answer, HolderId, LeaseTerms, Name, Timestamp, Token};
use windlass_store::{
    Durability, Life, Process, ProcessGroup, Store, StoreError, StoreOpener, Transaction,
    WriterWait,
};

#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::fence;

#[cfg(test)]
mod tests;

/// Short commands are over by then, and never need a heartbeat.
const FIRST: Duration = Duration::from_millis(100);
/// How many heartbeats of a process fit into its lease.
const BEATS: u32 = 6;
/// How long to wait after a heartbeat that did not get through.
const AGAIN: Duration = Duration::from_millis(250);
/// How long a heartbeat waits for an answer at least, also on a busy machine.
const ANSWER: Duration = Duration::from_millis(250);

/// Why a lease is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Lost {
    /// It has been held for as long as it may be.
    #[error("it was held for as long as --max-hold allows")]
    Overheld,
    /// Its heartbeats stopped for too long, and it was or could have been given away.
    #[error("its heartbeats came too late, as after a pause of this process or of the machine")]
    Expired,
    /// Its heartbeats do not get through.
    #[error("the store could not be reached for too long")]
    Unreachable,
}

/// The answer to a heartbeat of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// The worker is alive for a lease from this time since the boot.
    Good { at: Timestamp },
    /// The worker's lease is stale, or was given up.
    LifeOver,
}

/// What the store says to a heartbeat of a worker.
#[derive(Clone, Copy)]
enum WorkerLife {
    Good,
    /// The worker may be executing what the store has lost, so the heartbeat does not count.
    Unsettled,
    Over,
}

/// The era of the store in which a worker executes nothing that the store does not know.
#[derive(Clone)]
pub(crate) struct SettledEra(Arc<AtomicU64>);

impl SettledEra {
    pub(crate) fn new(era: u64) -> Self {
        Self(Arc::new(AtomicU64::new(era)))
    }

    /// Notes the era. What was ended before has ended outside this process, so that orders no memory.
    pub(crate) fn set(&self, era: u64) {
        self.0.store(era, Ordering::Relaxed);
    }

    pub(crate) fn is(&self, era: u64) -> bool {
        self.0.load(Ordering::Relaxed) == era
    }
}

/// What the heartbeats of a worker are for.
pub(crate) struct WorkerBeats {
    pub(crate) process: Process,
    pub(crate) life: Life,
    pub(crate) terms: LeaseTerms,
    pub(crate) settled: SettledEra,
}

/// Names that are held, and have to be kept alive.
pub(crate) struct HeldNames {
    pub(crate) holder: HolderId,
    pub(crate) names: Vec<(Name, Token)>,
    pub(crate) terms: LeaseTerms,
    /// When time begins to count, since the boot: before the names were claimed.
    pub(crate) since: Timestamp,
    /// Where the command runs, to be noted with the first heartbeat.
    pub(crate) group: Option<ProcessGroup>,
}

/// Sends heartbeats until it is dropped.
pub(crate) struct Heartbeat {
    stop: Option<Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Heartbeat {
    /// Sends heartbeats for one holder. Calls `lost` at most once, and then sends no more.
    pub(crate) fn start(
        store: &Store,
        beat: HeldNames,
        lost: impl FnOnce(Lost) + Send + 'static,
    ) -> io::Result<Self> {
        let opener = opener(store, beat.terms);
        Self::run(move |stop| {
            if let Some(why) = beat.go_on(&opener, stop) {
                lost(why);
            }
        })
    }

    /// Sends heartbeats for everything that this process holds, also if a name was lost.
    pub(crate) fn of_process(
        store: &Store,
        process: Process,
        terms: LeaseTerms,
    ) -> io::Result<Self> {
        let opener = opener(store, terms);
        Self::run(move |stop| {
            let beat = |transaction: &Transaction<'_>| {
                transaction.leases().heartbeat_process(&process).map(drop)
            };
            beat_on(&opener, None, None, stop, terms.heartbeat_timeout, beat, |_, ()| ());
        })
    }

    /// Sends heartbeats for everything that the process of a worker holds. Calls `tell` with each answer.
    pub(crate) fn of_worker(
        store: &Store,
        beats: WorkerBeats,
        mut tell: impl FnMut(Beat) + Send + 'static,
    ) -> io::Result<Self> {
        let WorkerBeats { process, life, terms, settled } = beats;
        let opener = opener(store, terms);
        // If it cannot be opened now, the next heartbeat tries again.
        let first = opener.open().ok();
        Self::run(move |stop| {
            let name = (Name::Worker(life.worker), life.token);
            let beat = |transaction: &Transaction<'_>| {
                let held = transaction.leases().heartbeat_process(&process)?;
                #[cfg(windlass_faults)]
                Point::BeforeBeat.reached();
                Ok(match held.contains(&name) {
                    true if settled.is(transaction.era()?) => WorkerLife::Good,
                    true => WorkerLife::Unsettled,
                    false => WorkerLife::Over,
                })
            };
            let timeout = terms.heartbeat_timeout;
            let last = Some(WorkerLife::Good);
            beat_on(&opener, first, last, stop, timeout, beat, |at, answer| match answer {
                WorkerLife::Good => tell(Beat::Good { at }),
                WorkerLife::Unsettled => {}
                WorkerLife::Over => tell(Beat::LifeOver),
            });
        })
    }

    fn run(act: impl FnOnce(&Stop) + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let named = thread::Builder::new().name("heartbeat".to_owned());
        let thread = named.spawn(move || act(&Stop(stopped)))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It can only panic by a bug, which has been reported then.
            let _ = thread.join();
        }
    }
}

/// Closed when no heartbeats are needed any more.
struct Stop(Receiver<()>);

impl Stop {
    /// Waits. Returns false as soon as no heartbeats are needed any more.
    fn comes_after(&self, pause: Duration) -> bool {
        matches!(self.0.recv_timeout(pause), Err(RecvTimeoutError::Timeout))
    }

    /// Has a wait for other writers go on for as long as heartbeats are needed.
    fn during_wait(&self, timeout: Duration) -> ControlFlow<StoreError, Duration> {
        match self.0.try_recv() {
            Err(TryRecvError::Empty) => ControlFlow::Continue(AGAIN.min(timeout / 12)),
            _ => ControlFlow::Break(StoreError::Interrupted),
        }
    }
}

impl HeldNames {
    /// Returns after which time the first heartbeat is due.
    pub(crate) fn first(&self) -> Duration {
        FIRST.min(self.terms.heartbeat_timeout / 3)
    }

    /// Returns whether so much time has passed already that another process may have the names.
    pub(crate) fn is_late(&self) -> bool {
        is_late(self.since, self.terms.heartbeat_timeout)
    }

    /// Sends heartbeats until `stop` is closed, or until the lease is lost.
    fn go_on(&self, opener: &StoreOpener, stop: &Stop) -> Option<Lost> {
        let LeaseTerms { heartbeat_timeout, max_hold } = self.terms;
        let mut due = self.since.after(self.first());
        let mut kept = Kept { good: self.since, connection: None, is_attached: false };
        loop {
            let next = max_hold.map_or(due, |most| due.min(self.since.after(most)));
            // A pause does not count the time that the machine sleeps.
            let pause = next.since(fence::now()).min(heartbeat_timeout / 12);
            if !stop.comes_after(pause) {
                return None;
            }
            let sent = fence::now();
            if max_hold.is_some_and(|most| sent.since(self.since) >= most) {
                return Some(Lost::Overheld);
            }
            if sent < due {
                continue;
            }
            match self.send(opener, &mut kept, stop) {
                Ok(true) => (kept.good, due) = (sent, sent.after(heartbeat_timeout / 3)),
                Ok(false) => return Some(Lost::Expired),
                Err(_) if is_late(kept.good, heartbeat_timeout) => return Some(Lost::Unreachable),
                Err(_) => due = fence::now().after(AGAIN.min(heartbeat_timeout / 12)),
            }
        }
    }

    /// Sends one heartbeat for every name. Returns whether all are still held. Moves `good` while no
    /// process can write and the leases are kept.
    fn send(&self, opener: &StoreOpener, kept: &mut Kept, stop: &Stop) -> Result<bool, StoreError> {
        let Kept { good, connection, is_attached } = kept;
        let store = match connection {
            Some(store) => store,
            None => connection.insert(opener.open()?),
        };
        let LeaseTerms { heartbeat_timeout: timeout, max_hold } = self.terms;
        let began = fence::now();
        let mut on_wait = |wait: &dyn WriterWait| {
            let now = fence::now();
            let overheld = max_hold.is_some_and(|most| now.since(self.since) >= most);
            if overheld || is_late(*good, timeout) {
                return ControlFlow::Break(StoreError::Interrupted);
            }
            if keep_leases(wait, timeout) {
                *good = now;
            }
            stop.during_wait(timeout)
        };
        let group = self.group.filter(|_| !*is_attached);
        let sent = store.transact_while(Durability::Process, &mut on_wait, |transaction| {
            let mut held = true;
            for (name, token) in &self.names {
                let answer = transaction.leases().heartbeat(name, &self.holder, *token)?;
                held &= answer == Answer::Refreshed;
                if let Some(group) = group.filter(|_| held) {
                    transaction.leases().attach(name, &self.holder, *token, group)?;
                }
            }
            Ok(held)
        });
        *is_attached |= sent.is_ok();
        if let Err(error) = &sent {
            // On a full disk no process can write, and the next that can has to know of this one.
            if error.is_full() && !is_late(*good, timeout) && store.keep_leases() {
                *good = (*good).max(began);
            }
            // This connection may write nothing any more. On a full disk there may be no other.
            if let Ok(other) = opener.open() {
                *connection = Some(other);
            }
        }
        sent
    }
}

/// How far the heartbeats for one holder have come.
struct Kept {
    /// From when the last good one counts.
    good: Timestamp,
    connection: Option<Store>,
    /// Whether the store knows where the command runs.
    is_attached: bool,
}

/// Returns what opens connections for heartbeats.
fn opener(store: &Store, terms: LeaseTerms) -> StoreOpener {
    store.opener_within((terms.heartbeat_timeout / BEATS).max(ANSWER))
}

/// Sends heartbeats until `stop` is closed, and tells from when each counts, and its answer. While no
/// process can write and the leases are kept, the answer is the `last` one.
fn beat_on<A: Copy>(
    opener: &StoreOpener,
    mut connection: Option<Store>,
    mut last: Option<A>,
    stop: &Stop,
    timeout: Duration,
    mut beat: impl FnMut(&Transaction<'_>) -> Result<A, StoreError>,
    mut tell: impl FnMut(Timestamp, A),
) {
    let mut pause = timeout / BEATS;
    while stop.comes_after(pause) {
        pause = AGAIN.min(timeout / 12);
        // Most runs are over before the first is due.
        if connection.is_none() {
            connection = opener.open().ok();
        }
        let Some(store) = &mut connection else { continue };
        let mut on_wait = |wait: &dyn WriterWait| {
            let now = fence::now();
            if keep_leases(wait, timeout) {
                last.into_iter().for_each(|answer| tell(now, answer));
            }
            stop.during_wait(timeout)
        };
        let beat = |transaction: &Transaction<'_>| Ok((transaction.now().here, beat(transaction)?));
        match store.transact_while(Durability::Process, &mut on_wait, beat) {
            Ok((at, answer)) => {
                tell(at, answer);
                (last, pause) = (Some(answer), timeout / BEATS);
            }
            Err(error) => {
                // On a full disk no process can write, and the next that can has to know of this one.
                let now = fence::now();
                if error.is_full() && store.keep_leases() {
                    last.into_iter().for_each(|answer| tell(now, answer));
                    pause = timeout / BEATS;
                }
                // This connection may write nothing any more. On a full disk there may be no other.
                if let Ok(other) = opener.open() {
                    connection = Some(other);
                }
            }
        }
    }
}

/// Has the leases kept if no process has written for so long that a heartbeat may come too late; shorter waits
/// are usual on a slow disk. Returns whether they are kept.
fn keep_leases(wait: &dyn WriterWait, timeout: Duration) -> bool {
    wait.stalled_for() >= timeout / 6 && wait.keep_leases()
}

/// Returns whether so much time has passed since the last good heartbeat that the holder's processes must
/// end now, to have ended before another holder can begin.
pub(crate) fn is_late(good: Timestamp, timeout: Duration) -> bool {
    fence::now().since(good) > late_after(timeout)
}

/// Returns for how long after a good heartbeat the names of a holder are held for sure.
pub(crate) fn late_after(timeout: Duration) -> Duration {
    timeout / 6 * 5
}

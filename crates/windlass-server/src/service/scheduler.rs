//! The scheduler of a store: leads all runs that were submitted to it.
//!
//! | part | does |
//! |---|---|
//! | [`Scheduler`] | takes the lead, waits between rounds, gives up dead workers |
//! | [`lead`] | the lease of the one scheduler that leads |
//! | [`Rounds`] | one transaction after the other |
//! | [`dispatcher`] | decides in a round what starts |
//! | [`inbox`] | reads what is new for the runs |
//! | [`runs`] | the runs, and whose turn it is |
//!
//! One scheduler leads at a time, by a lease; others stand by. It works in rounds. A round is one
//! transaction: it makes sure of the lease, reads what is new, has each run decide that this concerns, and
//! writes everything that follows. Between rounds it waits for wake-ups, for the time, and, because a
//! wake-up may be lost, for a second while something is under way.
//!
//! It does nothing outside the store, so one that was suspended can do no harm: its next round finds
//! that the lease is gone.

mod dispatcher;
mod inbox;
mod lead;
mod news;
mod rounds;
mod runs;

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGHUP;
use windlass_store::{Claimed, LeaseTerms, Process, Store, StoreError, Topic, Transaction, Wakeup};

pub(super) use self::lead::claim_lead;
use self::lead::{Lead, holder, leads};
pub use self::news::{SchedulerEnd, SchedulerNews};
pub(super) use self::rounds::Rounds;
use super::dead_lives::LifeWatch;
use crate::clock::Clock;
use crate::coordinator::served::Host;
use crate::coordinator::{RunError, end_leftovers};
#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::lock_client::patience;
use crate::poll::poll;
use crate::signals::SignalPipe;

/// The interval between two claims of the lead without a wake-up.
const CLAIM_AGAIN: Duration = Duration::from_secs(1);

/// Leads all submitted runs of a store.
pub struct Scheduler {
    store: Store,
    process: Process,
    terms: LeaseTerms,
    wakeups: Vec<Wakeup>,
    signals: SignalPipe,
}

impl Scheduler {
    /// Prepares to lead the runs of a store. A lease lasts for `lease` without heartbeats.
    pub fn new(mut store: Store, lease: Duration) -> Result<Self, RunError> {
        store.keep_pace_with(lease);
        let io = |what| move |source| RunError::Io { what, source };
        let process = Process::current().map_err(io("this process cannot be identified"))?;
        let topics = [Topic::Turn, Topic::Reports, Topic::Requests, Topic::Events];
        let wakeups = topics.iter().map(|topic| store.register(topic));
        let wakeups = wakeups.collect::<Result<_, _>>()?;
        let signals = SignalPipe::open().map_err(io("signals cannot be watched"))?;
        let terms = LeaseTerms { heartbeat_timeout: lease, ..LeaseTerms::default() };
        Ok(Self { store, process, terms, wakeups, signals })
    }

    /// Leads the runs, or stands by, until a signal comes or there has been no run for `idle`.
    pub fn lead(
        mut self,
        idle: Option<Duration>,
        tell: &mut dyn FnMut(&SchedulerNews),
    ) -> Result<SchedulerEnd, RunError> {
        self.store.give_up_when(patience(Some(&self.signals), None));
        loop {
            let lead = match self.take_lead(idle, tell)? {
                Ok(lead) => lead,
                Err(end) => return Ok(end),
            };
            #[cfg(windlass_faults)]
            Point::AfterLead.reached();
            tell(&SchedulerNews::Leading);
            if let Some(end) = self.rounds(&lead, idle, tell)? {
                self.give_up(&lead);
                return Ok(end);
            }
        }
    }

    /// Waits until no other scheduler leads, but no longer than `idle`. Returns what ended the wait, if a
    /// signal or that did.
    fn take_lead(
        &mut self,
        idle: Option<Duration>,
        tell: &mut dyn FnMut(&SchedulerNews),
    ) -> Result<Result<Lead, SchedulerEnd>, RunError> {
        let began = Instant::now();
        let (holder, terms) = (holder(&self.process), self.terms);
        let mut told = None;
        loop {
            self.wakeups.iter().for_each(Wakeup::drain);
            match claim_lead(&mut self.store, &self.process, terms, self.wakeups[0].name()) {
                // A signal has come, which the wait below returns.
                Err(StoreError::Interrupted) => {}
                // Claimed again, it gets the same lease if the store has it.
                Err(error @ StoreError::Unanswered { .. }) => {
                    tell(&SchedulerNews::Trouble { why: error.to_string() });
                }
                Err(error) => return Err(error.into()),
                Ok(Claimed::Held(holds)) => {
                    let epoch = holds[0].token;
                    return Lead::keep(&self.store, &self.process, terms, epoch).map(Ok);
                }
                Ok(Claimed::Refused(refused)) => {
                    let leader = refused.first().1.clone();
                    if told.as_ref() != Some(&leader) {
                        tell(&SchedulerNews::StandingBy { leader: leader.clone() });
                        told = Some(leader);
                    }
                }
            }
            let end = match self.wait(CLAIM_AGAIN)? {
                Some(signal) => Some(SchedulerEnd::Signal(signal)),
                None => idle.filter(|idle| began.elapsed() >= *idle).map(|_| SchedulerEnd::Idle),
            };
            if let Some(end) = end {
                self.leave(|transaction| transaction.leases().leave_queue(&holder));
                return Ok(Err(end));
            }
        }
    }

    /// Leads until there is a reason to end, which is returned, or the lead is lost.
    fn rounds(
        &mut self,
        lead: &Lead,
        idle: Option<Duration>,
        tell: &mut dyn FnMut(&SchedulerNews),
    ) -> Result<Option<SchedulerEnd>, RunError> {
        let state = self.store.dir().to_owned();
        let host = Host::new(&state, self.process.clone(), Clock::start());
        let mut rounds = Rounds::new(lead.epoch(), self.wakeups[0].name(), host);
        let mut end_leftovers = |leftovers| end_leftovers(&state, leftovers);
        let mut lives = LifeWatch::default();
        let mut idle_since = Instant::now();
        loop {
            self.wakeups.iter().for_each(Wakeup::drain);
            let next = rounds.next(&mut self.store, &mut end_leftovers, tell)?;
            let Some(pause) = next else { return Ok(None) };
            if lives.is_due() {
                match self.give_up_dead(lead, &mut lives, tell) {
                    Err(error) if error.is_final() => return Err(error.into()),
                    // It is tried again, and the next round tells why nothing can be written.
                    _ => {}
                }
            }
            let pause = pause.min(lives.pause()).min(idle.unwrap_or(Duration::MAX));
            if let Some(signal) = self.wait(pause)? {
                return Ok(Some(SchedulerEnd::Signal(signal)));
            }
            if !rounds.is_idle() {
                idle_since = Instant::now();
            }
            if idle.is_some_and(|idle| idle_since.elapsed() >= idle) {
                return Ok(Some(SchedulerEnd::Idle));
            }
        }
    }

    /// Gives up the lives of workers that are dead.
    fn give_up_dead(
        &mut self,
        lead: &Lead,
        lives: &mut LifeWatch,
        tell: &mut dyn FnMut(&SchedulerNews),
    ) -> Result<(), StoreError> {
        for dead in self.store.read(|transaction| lives.look(transaction))? {
            let life = dead.life().clone();
            let is_over = dead.is_in_reach()
                && self.store.transact(|transaction| {
                    Ok(leads(transaction, lead.epoch())? && transaction.orders().end_life(&life)?)
                })?;
            if !is_over {
                continue;
            }
            let remains = match dead.end(self.store.dir()) {
                Ok(Some(remains)) => remains,
                Ok(None) => continue,
                Err(error) => {
                    lives.postpone(&life);
                    tell(&SchedulerNews::WorkerStuck { life, why: error.to_string() });
                    continue;
                }
            };
            #[cfg(windlass_faults)]
            Point::BeforeGiveUp.reached();
            let given_up =
                self.store.transact(|transaction| match leads(transaction, lead.epoch())? {
                    true => remains.give_up(transaction),
                    false => Ok(None),
                })?;
            #[cfg(windlass_faults)]
            Point::AfterGiveUp.reached();
            if let Some(lost) = given_up {
                tell(&SchedulerNews::WorkerLost { life, lost });
            }
        }
        Ok(())
    }

    /// Waits for a wake-up, a signal, or `pause`. Returns the signal, if one came that ends this process:
    /// there is nothing to read again at SIGHUP.
    fn wait(&self, pause: Duration) -> Result<Option<i32>, RunError> {
        let what = "wake-ups cannot be waited for";
        let mut sources: Vec<&dyn AsFd> = vec![&self.signals];
        sources.extend(self.wakeups.iter().map(|wakeup| -> &dyn AsFd { wakeup }));
        let ready = poll(&sources, Some(pause)).map_err(|source| RunError::Io { what, source })?;
        if !ready[0] {
            return Ok(None);
        }
        let signal = self.signals.next().map_err(|source| RunError::Io { what, source })?;
        Ok(Some(signal).filter(|signal| *signal != SIGHUP))
    }

    /// Lets another scheduler lead at once. If the store cannot be written, the other one notices the end
    /// of this process.
    fn give_up(&mut self, lead: &Lead) {
        self.leave(|transaction| lead.release(transaction));
    }

    /// Tells other schedulers that this one ends. If no process can write, they learn it from the end of
    /// this one.
    fn leave(&mut self, tell: impl FnMut(&Transaction<'_>) -> Result<(), StoreError>) {
        self.store.give_up_when(|wait| wait.is_long().then_some(StoreError::Interrupted));
        let _ = self.store.transact(tell);
    }
}

//! The scheduler of a store: leads all runs that were submitted to it.
//!
//! One scheduler leads at a time, by a lease; others stand by. It works in rounds. A round is one
//! transaction: it makes sure of the lease, reads what is new, has each run decide that this concerns, and
//! writes everything that follows. Between rounds it waits for wake-ups, for the time, and, because a
//! wake-up may be lost, for a second while something is under way.
//!
//! It does nothing outside the store, so one that was suspended can do no harm: its next round finds
//! that the lease is gone. A round changes the engines of runs before its commit. So a round that is repeated,
//! or comes after one whose commit has failed, drops the runs that the other one has touched, and reads them
//! again.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGHUP;
use windlass_core::{ClientId, Token};
use windlass_store::{
    Claim, Claimed, HolderId, LeaseTerms, Leftover, Life, Name, Need, Process, Request, RunEnd,
    Store, StoreError, Topic, Transaction, Wakeup,
};

use super::dead_lives::LifeWatch;
use super::placement::Placement;
use super::texts::{ReportText, id_of};
use super::turns::Turns;
use crate::clock::Clock;
use crate::coordinator::served::{
    EndLeftovers, Host, QueuePlace, RoundEnd, RoundNews, ServedRun, StepStart,
};
use crate::coordinator::{LOOKED_AT, RunError, end_leftovers, run_of};
#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::heartbeat::Heartbeat;
use crate::lock_client::patience;
use crate::participant::{Asking, LimitTurn, Participant};
use crate::poll::poll;
use crate::schedule::LimitWait;
use crate::signals::SignalPipe;

/// The interval between two checks of the store without a wake-up.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The same while nothing is under way.
const IDLE: Duration = Duration::from_secs(5);
/// How many events are taken in per round.
const EVENTS: usize = 1000;

/// What a scheduler reports to its user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchedulerNews {
    /// Another scheduler leads; this one waits for its end.
    StandingBy {
        /// The other one.
        leader: HolderId,
    },
    /// It leads.
    Leading,
    /// It leads a run.
    Began {
        /// The run.
        run: String,
        /// Its workflow.
        workflow: String,
    },
    /// A run has ended.
    Ended {
        /// The run.
        run: String,
        /// How.
        end: RunEnd,
    },
    /// A run cannot be led.
    Refused {
        /// The run.
        run: String,
        /// Why.
        why: String,
    },
    /// A worker has sent no heartbeats for too long, and its steps are tried again.
    WorkerLost {
        /// The life of the worker.
        life: Life,
        /// How many of its orders are lost.
        lost: usize,
    },
    /// The steps of a worker that sends no heartbeats cannot be ended; the scheduler tries again.
    WorkerStuck {
        /// The life of the worker.
        life: Life,
        /// Why.
        why: String,
    },
    /// The store cannot be written at the moment; the scheduler tries again.
    Trouble {
        /// Why.
        why: String,
    },
    /// The store can be written again.
    Recovered,
}

/// Why a scheduler has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchedulerEnd {
    /// This signal has come.
    Signal(i32),
    /// There was no run for long.
    Idle,
}

/// Leads all submitted runs of a store.
pub struct Scheduler {
    store: Store,
    process: Process,
    terms: LeaseTerms,
    wakeups: Vec<Wakeup>,
    signals: SignalPipe,
}

/// The lease of the scheduler that leads.
struct Lead {
    holder: HolderId,
    epoch: Token,
    _heartbeat: Heartbeat,
}

/// The rounds of one process under one lead. Knows nothing of threads, signals and wake-ups.
pub(super) struct Rounds {
    epoch: Token,
    /// The wake-up to notify when a name that a step waits for may be free.
    wakeup: String,
    runs: Runs,
    /// Whether the store cannot be written now, which was reported.
    trouble: bool,
}

/// What the leading scheduler knows of the runs.
struct Runs {
    host: Host,
    served: BTreeMap<String, ServedRun>,
    /// Which run takes from the shared capacity as which client.
    by_client: BTreeMap<ClientId, String>,
    turns: Turns,
    /// The runs that cannot be led.
    refused: BTreeSet<String>,
    /// All runs together, as those that take from the limits of the store.
    participant: Participant,
    /// Stale holds of limits whose processes were ended, so that the next round can take them.
    cleared: Vec<(Name, Token)>,
    /// What dead holders of limits have left running.
    leftovers: Vec<Leftover>,
    placement: Placement,
    /// The slots of the workers have changed since the last decisions.
    workers_changed: bool,
    /// The last event that a committed round has taken in.
    last_event: Option<u64>,
    /// The last event that a round has taken in.
    seen_event: Option<u64>,
    /// The runs that may know more than the store: a round has changed them, and was not committed yet.
    touched: BTreeSet<String>,
    /// The runs of which the user was told.
    told: BTreeSet<String>,
}

/// Whether the scheduler still leads after a round.
enum Round {
    Done,
    /// Another scheduler leads.
    LeadLost,
}

impl Scheduler {
    /// Prepares to lead the runs of a store. A lease lasts for `lease` without heartbeats.
    pub fn new(store: Store, lease: Duration) -> Result<Self, RunError> {
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
                    let opener = self.store.opener();
                    let heartbeat = Heartbeat::of_process(opener, self.process.clone(), terms);
                    let what = "heartbeats cannot be sent";
                    let _heartbeat = heartbeat.map_err(|source| RunError::Io { what, source })?;
                    return Ok(Ok(Lead { holder, epoch: holds[0].token, _heartbeat }));
                }
                Ok(Claimed::Refused(refused)) => {
                    let leader = refused.first().1.clone();
                    if told.as_ref() != Some(&leader) {
                        tell(&SchedulerNews::StandingBy { leader: leader.clone() });
                        told = Some(leader);
                    }
                }
            }
            let end = match self.wait(LOOK_AGAIN)? {
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
        let mut rounds = Rounds::new(lead.epoch, self.wakeups[0].name(), host);
        let mut end_leftovers = |leftovers| end_leftovers(&state, leftovers);
        let mut lives = LifeWatch::default();
        let mut idle_since = Instant::now();
        loop {
            self.wakeups.iter().for_each(Wakeup::drain);
            let next = rounds.next(&mut self.store, &mut end_leftovers, tell)?;
            let Some(pause) = next else { return Ok(None) };
            match self.give_up_dead(lead, &mut lives, tell) {
                Err(error) if error.is_final() => return Err(error.into()),
                // It is tried again, and the next round tells why nothing can be written.
                _ => {}
            }
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
                    Ok(leads(transaction, lead.epoch)? && transaction.orders().end_life(&life)?)
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
                self.store.transact(|transaction| match leads(transaction, lead.epoch)? {
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
        self.leave(|transaction| {
            transaction.leases().release(&Name::Scheduler, &lead.holder, lead.epoch).map(drop)
        });
    }

    /// Tells other schedulers that this one ends. If no process can write, they learn it from the end of
    /// this one.
    fn leave(&mut self, tell: impl FnMut(&Transaction<'_>) -> Result<(), StoreError>) {
        self.store.give_up_when(|wait| wait.is_long().then_some(StoreError::Interrupted));
        let _ = self.store.transact(tell);
    }
}

/// Claims the lead for a process. `wakeup` is notified when its turn may have come.
pub(super) fn claim_lead(
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
fn leads(transaction: &Transaction<'_>, epoch: Token) -> Result<bool, StoreError> {
    let held = transaction.leases().on(&Name::Scheduler)?;
    Ok(held.iter().any(|stored| stored.lease.token == epoch))
}

fn holder(Process { pid, started, .. }: &Process) -> HolderId {
    HolderId::new(format!("windlass[{pid}.{started}] scheduler"))
}

impl Rounds {
    /// Prepares the rounds under the lead that has the token `epoch`.
    pub(super) fn new(epoch: Token, wakeup: &str, host: Host) -> Self {
        Self { epoch, wakeup: wakeup.to_owned(), runs: Runs::new(host), trouble: false }
    }

    /// Takes in what is new. Returns how long until the next round without a wake-up; none once another
    /// scheduler leads.
    pub(super) fn next(
        &mut self,
        store: &mut Store,
        end_leftovers: EndLeftovers<'_>,
        tell: &mut dyn FnMut(&SchedulerNews),
    ) -> Result<Option<Duration>, RunError> {
        let mut news = Vec::new();
        match self.round(store, &mut news) {
            Ok(Round::Done) => {
                if std::mem::take(&mut self.trouble) {
                    tell(&SchedulerNews::Recovered);
                }
                news.iter().filter(|news| self.runs.is_new_to_user(news)).for_each(&mut *tell);
                for run in self.runs.served.values_mut() {
                    run.end_leftovers(end_leftovers)?;
                    run.remove_old_logs();
                }
                let leftovers = std::mem::take(&mut self.runs.leftovers);
                self.runs.cleared = end_leftovers(leftovers)?;
            }
            Ok(Round::LeadLost) => return Ok(None),
            // A signal has come, which the caller's next wait returns.
            Err(StoreError::Interrupted) => {}
            Err(error) if error.is_final() => return Err(error.into()),
            Err(error) => {
                // If that fails, the next round does.
                let _ = store.reconnect();
                // What was committed is unknown: the next round drops what this one has touched.
                if !std::mem::replace(&mut self.trouble, true) {
                    tell(&SchedulerNews::Trouble { why: error.to_string() });
                }
            }
        }
        Ok(Some(if self.trouble { LOOK_AGAIN } else { self.runs.pause() }))
    }

    #[cfg(test)]
    pub(super) fn epoch(&self) -> Token {
        self.epoch
    }

    /// Returns the digest of each run that no round has touched since the last commit.
    #[cfg(test)]
    pub(super) fn digests(&self) -> impl Iterator<Item = (&str, u64)> {
        let Runs { served, touched, .. } = &self.runs;
        let known = served.iter().filter(|(id, _)| !touched.contains(*id));
        known.map(|(id, run)| (id.as_str(), run.digest()))
    }

    /// Returns whether no run has anything to do.
    fn is_idle(&self) -> bool {
        !self.trouble && self.runs.are_idle()
    }

    /// Takes in what is new, and writes what follows, in one transaction.
    fn round(
        &mut self,
        store: &mut Store,
        news: &mut Vec<SchedulerNews>,
    ) -> Result<Round, StoreError> {
        let Self { epoch, wakeup, runs, .. } = self;
        let look = |transaction: &Transaction<'_>| {
            Ok((leads(transaction, *epoch)?, runs.has_news(transaction)?))
        };
        match store.read(look)? {
            // One that was suspended may have nothing to do any more.
            (false, _) => return Ok(Round::LeadLost),
            (true, false) => return Ok(Round::Done),
            (true, true) => {}
        }
        let round = store.transact(|transaction| {
            runs.drop_touched();
            news.clear();
            if !leads(transaction, *epoch)? {
                return Ok(Round::LeadLost);
            }
            runs.adopt_new(transaction, news)?;
            runs.decide(transaction, wakeup, news)?;
            #[cfg(windlass_faults)]
            Point::BeforeRound.reached();
            Ok(Round::Done)
        })?;
        #[cfg(windlass_faults)]
        Point::AfterRound.reached();
        runs.committed();
        Ok(round)
    }
}

impl Runs {
    fn new(host: Host) -> Self {
        Self {
            participant: Participant::of_scheduler(host.process().clone()),
            host,
            served: BTreeMap::new(),
            by_client: BTreeMap::new(),
            turns: Turns::default(),
            refused: BTreeSet::new(),
            cleared: Vec::new(),
            leftovers: Vec::new(),
            placement: Placement::default(),
            workers_changed: false,
            last_event: None,
            seen_event: None,
            touched: BTreeSet::new(),
            told: BTreeSet::new(),
        }
    }

    /// Drops the runs that a round has changed whose commit is not known. They are adopted again.
    fn drop_touched(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        for id in std::mem::take(&mut self.touched) {
            self.refused.remove(&id);
            self.forget(&id);
        }
        self.placement.forget_busy();
        self.served.values().for_each(|run| run.count_busy(&self.placement));
        self.workers_changed = true;
        self.seen_event = self.last_event;
    }

    /// Notes that the store has everything that the last round has decided.
    fn committed(&mut self) {
        self.touched.clear();
        self.last_event = self.seen_event;
    }

    /// Returns whether the user has not been told this: a run that was adopted again has not begun again.
    fn is_new_to_user(&mut self, news: &SchedulerNews) -> bool {
        match news {
            SchedulerNews::Began { run, .. } | SchedulerNews::Refused { run, .. } => {
                self.told.insert(run.clone())
            }
            SchedulerNews::Ended { run, .. } => {
                self.told.remove(run);
                true
            }
            _ => true,
        }
    }

    /// Returns whether no run has anything to do.
    fn are_idle(&self) -> bool {
        self.served.values().all(ServedRun::is_idle)
    }

    /// Returns how long until there is something to do without a wake-up.
    fn pause(&self) -> Duration {
        let due = |run: &ServedRun| Some(run.next_due()?.since(run.now()));
        if !self.cleared.is_empty() {
            return Duration::ZERO;
        }
        let first = self.served.values().filter_map(due).min();
        let look = if self.are_idle() { IDLE } else { LOOK_AGAIN };
        first.unwrap_or(look).min(look)
    }

    /// Returns whether a round has anything to do.
    fn has_news(&mut self, transaction: &Transaction<'_>) -> Result<bool, StoreError> {
        let is_due = |run: &ServedRun| {
            run.next_due().is_some_and(|due| due <= run.now()) || run.waits_for_others()
        };
        self.workers_changed |= self.placement.look(transaction)?;
        Ok(self.workers_changed
            || !self.touched.is_empty()
            || !self.cleared.is_empty()
            || self.served.values().any(is_due)
            || transaction.orders().has_reports()?
            || !self.new_runs(transaction)?.is_empty()
            || !self.requests(transaction)?.is_empty()
            || !self.grown(transaction)?.is_empty())
    }

    /// Returns the runs to which commands were added that they have not taken.
    fn grown(&self, transaction: &Transaction<'_>) -> Result<Vec<String>, StoreError> {
        let queues = transaction.queues().all()?.into_iter();
        let grown = queues.filter(|queue| {
            self.served.get(&queue.run).is_some_and(|run| run.taken() < queue.added)
        });
        Ok(grown.map(|queue| queue.run).collect())
    }

    fn new_runs(&self, transaction: &Transaction<'_>) -> Result<Vec<String>, StoreError> {
        let mut new = transaction.runs().served()?;
        new.retain(|run| !self.served.contains_key(run) && !self.refused.contains(run));
        Ok(new)
    }

    /// Returns the requests to the runs, by run.
    fn requests(
        &self,
        transaction: &Transaction<'_>,
    ) -> Result<BTreeMap<String, Vec<Request>>, StoreError> {
        let mut requests: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for request in transaction.requests().all_pending()? {
            let run = request.target.strip_prefix("run/");
            if let Some(run) = run.filter(|run| self.served.contains_key(*run)) {
                requests.entry(run.to_owned()).or_default().push(request);
            }
        }
        Ok(requests)
    }

    /// Takes the lead of runs that were submitted, or that an earlier scheduler has led.
    fn adopt_new(
        &mut self,
        transaction: &Transaction<'_>,
        news: &mut Vec<SchedulerNews>,
    ) -> Result<(), StoreError> {
        for id in self.new_runs(transaction)? {
            let record = transaction.runs().find(&id)?;
            let workflow = record.workflow.clone();
            self.touched.insert(id.clone());
            match ServedRun::adopt(transaction, record, &self.host)? {
                Ok(run) => {
                    run.count_busy(&self.placement);
                    self.by_client.insert(run.client(), id.clone());
                    self.turns.add(&id, run.priority());
                    self.served.insert(id.clone(), run);
                    news.push(SchedulerNews::Began { run: id, workflow });
                }
                Err(error) => {
                    self.refused.insert(id.clone());
                    news.push(SchedulerNews::Refused { run: id, why: error.to_string() });
                }
            }
        }
        Ok(())
    }

    /// Has each run decide that something concerns, and each that gets room by that.
    fn decide(
        &mut self,
        transaction: &Transaction<'_>,
        wakeup: &str,
        news: &mut Vec<SchedulerNews>,
    ) -> Result<(), StoreError> {
        let changed = self.placement.look(transaction)?;
        self.host.capacity.set_limits(&self.placement.limit());
        let mut news_of_runs = self.news(transaction)?;
        if changed || std::mem::take(&mut self.workers_changed) {
            for run in self.served.keys() {
                news_of_runs.entry(run.clone()).or_default();
            }
        }
        let mut open = BTreeSet::new();
        let place = self.participant.place().clone();
        let turn = QueuePlace { wakeup: Some(wakeup), place: &place };
        for (id, round) in news_of_runs {
            self.touched.insert(id.clone());
            let run = self.served.get_mut(&id).expect("news is for known runs");
            run.begin_round(transaction, round, &self.placement)?;
            self.turns.want(&id);
            open.insert(id);
        }
        // All runs have given back names by then, and holds have moved to lives that are there.
        self.wake_refused(transaction, turn, &mut open)?;
        let limits: BTreeSet<_> = self.served.values().flat_map(ServedRun::limits).collect();
        if limits.is_empty() {
            // The runs that have waited have ended.
            self.participant.leave(transaction)?;
        }
        self.participant.set_limits(limits);
        let cleared = self.cleared.clone();
        let users = self.served.values().filter(|run| run.uses_limits());
        let priority = users.map(ServedRun::priority).max().unwrap_or_default();
        let asking = Asking { priority, wakeup: Some(wakeup), cleared: &cleared };
        self.leftovers.clear();
        let mut rooms = self.participant.share(transaction, asking, &self.host.capacity)?;
        let mut has_started = false;
        loop {
            has_started |= self.start_all(transaction, turn, &mut open, news)?;
            let wait = self.limit_wait();
            let (participant, wait) = (&self.participant, wait.as_ref());
            match participant.queue(transaction, asking, &rooms, wait, has_started)? {
                LimitTurn::Refused(refused) => self.leftovers.extend(refused.leftovers),
                LimitTurn::Free => {
                    let before = rooms;
                    rooms = participant.share(transaction, asking, &self.host.capacity)?;
                    if rooms != before {
                        continue;
                    }
                }
                LimitTurn::Nothing | LimitTurn::Impossible(_) => {}
            }
            return Ok(());
        }
    }

    /// Returns what the first run in turn waits for that lacks nothing but limits of the store.
    fn limit_wait(&mut self) -> Option<LimitWait> {
        let waits = self.served.values_mut().filter_map(ServedRun::limit_wait);
        waits.min_by_key(|wait| (Reverse(wait.priority), wait.turn))
    }

    /// Has runs start steps until none finds room for another, and those in `open` and those that start
    /// something decide what follows. Returns whether a step has started that holds some of a limit.
    fn start_all(
        &mut self,
        transaction: &Transaction<'_>,
        turn: QueuePlace<'_>,
        open: &mut BTreeSet<String>,
        news: &mut Vec<SchedulerNews>,
    ) -> Result<bool, StoreError> {
        let mut has_started = false;
        loop {
            has_started |= self.start_in_turn(transaction, turn, open)?;
            let Some(id) = open.pop_first() else { return Ok(has_started) };
            let run = self.served.get_mut(&id).expect("only a known run decides");
            match run.end_round(transaction, &self.placement, turn)? {
                RoundEnd::Done => {}
                RoundEnd::MayStart => {
                    self.turns.want(&id);
                    open.insert(id);
                }
                RoundEnd::Over(end) => {
                    self.forget(&id);
                    news.push(SchedulerNews::Ended { run: id, end });
                }
            }
        }
    }

    /// Wakes the steps that names have refused and that may have them now. Of all runs that wait for the same
    /// names, those look whose turn has come, and the first: what refuses it refuses the others, too. So a
    /// round costs as much however many wait. Adds the runs that have looked to `open`.
    fn wake_refused(
        &mut self,
        transaction: &Transaction<'_>,
        turn: QueuePlace<'_>,
        open: &mut BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let mut waiting: BTreeMap<Vec<Need>, BTreeSet<&str>> = BTreeMap::new();
        for (id, run) in &self.served {
            for needs in run.refused_needs() {
                waiting.entry(needs).or_default().insert(id);
            }
        }
        let mut looks: BTreeSet<(String, Vec<Need>)> = BTreeSet::new();
        for (needs, runs) in waiting {
            let first = transaction.leases().first_waiters(&needs, LOOKED_AT)?;
            let ours = first.iter().filter_map(|waiter| {
                let run = run_of(&waiter.holder).filter(|run| runs.contains(run))?;
                Some((run, waiter.notified_at.is_some()))
            });
            let ours: Vec<_> = ours.collect();
            let called = ours.iter().filter(|(_, is_called)| *is_called).map(|(run, _)| *run);
            let first = ours.first().map(|(run, _)| *run).or(runs.first().copied());
            looks.extend(called.chain(first).map(|run| (run.to_owned(), needs.clone())));
        }
        for (id, needs) in looks {
            self.touched.insert(id.clone());
            let run = self.served.get_mut(&id).expect("only a known run waits");
            run.wake_refused(transaction, &needs, turn)?;
            self.turns.want(&id);
            open.insert(id);
        }
        Ok(())
    }

    /// Has the runs start steps, one at a time and in turn, until none finds room for another. Adds those
    /// that have decided something to `open`. Returns whether a step has started that holds some of a limit.
    fn start_in_turn(
        &mut self,
        transaction: &Transaction<'_>,
        turn: QueuePlace<'_>,
        open: &mut BTreeSet<String>,
    ) -> Result<bool, StoreError> {
        let mut has_started = false;
        loop {
            for client in self.host.capacity.take_woken() {
                if let Some(id) = self.by_client.get(&client) {
                    self.served.get_mut(id).expect("it has a client").search_again();
                    self.turns.want(id);
                }
            }
            let Some(id) = self.turns.next() else { return Ok(has_started) };
            self.touched.insert(id.clone());
            let run = self.served.get_mut(&id).expect("only a known run has a turn");
            let started = run.start_next(transaction, &self.placement, turn)?;
            if started != StepStart::Nothing {
                self.turns.took(&id);
            }
            has_started |= started == StepStart::WithLimits;
            open.insert(id);
        }
    }

    /// Drops a run that has ended, or has to be adopted again.
    fn forget(&mut self, id: &str) {
        let Some(run) = self.served.remove(id) else { return };
        self.by_client.remove(&run.client());
        self.turns.remove(id);
    }

    /// Returns what concerns each run.
    fn news(
        &mut self,
        transaction: &Transaction<'_>,
    ) -> Result<BTreeMap<String, RoundNews>, StoreError> {
        let mut open: BTreeMap<String, RoundNews> = BTreeMap::new();
        for report in transaction.orders().take()? {
            let text = serde_json::from_str::<ReportText>(&report.text).ok();
            // A run that has ended does not need it any more.
            if let Some(id) = id_of(&report.key)
                && let Some(text) = text
                && self.served.contains_key(&report.run)
            {
                open.entry(report.run).or_default().reports.push((report.token, id, text));
            }
        }
        for round in open.values_mut() {
            round.reports.sort_by_key(|(_, _, report)| report.at);
        }
        for (run, requests) in self.requests(transaction)? {
            open.entry(run).or_default().requests = requests;
        }
        for run in self.grown(transaction)? {
            open.entry(run).or_default();
        }
        let after = match self.seen_event {
            Some(last) => last,
            None => transaction.events().last()?,
        };
        let events = transaction.events().after(after, EVENTS)?;
        self.seen_event = Some(events.last().map_or(after, |last| last.number));
        for (id, run) in &self.served {
            let is_due = run.next_due().is_some_and(|due| due <= run.now());
            if is_due || run.wants_round() {
                open.entry(id.clone()).or_default();
            }
            if run.heeds_events() && !events.is_empty() {
                open.entry(id.clone()).or_default().events.clone_from(&events);
            }
        }
        Ok(open)
    }
}

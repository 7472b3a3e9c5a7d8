//! What a worker does in one life: it takes orders from the store, has them executed, and reports their ends.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGHUP;
use windlass_core::{HolderId, Name, Timestamp};
use windlass_store::{
    Access, Blocker, Durability, Life, Process, ProcessTree, Store, StoreError, StoredWorker,
    Topic, Transaction, Wakeup, WorkerState, WriterWait,
};

use super::guarded::Guarded;
use super::guardian::Guardian;
use super::ledger::Ledger;
use super::life::{Begin, left_by};
use super::texts::{EndText, OrderText, ReportText, WishText, to_text};
use super::watchdog::Watchdog;
use super::worker::{WorkerEnd, WorkerError, WorkerNews, WorkerSettings, lease_terms, stored};
use crate::clock::Clock;
use crate::coordinator::attempts::{
    Attempts, Meanwhile, News, OrderKey, OrderKind, Report, StopMode,
};
#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::fence;
use crate::heartbeat::{Beat, Heartbeat};

/// The interval between two checks for orders without a wake-up.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How long to wait before a report that the store has not taken is repeated.
const REPORT_AGAIN: Duration = Duration::from_millis(250);

/// What a worker does in one life. Knows nothing of threads, and of processes only through `A`.
pub(super) struct Duty<A> {
    store: Store,
    settings: WorkerSettings,
    life: Life,
    holder: HolderId,
    attempts: A,
    /// The orders that were taken, each with the wish that was heeded last.
    taken: BTreeMap<u64, TakenOrder>,
    /// The last order that was taken.
    last: u64,
    /// Reports that the store does not have yet.
    reports: Vec<(u64, String)>,
    ledger: Ledger,
    clock: Clock,
    wakeup: Wakeup,
    /// What happened while the store could not be written, and was not heeded so far.
    inbox: Vec<News<OrderToken>>,
    /// Since when there has been nothing to do.
    idle_since: Instant,
    state: WorkerState,
    /// Whether the store cannot be used now, which was reported.
    trouble: bool,
    watchdog: Watchdog,
}

/// Where a life is spent.
pub(super) struct Place<'a> {
    /// The directory of the worker, which this process has locked.
    pub(super) dir: &'a Path,
    /// The tag that every process of the worker carries.
    pub(super) tag: &'a str,
    /// The process that is the worker.
    pub(super) process: &'a Process,
    /// Kills what earlier lives have left running, and returns once it is gone.
    pub(super) kill: &'a dyn Fn(&[ProcessTree]) -> io::Result<()>,
}

/// How a life has begun.
pub(super) struct Begun {
    /// How many orders of earlier lives are lost.
    pub(super) lost: usize,
    /// From when the life counts as alive.
    at: Timestamp,
}

/// An order by its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OrderToken {
    pub(super) token: u64,
    kind: OrderKind,
}

impl OrderKey for OrderToken {
    fn kind(self) -> OrderKind {
        self.kind
    }
}

struct TakenOrder {
    id: OrderToken,
    wish: Option<String>,
}

impl Duty<Guarded> {
    /// Has a guardian end what this worker executes when it cannot, and heartbeats keep that off.
    pub(super) fn guard(
        &mut self,
        beats: Store,
        process: Process,
        begun: &Begun,
    ) -> Result<Heartbeat, WorkerError> {
        let io = |what| move |source| WorkerError::Io { what, source };
        let began = begun.at;
        let WorkerSettings { lease, guardian, .. } = &self.settings;
        let lease = *lease;
        let guardian = Guardian::start(guardian, self.attempts.presence(), lease, began);
        let guardian = guardian.map_err(io("the worker's guardian cannot be started"))?;
        let line = guardian.line();
        let heeded = self.attempts.heed(guardian);
        heeded.map_err(io("the worker's guardian cannot be watched"))?;
        #[cfg(windlass_faults)]
        Point::AfterGuardian.reached();
        fence::open_until(began.after(lease / 2));
        let on_beat = move |beat| match beat {
            Beat::Good { at } => {
                #[cfg(windlass_faults)]
                Point::AfterBeat.reached();
                line.note_good(at);
                fence::open_until(at.after(lease / 2));
            }
            Beat::LifeOver => {
                fence::close();
                line.note_life_over();
            }
        };
        let (terms, life) = (lease_terms(lease), self.life.clone());
        let heartbeat = Heartbeat::of_worker(beats, process, terms, life, on_beat);
        heartbeat.map_err(io("heartbeats cannot be sent"))
    }
}

impl<A: Attempts<OrderToken>> Duty<A> {
    /// Begins a life: sees the processes of earlier ones gone, and reports their orders.
    pub(super) fn begin(
        mut store: Store,
        settings: WorkerSettings,
        place: &Place<'_>,
        mut attempts: A,
        clock: Clock,
    ) -> Result<(Self, Begun), WorkerError> {
        let io = |what| move |source| WorkerError::Io { what, source };
        let (name, process) = (settings.name.clone(), place.process);
        let trees = store.read(|transaction| left_by(transaction, &name, place.tag))?;
        (place.kill)(&trees)
            .map_err(io("cannot kill the processes that an earlier life of the worker has left"))?;
        #[cfg(windlass_faults)]
        Point::AfterEarlierLives.reached();
        let (mut ledger, ends) =
            Ledger::open(place.dir).map_err(io("cannot open the worker's ledger"))?;
        let wakeup = store.register(&Topic::Orders)?;
        let holder = HolderId::new(format!("worker {name}[{}.{}]", process.pid, process.started));
        let begun = store.transact(|transaction| {
            let begin = Begin { settings: &settings, holder: &holder, process };
            let begun = begin.life(transaction, &ends)?;
            #[cfg(windlass_faults)]
            Point::BeforeLife.reached();
            Ok(begun.map(|(life, lost)| (life, Begun { lost, at: transaction.now().at })))
        })?;
        #[cfg(windlass_faults)]
        Point::AfterLife.reached();
        let Some((life, begun)) = begun else { return Err(WorkerError::Running { name }) };
        ledger.clear().map_err(io("cannot write the worker's ledger"))?;
        attempts.watch(wakeup.as_fd()).map_err(io("wake-ups cannot be watched"))?;
        let duty = Self {
            store,
            settings,
            life,
            holder,
            attempts,
            taken: BTreeMap::new(),
            last: 0,
            reports: Vec::new(),
            ledger,
            clock,
            wakeup,
            inbox: Vec::new(),
            idle_since: Instant::now(),
            state: WorkerState::Up,
            trouble: false,
            watchdog: Watchdog::default(),
        };
        Ok((duty, begun))
    }

    pub(super) fn life(&self) -> &Life {
        &self.life
    }

    /// Tells systemd that the worker is ready, and from now on that it is alive.
    pub(super) fn set_ready(&mut self, watchdog: Watchdog) {
        self.watchdog = watchdog;
        self.watchdog.ready();
    }

    /// Looks at the store once, and waits for what happens next. Returns how the worker ends, if it does.
    pub(super) fn go_on(
        &mut self,
        tell: &mut dyn FnMut(&WorkerNews),
    ) -> Result<Option<WorkerEnd>, WorkerError> {
        self.watchdog.beat();
        let looked = self.look(tell);
        match self.heed_trouble(looked, tell) {
            Ok(true) => {}
            Ok(false) => return Ok(Some(WorkerEnd::LifeOver)),
            Err(lost) => {
                self.attempts.finish()?;
                return Err(lost);
            }
        }
        if let Some(end) = self.is_over()? {
            return Ok(Some(end));
        }
        let pause = match (self.inbox.is_empty(), self.reports.is_empty()) {
            (false, _) => Duration::ZERO,
            (_, true) => LOOK_AGAIN,
            (_, false) => REPORT_AGAIN,
        };
        let pause = pause.min(self.watchdog.longest_wait());
        let mut inbox = std::mem::take(&mut self.inbox);
        inbox.extend(self.attempts.wait(Some(pause))?);
        if inbox.iter().any(|news| matches!(news, News::LifeOver)) {
            return Ok(Some(WorkerEnd::LifeOver));
        }
        for news in inbox {
            match news {
                News::Report(Report::NoRoom(why)) => tell(&WorkerNews::NoRoom(why)),
                News::Report(report) => self.note(report, tell),
                // There is nothing to read again.
                News::Signal(SIGHUP) => {}
                News::Signal(_) if self.state == WorkerState::Draining => {
                    return Ok(Some(WorkerEnd::Killed));
                }
                News::Signal(_) => {
                    self.state = WorkerState::Draining;
                    tell(&WorkerNews::Draining);
                    let drained = self.announce(tell);
                    // The next look at a store that is lost ends the worker.
                    let _ = self.heed_trouble(drained.map(|()| true), tell);
                }
                News::Wakeup => self.wakeup.drain(),
                News::LifeOver => unreachable!("it ends the life above"),
            }
        }
        Ok(None)
    }

    /// Reports ended orders, takes new orders, and carries out wishes. Returns whether this life still
    /// has the worker's name.
    fn look(&mut self, tell: &mut dyn FnMut(&WorkerNews)) -> Result<bool, WorkerError> {
        if !self.report(tell)? {
            return Ok(false);
        }
        let (life, last) = (&self.life, self.last);
        let (orders, wishes) = self.store.read(|transaction| {
            let orders = transaction.orders();
            Ok((orders.of_life(life, last)?, orders.wishes(life)?))
        })?;
        for order in orders {
            self.take(order.token, &order.text)?;
            self.last = order.token;
        }
        for (token, wish) in wishes {
            self.heed(token, wish)?;
        }
        Ok(true)
    }

    fn take(&mut self, token: u64, text: &str) -> Result<(), WorkerError> {
        let Ok(order) = serde_json::from_str::<OrderText>(text) else {
            let why = "the order was written by another version of windlass".to_owned();
            self.last = token;
            self.reports.push((token, self.lost(why)));
            return Ok(());
        };
        let id = OrderToken { token, kind: order.kind() };
        let order = order.into_order(id, self.store.now().at, self.clock.now());
        if let Some(dir) = order.log.as_ref().and_then(|log| log.path.parent()) {
            let what = "cannot create the directory of the run's logs";
            Access::create_dir(dir).map_err(|source| WorkerError::Io { what, source })?;
        }
        // Until then it is not taken, and is tried again.
        self.last = token;
        self.taken.insert(token, TakenOrder { id, wish: None });
        self.attempts.prepare(order);
        Ok(self.attempts.start_prepared()?)
    }

    fn heed(&mut self, token: u64, wish: Option<String>) -> Result<(), WorkerError> {
        let Some(taken) = self.taken.get_mut(&token) else { return Ok(()) };
        if wish.is_none() || taken.wish == wish {
            return Ok(());
        }
        let wanted = wish.as_deref().and_then(|wish| serde_json::from_str::<WishText>(wish).ok());
        taken.wish = wish;
        let grace = Duration::from_millis;
        let mode = match wanted {
            Some(WishText::Limit { until }) => {
                let now = self.store.now().at;
                let left = until.map(|until| Timestamp::from_nanos(until).since(now));
                self.attempts.set_limit(taken.id, left);
                StopMode::Continue
            }
            Some(WishText::Halt) => StopMode::Halt,
            Some(WishText::Ask { grace_ms }) => StopMode::Ask { grace: grace(grace_ms) },
            Some(WishText::Finish { grace_ms }) => StopMode::Finish { grace: grace(grace_ms) },
            Some(WishText::Kill) | None => StopMode::Kill,
        };
        Ok(self.attempts.stop(taken.id, mode)?)
    }

    /// Records how an order has ended, before it is reported to the store. If there is no room for the record,
    /// only a kill before the store has the report costs another attempt.
    fn note(&mut self, report: Report<OrderToken>, tell: &mut dyn FnMut(&WorkerNews)) {
        let Some((id, text)) = ReportText::of(report, self.store.now().at) else { return };
        self.taken.remove(&id.token);
        #[cfg(windlass_faults)]
        Point::BeforeNote.reached();
        let end = [(id.token, to_text(&text))];
        let what = "cannot write the worker's ledger";
        let noted = self.ledger.note(&end).map_err(|source| WorkerError::Io { what, source });
        #[cfg(windlass_faults)]
        Point::AfterNote.reached();
        self.reports.extend(end);
        if noted.is_err() {
            // This error is not that of a store that is lost.
            let _ = self.heed_trouble(noted.map(|()| true), tell);
        }
    }

    /// Has the store take the reports. Returns whether this life still has the worker's name.
    fn report(&mut self, tell: &mut dyn FnMut(&WorkerNews)) -> Result<bool, WorkerError> {
        if self.reports.is_empty() {
            return Ok(true);
        }
        let (life, reports) = (self.life.clone(), self.reports.clone());
        let taken = self.write(Durability::Process, tell, |transaction| {
            let taken = transaction.orders().report(&life, &reports)?;
            #[cfg(windlass_faults)]
            Point::BeforeReport.reached();
            Ok(taken)
        })?;
        #[cfg(windlass_faults)]
        Point::AfterReport.reached();
        if taken {
            self.reports.clear();
            let what = "cannot write the worker's ledger";
            self.ledger.clear().map_err(|source| WorkerError::Io { what, source })?;
        }
        Ok(taken)
    }

    /// Stores that the worker takes no new orders.
    fn announce(&mut self, tell: &mut dyn FnMut(&WorkerNews)) -> Result<(), WorkerError> {
        let worker = stored(&self.settings, self.life.clone(), self.state);
        self.write(Durability::Full, tell, |transaction| {
            let since_ms = transaction.now().wall_ms;
            transaction.orders().put_worker(&StoredWorker { since_ms, ..worker.clone() })
        })
    }

    /// Writes to the store, while everything that was ordered goes on. A signal interrupts a wait for other
    /// writers.
    fn write<T>(
        &mut self,
        durability: Durability,
        tell: &mut dyn FnMut(&WorkerNews),
        act: impl FnMut(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, WorkerError> {
        let Self { store, attempts, inbox, trouble, watchdog, .. } = self;
        let mut blocked = |blocker: &Blocker| {
            if !std::mem::replace(trouble, true) {
                tell(&WorkerNews::Trouble(format!("waiting for the store: {blocker}")));
            }
        };
        let mut meanwhile = Meanwhile::new(attempts, inbox, &mut blocked);
        let mut on_wait = |wait: &dyn WriterWait| {
            watchdog.beat();
            meanwhile.go_on(wait)
        };
        let written = store.transact_while(durability, &mut on_wait, act);
        meanwhile.failure().map_or(Ok(written?), |failure| Err(failure.into()))
    }

    /// Tells the user once that the store cannot be used, and that it can again. Returns whether this
    /// life still has the worker's name, as far as that is known. Fails if the store is lost for good.
    fn heed_trouble(
        &mut self,
        looked: Result<bool, WorkerError>,
        tell: &mut dyn FnMut(&WorkerNews),
    ) -> Result<bool, WorkerError> {
        match looked {
            Ok(alive) => {
                if std::mem::take(&mut self.trouble) {
                    tell(&WorkerNews::Recovered);
                }
                Ok(alive)
            }
            // A signal has come, which is heeded next.
            Err(WorkerError::Store(StoreError::Interrupted)) => Ok(true),
            Err(WorkerError::Store(lost)) if lost.is_final() => Err(lost.into()),
            Err(error) => {
                if matches!(error, WorkerError::Store(_)) {
                    // If that fails, the next look does.
                    let _ = self.store.reconnect();
                }
                if !std::mem::replace(&mut self.trouble, true) {
                    tell(&WorkerNews::Trouble(error.to_string()));
                }
                Ok(true)
            }
        }
    }

    /// Returns how the worker ends, if it has nothing to do any more.
    fn is_over(&mut self) -> Result<Option<WorkerEnd>, WorkerError> {
        if !self.taken.is_empty() || !self.reports.is_empty() || self.trouble {
            self.idle_since = Instant::now();
            return Ok(None);
        }
        if self.state == WorkerState::Draining {
            return Ok(Some(WorkerEnd::Drained));
        }
        let Some(idle) = self.settings.idle.filter(|idle| self.idle_since.elapsed() >= *idle)
        else {
            return Ok(None);
        };
        let led = self.store.read(|transaction| {
            let leases = transaction.leases().on(&Name::Scheduler)?;
            Ok(leases.iter().any(|stored| !stored.owner.is_gone()))
        })?;
        if led {
            self.idle_since = Instant::now();
        }
        Ok((!led && !idle.is_zero()).then_some(WorkerEnd::Idle))
    }

    /// Ends everything that runs, and gives up the name.
    pub(super) fn end(mut self, end: WorkerEnd) -> Result<WorkerEnd, WorkerError> {
        self.attempts.finish()?;
        if end == WorkerEnd::LifeOver {
            return Ok(end);
        }
        // If no process can write, the next life of the worker reports what the ledger has.
        self.store.give_up_when(|wait| wait.is_long().then(|| StoreError::Busy(wait.blocker())));
        let why = "its worker was ended by a second signal";
        let taken = std::mem::take(&mut self.taken);
        let lost: Vec<_> =
            taken.into_keys().map(|token| (token, self.lost(why.to_owned()))).collect();
        self.reports.extend(lost);
        let (life, holder, reports) = (&self.life, &self.holder, &self.reports);
        self.store.transact(|transaction| {
            transaction.orders().report(life, reports)?;
            transaction.orders().delete_worker(life)?;
            let name = Name::Worker(life.worker.clone());
            transaction.leases().release(&name, holder, life.token).map(drop)
        })?;
        Ok(end)
    }

    fn lost(&self, why: String) -> String {
        to_text(&ReportText { at: self.store.now().at.as_nanos(), end: EndText::Lost(why) })
    }
}

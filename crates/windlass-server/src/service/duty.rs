//! What a worker does in one life: it takes orders from the store, has them executed, and reports their ends.

mod connection;
mod outbox;
mod taken;

use std::collections::BTreeSet;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use signal_hook::consts::SIGHUP;
use windlass_core::{HolderId, Name, Timestamp};
use windlass_store::{
    Access, Delivery, Durability, Life, LogStream, Look, Process, ProcessTree, Store, StoreError,
    StoredOrder, StoredWorker, Topic, Transaction, Wakeup, WorkerState,
};

use self::connection::{Around, Connection};
use self::outbox::Outbox;
pub(super) use self::taken::OrderToken;
use self::taken::{TakenOrders, Wish};
use super::guarded::Guarded;
use super::guardian::{Guardian, GuardianProgram};
use super::ledger::Ledger;
use super::life::{Begin, left_by};
use super::log_sender::LogSender;
use super::texts::{EndText, OrderText, ReportText, id_of, to_text};
use super::watchdog::Watchdog;
use super::worker::{
    WorkerEnd, WorkerError, WorkerNews, WorkerSettings, lease_terms, stored, worker_holder,
};
use super::workers::{asked, state, target};
use crate::clock::Clock;
use crate::coordinator::attempts::{Attempts, LogSpec, News, OrderId, OrderKind, Report, StopMode};
#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::fence;
use crate::heartbeat::{Beat, Heartbeat, SettledEra, WorkerBeats};
use crate::inherited::Inherited;

/// The interval between two checks for orders without a wake-up.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// The same where wake-ups come with commits.
const LOOK_RARELY: Duration = Duration::from_secs(60);
/// How long to wait before a report that the store has not taken is repeated.
const REPORT_AGAIN: Duration = Duration::from_millis(250);
/// How long a worker that ends sends logs.
const LAST_LOGS: Duration = Duration::from_secs(10);

/// What a worker does in one life. Knows nothing of threads, and of processes only through `A`.
pub(super) struct Duty<A> {
    connection: Connection,
    settings: WorkerSettings,
    life: Life,
    holder: HolderId,
    attempts: A,
    taken: TakenOrders,
    outbox: Outbox,
    clock: Clock,
    wakeup: Wakeup,
    /// What happened while the store could not be written, and was not heeded so far.
    inbox: Vec<News<OrderToken>>,
    /// Since when there has been nothing to do.
    idle_since: Instant,
    state: WorkerState,
    /// Whether a signal has asked this process to end.
    is_ending: bool,
    watchdog: Watchdog,
    /// The era of the store in which all that is executed is known to the store.
    settled: SettledEra,
    /// The orders that were reported as lost, while that is not settled.
    told_lost: BTreeSet<u64>,
    /// Sends logs to a store that keeps them.
    logs: Option<LogSender>,
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
    /// From when the life counts as alive, since the boot of this machine.
    at: Timestamp,
}

impl Duty<Guarded> {
    /// Has a guardian end what this worker executes when it cannot, and heartbeats keep that off.
    pub(super) fn guard(
        &mut self,
        process: Process,
        begun: &Begun,
        inherited: Inherited,
    ) -> Result<Heartbeat, WorkerError> {
        let io = |what| move |source| WorkerError::Io { what, source };
        let began = begun.at;
        let WorkerSettings { lease, guardian, .. } = &self.settings;
        let lease = *lease;
        let program = GuardianProgram { arguments: guardian.clone(), inherited };
        let guardian = Guardian::start(program, self.attempts.presence(), lease, began);
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
        let beats = WorkerBeats { process, life, terms, settled: self.settled.clone() };
        let heartbeat = Heartbeat::of_worker(self.connection.store(), beats, on_beat);
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
        let holder = worker_holder(&name, process);
        let begun = store.transact(|transaction| {
            let begin = Begin { settings: &settings, holder: &holder, process };
            let begun = begin.life(transaction, &ends)?;
            #[cfg(windlass_faults)]
            Point::BeforeLife.reached();
            let (at, era) = (transaction.now().here, transaction.era()?);
            Ok(begun.map(|(life, lost)| (life, Begun { lost, at }, era)))
        })?;
        #[cfg(windlass_faults)]
        Point::AfterLife.reached();
        let Some((life, begun, era)) = begun else { return Err(WorkerError::Running { name }) };
        ledger.clear().map_err(io("cannot write the worker's ledger"))?;
        attempts.watch(wakeup.as_fd()).map_err(io("wake-ups cannot be watched"))?;
        let duty = Self {
            connection: Connection::new(store),
            settings,
            life,
            holder,
            attempts,
            taken: TakenOrders::default(),
            settled: SettledEra::new(era),
            told_lost: BTreeSet::new(),
            outbox: Outbox::new(ledger),
            clock,
            wakeup,
            inbox: Vec::new(),
            idle_since: Instant::now(),
            state: WorkerState::Up,
            is_ending: false,
            watchdog: Watchdog::default(),
            logs: None,
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

    /// Has the logs of orders sent to the store, beginning with those of earlier lives.
    pub(super) fn send_logs(&mut self, logs: LogSender, before: &[StoredOrder]) {
        let state = self.connection.store().dir().to_owned();
        for order in before {
            let Ok(mut text) = serde_json::from_str::<OrderText>(&order.text) else { continue };
            text.move_to(&state);
            if let Some((stream, log, call)) = stream_of(order, &text) {
                logs.go_on(stream, &log.path, log.limit, call);
            }
        }
        self.logs = Some(logs);
    }

    /// Looks at the store once, and waits for what happens next. Returns how the worker ends, if it does.
    pub(super) fn go_on(
        &mut self,
        tell: &mut dyn FnMut(&WorkerNews),
    ) -> Result<Option<WorkerEnd>, WorkerError> {
        self.watchdog.beat();
        let looked = self.look(tell);
        match self.connection.heed_trouble(looked, tell) {
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
        let pause = match (self.inbox.is_empty(), self.outbox.is_empty()) {
            (false, _) => Duration::ZERO,
            (_, true) => self.look_again(),
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
                News::Signal(_) if self.is_ending => return Ok(Some(WorkerEnd::Killed)),
                News::Signal(_) => {
                    self.is_ending = true;
                    self.change_to(WorkerState::Draining, tell);
                }
                News::Wakeup => self.wakeup.drain(),
                News::LifeOver => unreachable!("it ends the life above"),
            }
        }
        Ok(None)
    }

    /// Returns how long until the next look without a wake-up.
    fn look_again(&mut self) -> Duration {
        let lease = self.settings.lease;
        let again = match self.connection.store().delivery() {
            Delivery::WithCommit if !self.connection.is_in_trouble() => LOOK_RARELY.min(lease),
            _ => LOOK_AGAIN.min(lease / 8),
        };
        let idle = self.settings.idle.filter(|idle| !idle.is_zero());
        idle.map_or(again, |idle| again.min(idle))
    }

    /// Reports ended orders, takes new orders, and carries out wishes. Returns whether this life still
    /// has the worker's name.
    fn look(&mut self, tell: &mut dyn FnMut(&WorkerNews)) -> Result<bool, WorkerError> {
        if !self.report(tell)? {
            return Ok(false);
        }
        let (life, last) = (&self.life, self.taken.last());
        let (orders, wishes, asked, era) = self.connection.store().read(|transaction| {
            let orders = transaction.orders();
            let target = target(&life.worker);
            orders.expect(Look::OfWorker { life, after: last, target: &target })?;
            let asked = asked(transaction, &life.worker)?;
            Ok((orders.of_life(life, last)?, orders.wishes(life)?, asked, transaction.era()?))
        })?;
        if !self.settled.is(era) {
            self.settle(era, wishes.iter().map(|(token, _)| *token).collect())?;
        }
        if !self.is_ending {
            self.change_to(state(asked), tell);
        }
        for order in &orders {
            self.take(order)?;
        }
        for (token, wish) in wishes {
            self.heed(token, wish)?;
        }
        Ok(true)
    }

    /// Brings this worker and a store that has begun another era together: ends what the store does not know,
    /// and reports as lost what it has and this worker does not. Heartbeats count again when that is done.
    fn settle(&mut self, era: u64, known: BTreeSet<u64>) -> Result<(), WorkerError> {
        let last = self.taken.last();
        let unknown = self.taken.besides(&known);
        for id in &unknown {
            self.attempts.stop(*id, StopMode::Kill)?;
        }
        let why = "the database failed over or was restored, and its end is lost";
        for token in known.into_iter().filter(|token| *token <= last) {
            let has_report = self.outbox.reports().iter().any(|(of, _)| *of == token);
            // A report that the store has stays until a scheduler takes it in, and this one changes nothing.
            if !self.taken.has(token) && !has_report && self.told_lost.insert(token) {
                let lost = self.lost(why.to_owned());
                self.outbox.add(token, lost);
            }
        }
        if unknown.is_empty() && self.outbox.is_empty() {
            self.told_lost.clear();
            self.settled.set(era);
        }
        Ok(())
    }

    fn take(&mut self, stored: &StoredOrder) -> Result<(), WorkerError> {
        let token = stored.token;
        let Ok(mut order) = serde_json::from_str::<OrderText>(&stored.text) else {
            let why = "the order was written by another version of windlass".to_owned();
            let lost = self.lost(why);
            self.taken.pass(token);
            self.outbox.add(token, lost);
            return Ok(());
        };
        let id = OrderToken { token, kind: order.kind() };
        let now = self.connection.store().now().at;
        order.move_to(self.connection.store().dir());
        let stream = self.logs.as_ref().and_then(|_| stream_of(stored, &order));
        let mut order = order.into_order(id, now, self.clock.now());
        if let Some(dir) = order.log.as_ref().and_then(|log| log.path.parent()) {
            let what = "cannot create the directory of the run's logs";
            Access::create_dir(dir).map_err(|source| WorkerError::Io { what, source })?;
        }
        if let (Some(logs), Some((stream, _, call)), Some(log)) =
            (&self.logs, stream, &mut order.log)
        {
            log.growth = Some(logs.begin(stream, &log.path, log.limit, call));
        }
        // Until then it is not taken, and is tried again.
        self.taken.add(id);
        self.attempts.prepare(order);
        Ok(self.attempts.start_prepared()?)
    }

    fn heed(&mut self, token: u64, wish: Option<String>) -> Result<(), WorkerError> {
        let now = self.connection.store().now().at;
        match self.taken.heed(token, wish, now) {
            None => {}
            Some((id, Wish::Stop(mode))) => self.attempts.stop(id, mode)?,
            Some((id, Wish::Limit(left))) => {
                self.attempts.set_limit(id, left);
                self.attempts.stop(id, StopMode::Continue)?;
            }
        }
        Ok(())
    }

    /// Records how an order has ended, before it is reported to the store.
    fn note(&mut self, report: Report<OrderToken>, tell: &mut dyn FnMut(&WorkerNews)) {
        let now = self.connection.store().now().at;
        let Some((id, text)) = ReportText::of(report, now) else { return };
        self.taken.remove(id.token);
        self.logs.iter().for_each(|logs| logs.end(id.token));
        #[cfg(windlass_faults)]
        Point::BeforeNote.reached();
        let recorded = self.outbox.record(id.token, to_text(&text)).map_err(cannot_record);
        #[cfg(windlass_faults)]
        Point::AfterNote.reached();
        if recorded.is_err() {
            // This error is not that of a store that is lost.
            let _ = self.connection.heed_trouble(recorded.map(|()| true), tell);
        }
    }

    /// Has the store take the reports. Returns whether this life still has the worker's name.
    fn report(&mut self, tell: &mut dyn FnMut(&WorkerNews)) -> Result<bool, WorkerError> {
        if self.outbox.is_empty() {
            return Ok(true);
        }
        // Who sees the end finds the log.
        self.logs.iter().for_each(LogSender::wait_for_ends);
        let (life, reports) = (self.life.clone(), self.outbox.reports().to_owned());
        let taken = self.write(Durability::Process, tell, |transaction| {
            let taken = transaction.orders().report(&life, &reports)?;
            #[cfg(windlass_faults)]
            Point::BeforeReport.reached();
            Ok(taken)
        })?;
        #[cfg(windlass_faults)]
        Point::AfterReport.reached();
        if taken {
            self.outbox.clear().map_err(cannot_record)?;
        }
        Ok(taken)
    }

    /// Changes to a state, and tells the user and the scheduler.
    fn change_to(&mut self, state: WorkerState, tell: &mut dyn FnMut(&WorkerNews)) {
        if self.state == state {
            return;
        }
        self.state = state;
        tell(match state {
            WorkerState::Draining => &WorkerNews::Draining,
            WorkerState::Cordoned => &WorkerNews::Cordoned,
            _ => &WorkerNews::Uncordoned,
        });
        let told = self.announce(tell);
        // The next look at a store that is lost ends the worker.
        let _ = self.connection.heed_trouble(told.map(|()| true), tell);
    }

    /// Stores whether the worker takes new orders.
    fn announce(&mut self, tell: &mut dyn FnMut(&WorkerNews)) -> Result<(), WorkerError> {
        let worker = stored(&self.settings, self.life.clone(), self.state);
        self.write(Durability::Full, tell, |transaction| {
            let since_ms = transaction.now().wall_ms;
            transaction.orders().put_worker(&StoredWorker { since_ms, ..worker.clone() })
        })
    }

    /// Writes to the store, while everything that was ordered goes on.
    fn write<T>(
        &mut self,
        durability: Durability,
        tell: &mut dyn FnMut(&WorkerNews),
        act: impl FnMut(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, WorkerError> {
        let Self { connection, attempts, inbox, watchdog, .. } = self;
        connection.write(durability, Around { attempts, inbox, watchdog }, tell, act)
    }

    /// Returns how the worker ends, if it has nothing to do any more.
    fn is_over(&mut self) -> Result<Option<WorkerEnd>, WorkerError> {
        let is_busy = !self.taken.is_empty() || !self.outbox.is_empty();
        if is_busy || self.connection.is_in_trouble() {
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
        let led = self.connection.store().read(|transaction| {
            let leases = transaction.leases().on(&Name::Scheduler)?;
            Ok(leases.iter().any(|stored| !stored.is_over(transaction.now())))
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
        let why = "its worker was ended by a second signal";
        for token in self.taken.take() {
            let lost = self.lost(why.to_owned());
            self.outbox.add(token, lost);
            self.logs.iter().for_each(|logs| logs.end(token));
        }
        self.logs.iter().for_each(|logs| logs.wait_for_ends_within(LAST_LOGS));
        let (life, holder, reports) = (&self.life, &self.holder, self.outbox.reports());
        let store = self.connection.store();
        // If no process can write, the next life of the worker reports what the ledger has.
        store.give_up_when(|wait| wait.is_long().then(|| StoreError::Busy(wait.blocker())));
        store.transact(|transaction| {
            transaction.orders().report(life, reports)?;
            transaction.orders().delete_worker(life)?;
            let name = Name::Worker(life.worker.clone());
            transaction.leases().release(&name, holder, life.token).map(drop)
        })?;
        Ok(end)
    }

    fn lost(&mut self, why: String) -> String {
        let at = self.connection.store().now().at.as_nanos();
        to_text(&ReportText { at, end: EndText::Lost(why) })
    }
}

/// Returns the stream of what an order prints, with its log and the number of the call of a hook.
fn stream_of(stored: &StoredOrder, text: &OrderText) -> Option<(LogStream, LogSpec, Option<u32>)> {
    let log = text.log()?.clone();
    let (token, run, worker) = (stored.token, stored.run.clone(), stored.life.worker.clone());
    let file = log.path.file_name()?.to_str()?.to_owned();
    let work = id_of(&stored.key).and_then(OrderId::work);
    let call = match text.kind() {
        OrderKind::Hook(call) => Some(call),
        _ => None,
    };
    Some((LogStream { token, run, work, file, worker }, log, call))
}

fn cannot_record(source: io::Error) -> WorkerError {
    WorkerError::Io { what: "cannot write the worker's ledger", source }
}

//! A journal and attempts without a store and without processes, in virtual time.
//!
//! Both write what they see to one [`World`], which also holds the clock: a wait moves it to the next
//! thing that happens. The world checks with every start and with everything shown that the journal
//! knows of it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use windlass_core::{Fact, Grant, Happening, Name, Token, WorkId, WorkState};
use windlass_store::{AttemptEnd, Event, RunEnd};

use super::super::attempts::{Attempts, CheckEnd, News, Order, OrderId, Report, StopMode};
use super::super::identity::RunIdentity;
use super::super::journal::{
    Admission, Committed, Due, Journal, Record, Request, Start, SyncScope,
};
use super::super::run_loop::RunLoop;
use super::super::state::RunState;
use super::super::{Change, End, RunError, Update};
use crate::clock::Clock;
use crate::ended::{Ended, Exit};
use crate::guard::{CheckResult, NotYet};
use crate::schedule::Schedule;

/// When virtual time begins, in nanoseconds.
const BEGIN: u64 = 1_000_000_000_000;

/// Something that was done or shown, in order, with the seconds since the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Start(OrderId),
    Stop(OrderId, StopMode),
    /// A step, its new state and its attempt.
    Changed(String, WorkState, u32),
    /// A step that waits, and the first line of what for.
    Waits(String, String),
    Notice(String),
    Stopping,
    /// A commit, a sync or the end of the run could not be stored.
    JournalFailed,
}

/// How an order ends.
#[derive(Clone, Debug)]
pub(super) enum Script {
    /// With this code, so many seconds after its start.
    Exit(u64, i32),
    /// Only when it is stopped.
    Never,
    /// It is lost so many seconds after its start.
    Lost(u64),
    /// It could not be started in time.
    Late,
    /// A check that has this result at once.
    Check(CheckResult),
}

/// Something from outside.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outside {
    Signal(i32),
    Request(&'static str),
    Event(&'static str),
}

#[derive(Default)]
pub(super) struct World {
    pub(super) seen: Vec<(u64, Seen)>,
    clock: Arc<AtomicU64>,
    facts: Vec<Fact>,
    /// How many of the facts the disk has, and since when it does not have the others.
    synced: usize,
    unsynced_since: Option<u64>,
    /// The steps that each step follows.
    after: Vec<Vec<WorkId>>,
    /// How the attempts of committed records have ended.
    pub(super) attempts: Vec<(WorkId, u32, AttemptEnd)>,
    pub(super) events: Vec<String>,
    requests: Vec<Request>,
    pending_events: Vec<Event>,
    pub(super) ended: Option<Option<RunEnd>>,
    /// How often something was to be stored.
    pub(super) writes: usize,
    pub(super) names_lost: bool,
}

type Shared = Rc<RefCell<World>>;

impl World {
    fn seconds(&self) -> u64 {
        (self.clock.load(Ordering::Relaxed) - BEGIN) / 1_000_000_000
    }

    fn see(&mut self, seen: Seen) {
        let failed = self.seen.iter().any(|(_, seen)| *seen == Seen::JournalFailed);
        assert!(!failed, "{seen:?} after the journal has failed");
        self.seen.push((self.seconds(), seen));
    }

    fn knows(&self, facts: &[Fact], is_it: impl Fn(&Happening) -> bool) -> bool {
        facts.iter().any(|fact| is_it(&fact.what))
    }

    fn began(&self, of: Grant) -> impl Fn(&Happening) -> bool {
        move |what| matches!(what, Happening::Started { work, attempt } if (*work, *attempt) == (of.work, of.attempt))
    }

    fn check_start(&self, id: OrderId) {
        let known = match id {
            OrderId::Command(grant) => {
                let synced = &self.facts[..self.synced];
                let ended = |on: &WorkId| {
                    self.knows(
                        synced,
                        |what| matches!(what, Happening::Ended { work, .. } if work == on),
                    )
                };
                self.after[grant.work.index()].iter().all(ended)
                    && self.knows(&self.facts, self.began(grant))
            }
            OrderId::Finally(Grant { work, .. }) => {
                self.attempts.iter().any(|(of, ..)| *of == work)
            }
            // A check changes nothing; a hook reports what the disk has.
            OrderId::Check { .. } => true,
            OrderId::Hook(_) => self.synced == self.facts.len(),
        };
        assert!(known, "{id:?} starts, and the journal does not know why");
    }

    fn check_change(&self, change: &Change<'_>, work: WorkId) {
        let synced = &self.facts[..self.synced];
        let of = Grant { work, attempt: change.attempt };
        let ended = |what: &Happening| match what {
            Happening::Ended { work: ended, attempt, .. } => {
                (*ended, *attempt) == (work, of.attempt)
            }
            Happening::GateRejected { work: ended } | Happening::GateSkipped { work: ended } => {
                *ended == work
            }
            _ => false,
        };
        let known = match change.state {
            WorkState::Running => self.knows(synced, self.began(of)),
            WorkState::Success | WorkState::Failed => self.knows(synced, ended),
            _ => true,
        };
        assert!(known, "{change:?} is shown, and the disk does not have it");
    }
}

pub(super) struct FakeJournal {
    world: Shared,
    records: Vec<Record>,
    fails_at: Option<usize>,
    failed: bool,
}

impl FakeJournal {
    /// Counts what is to be stored, and fails if it is time to.
    fn write(&mut self) -> Result<(), RunError> {
        let mut world = self.world.borrow_mut();
        world.writes += 1;
        if self.fails_at == Some(world.writes) {
            self.failed = true;
            world.see(Seen::JournalFailed);
            let source = io::Error::other("the disk is gone");
            return Err(RunError::Io { what: "the journal cannot be written", source });
        }
        Ok(())
    }
}

impl Journal for FakeJournal {
    fn record(&mut self, record: Record) {
        self.records.push(record);
    }

    fn commit(
        &mut self,
        schedule: &mut Schedule,
        admission: Admission,
    ) -> Result<Committed, RunError> {
        let mut starts = Vec::new();
        while admission == Admission::Open
            && let Some(grant) = schedule.take_next()
        {
            schedule.begin(grant).expect("it was granted just now");
            // Every step holds one name, so that it may lose it.
            let names = vec![(Name::Lock("x".to_owned()), Token(1))];
            starts.push(Start { names, ..Start::plain(grant) });
        }
        self.write()?;
        let mut world = self.world.borrow_mut();
        let facts = schedule.take_facts();
        if !facts.is_empty() {
            let now = world.clock.load(Ordering::Relaxed);
            world.unsynced_since.get_or_insert(now);
        }
        world.facts.extend(facts);
        for record in self.records.drain(..) {
            match record {
                Record::Attempt { record, .. } => {
                    world.attempts.push((record.work, record.attempt, record.end));
                }
                Record::Emit(event) => world.events.push(event),
                Record::Taken(number) => world.requests.retain(|asked| asked.number != number),
                Record::Wait(_) | Record::WaitOver(_) | Record::Reopened => {}
            }
        }
        Ok(Committed { starts, refusals: Vec::new() })
    }

    fn begin_sync(&mut self) {}

    fn sync(&mut self, _: SyncScope) -> Result<(), RunError> {
        self.write()?;
        let mut world = self.world.borrow_mut();
        (world.synced, world.unsynced_since) = (world.facts.len(), None);
        Ok(())
    }

    fn unsynced_for(&self) -> Option<Duration> {
        let world = self.world.borrow();
        let now = world.clock.load(Ordering::Relaxed);
        world.unsynced_since.map(|since| Duration::from_nanos(now - since))
    }

    fn has_failed(&self) -> bool {
        self.failed
    }

    fn until_due(&self) -> Option<Duration> {
        None
    }

    fn on_due(
        &mut self,
        _: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<()>,
    ) -> Result<Due, RunError> {
        Ok(Due::Nothing)
    }

    fn requests(&mut self) -> Result<Vec<Request>, RunError> {
        Ok(self.world.borrow().requests.clone())
    }

    fn events(&mut self) -> Result<Vec<Event>, RunError> {
        Ok(std::mem::take(&mut self.world.borrow_mut().pending_events))
    }

    fn lost_name(&mut self, names: &[(Name, Token)]) -> Result<Option<Name>, RunError> {
        Ok(names.first().filter(|_| self.world.borrow().names_lost).map(|(name, _)| name.clone()))
    }

    fn finish(&mut self, schedule: &mut Schedule, end: Option<RunEnd>) -> Result<(), RunError> {
        self.write()?;
        assert!(schedule.facts().is_empty(), "a run ends with facts that are not stored");
        let mut world = self.world.borrow_mut();
        world.synced = world.facts.len();
        world.ended = Some(end);
        Ok(())
    }
}

pub(super) struct FakeAttempts {
    world: Shared,
    /// Tells how an order ends.
    script: Box<dyn FnMut(OrderId) -> Script>,
    prepared: Vec<OrderId>,
    running: Vec<OrderId>,
    /// What happens, and when, in seconds.
    pending: Vec<(u64, News)>,
    outside: VecDeque<(u64, Outside)>,
}

impl FakeAttempts {
    fn end(&mut self, at: u64, id: OrderId, exit: Exit) {
        self.pending.push((at, News::Report(Report::Ended { id, ended: Ended::from(exit) })));
    }

    fn begin(&mut self, id: OrderId) {
        let now = self.world.borrow().seconds();
        match ((self.script)(id), id) {
            (Script::Late, _) => self.pending.push((now, News::Report(Report::Late(id)))),
            (script, _) => {
                let mut world = self.world.borrow_mut();
                world.check_start(id);
                world.see(Seen::Start(id));
                drop(world);
                self.running.push(id);
                self.run(now, id, script);
            }
        }
    }

    fn run(&mut self, now: u64, id: OrderId, script: Script) {
        match (script, id) {
            (Script::Exit(after, code), _) => self.end(now + after, id, Exit::Code(code)),
            (Script::Lost(after), _) => {
                let why = "its worker is gone".to_owned();
                self.pending.push((now + after, News::Report(Report::Lost { id, why })));
            }
            (Script::Check(result), OrderId::Check { work, round }) => {
                let end = CheckEnd::Result(result);
                self.pending.push((now, News::Report(Report::Checked { work, round, end })));
            }
            (Script::Never | Script::Late, _) => {}
            (script, id) => panic!("{id:?} cannot end like {script:?}"),
        }
    }

    /// Takes what has happened by now.
    fn take(&mut self) -> Vec<News> {
        let now = self.world.borrow().seconds();
        let (ready, later) =
            std::mem::take(&mut self.pending).into_iter().partition(|(at, _)| *at <= now);
        self.pending = later;
        let mut news: Vec<_> = Vec::<(u64, News)>::into_iter(ready).map(|(_, news)| news).collect();
        while let Some((_, outside)) = self.outside.pop_front_if(|(at, _)| *at <= now) {
            news.push(self.happen(outside));
        }
        for one in &news {
            if let News::Report(Report::Ended { id, .. } | Report::Lost { id, .. }) = one {
                self.running.retain(|running| running != id);
            }
            if let News::Report(Report::Checked { work, round, .. }) = one {
                let id = OrderId::Check { work: *work, round: *round };
                self.running.retain(|running| *running != id);
            }
        }
        news
    }

    fn happen(&mut self, outside: Outside) -> News {
        let mut world = self.world.borrow_mut();
        match outside {
            Outside::Signal(signal) => News::Signal(signal),
            Outside::Request(text) => {
                let number = world.requests.len() as u64 + 1;
                world.requests.push(Request { number, text: text.to_owned() });
                News::Wakeup
            }
            Outside::Event(name) => {
                let number = world.pending_events.len() as u64 + 1;
                let (name, at_ms) = (name.to_owned(), 0);
                world.pending_events.push(Event { number, name, at_ms });
                News::Wakeup
            }
        }
    }
}

impl Attempts for FakeAttempts {
    fn prepare(&mut self, order: Order) {
        match order.command {
            Ok(_) => self.prepared.push(order.id),
            Err(unresolved) => {
                let flaw = Some(unresolved.to_string());
                let ended = Ended { flaw, ..Exit::Code(126).into() };
                let now = self.world.borrow().seconds();
                self.pending.push((now, News::Report(Report::Ended { id: order.id, ended })));
            }
        }
    }

    fn start_prepared(&mut self) -> Result<(), RunError> {
        std::mem::take(&mut self.prepared).into_iter().for_each(|id| self.begin(id));
        Ok(())
    }

    fn stop(&mut self, id: OrderId, mode: StopMode) -> Result<(), RunError> {
        if !self.running.contains(&id) {
            return Ok(());
        }
        self.world.borrow_mut().see(Seen::Stop(id, mode));
        let of_it = |news: &News| match news {
            News::Report(Report::Ended { id: of, .. } | Report::Lost { id: of, .. }) => *of == id,
            _ => false,
        };
        self.pending.retain(|(_, news)| !of_it(news));
        let now = self.world.borrow().seconds();
        match (id, mode) {
            (OrderId::Check { work, round }, _) => {
                let end = CheckEnd::Stopped;
                self.pending.push((now, News::Report(Report::Checked { work, round, end })));
            }
            (_, StopMode::Kill) => self.end(now, id, Exit::Signal(9)),
            (_, StopMode::Ask { .. }) => self.end(now, id, Exit::Signal(15)),
            (_, StopMode::Finish { grace }) => {
                self.end(now + grace.as_secs(), id, Exit::Signal(9));
            }
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<News>, RunError> {
        let now = self.world.borrow().clock.load(Ordering::Relaxed);
        let pending = self.pending.iter().map(|(at, _)| *at);
        let next = pending.chain(self.outside.front().map(|(at, _)| *at)).min();
        let next = next.map(|at| (BEGIN + at * 1_000_000_000).max(now));
        let timeout =
            timeout.map(|timeout| now + u64::try_from(timeout.as_nanos()).expect("not for ever"));
        let until = next.into_iter().chain(timeout).min();
        let until = until.expect("the run waits for something that never happens");
        self.world.borrow().clock.store(until, Ordering::Relaxed);
        Ok(self.take())
    }

    fn watch(&mut self, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), RunError> {
        // A check that was stopped may be on its way to its end.
        self.running.retain(|id| !matches!(id, OrderId::Check { .. }));
        assert!(self.running.is_empty(), "{:?} would be killed at the end", self.running);
        Ok(())
    }
}

/// A run of a workflow, with what happens to it from outside.
pub(super) struct Case {
    text: String,
    outside: Vec<(u64, Outside)>,
    fails_at: Option<usize>,
    names_lost: bool,
}

/// What became of a run.
pub(super) struct Told {
    pub(super) end: Result<End, RunError>,
    pub(super) world: World,
}

impl Case {
    pub(super) fn of(text: &str) -> Self {
        Self { text: text.to_owned(), outside: Vec::new(), fails_at: None, names_lost: false }
    }

    /// Has something happen after so many seconds.
    pub(super) fn at(mut self, seconds: u64, outside: Outside) -> Self {
        self.outside.push((seconds, outside));
        self
    }

    /// Has the journal fail when it is written for the `n`th time.
    pub(super) fn failing_at(mut self, n: usize) -> Self {
        self.fails_at = Some(n);
        self
    }

    /// Has other processes take the names of the steps.
    pub(super) fn losing_names(mut self) -> Self {
        self.names_lost = true;
        self
    }

    /// Leads the run to its end, with orders that end as `script` says.
    pub(super) fn lead(self, script: impl FnMut(OrderId) -> Script + 'static) -> Told {
        let clock = Arc::new(AtomicU64::new(BEGIN));
        let plan = windlass_workflow::parse("flow.toml", &self.text).expect("nothing is wrong");
        let plan = plan.bind([]).expect("it has no parameters");
        let mut schedule = Schedule::with_clock(plan, Clock::manual(&clock));
        schedule.submit_all();
        let facts = schedule.take_facts();
        let after = |step: &windlass_workflow::Step| {
            step.after.iter().map(|edge| WorkId::from_index(edge.step)).collect()
        };
        let after = schedule.plan().steps.iter().map(after).collect();
        let world = World { clock, synced: facts.len(), facts, after, ..World::default() };
        let world = Rc::new(RefCell::new(World { names_lost: self.names_lost, ..world }));
        let identity =
            RunIdentity::new("1", Path::new("/nowhere"), Path::new("/nowhere"), Token(1));
        let journal = FakeJournal {
            world: Rc::clone(&world),
            records: Vec::new(),
            fails_at: self.fails_at,
            failed: false,
        };
        let attempts = FakeAttempts {
            world: Rc::clone(&world),
            script: Box::new(script),
            prepared: Vec::new(),
            running: Vec::new(),
            pending: Vec::new(),
            outside: self.outside.into(),
        };
        let steps: Vec<_> = schedule.plan().steps.iter().map(|step| step.name.clone()).collect();
        let mut run = RunLoop::new(RunState::new(schedule, identity), journal, attempts);
        let shown = Rc::clone(&world);
        let end = run.run(&mut |update| {
            let mut world = shown.borrow_mut();
            let seen = match update {
                Update::Changed(change) => {
                    let place = steps.iter().position(|step| step == change.step);
                    let work = WorkId::from_index(place.expect("it is one of its steps"));
                    world.check_change(change, work);
                    Seen::Changed(change.step.to_owned(), change.state, change.attempt)
                }
                Update::Waits { step, what, .. } => {
                    let what = what.lines().next().unwrap_or_default();
                    Seen::Waits((*step).to_owned(), what.to_owned())
                }
                Update::Notice(what) => Seen::Notice((*what).to_owned()),
                Update::Stopping => Seen::Stopping,
            };
            world.see(seen);
        });
        drop(run);
        Told { end, world: world.take() }
    }
}

impl Told {
    /// Returns everything that was started, as (second, order).
    pub(super) fn starts(&self) -> Vec<(u64, OrderId)> {
        let start = |(at, seen): &(u64, Seen)| match seen {
            Seen::Start(id) => Some((*at, *id)),
            _ => None,
        };
        self.world.seen.iter().filter_map(start).collect()
    }
}

/// The command of an attempt.
pub(super) fn command(work: usize, attempt: u32) -> OrderId {
    OrderId::Command(Grant { work: WorkId::from_index(work), attempt })
}

/// The `finally` of an attempt.
pub(super) fn finally(work: usize, attempt: u32) -> OrderId {
    OrderId::Finally(Grant { work: WorkId::from_index(work), attempt })
}

/// A check of a step.
pub(super) fn check(work: usize, round: u64) -> OrderId {
    OrderId::Check { work: WorkId::from_index(work), round }
}

/// The result of a check that does not hold yet.
pub(super) fn not_yet() -> Script {
    Script::Check(CheckResult::NotYet(NotYet::Exit { code: 1, said: "not there".to_owned() }))
}

/// The result of a check that holds.
pub(super) fn passed() -> Script {
    Script::Check(CheckResult::Passed)
}

//! Attempts without processes.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_core::WorkId;
use windlass_store::{Decision, Event};

use super::super::super::RunError;
use super::super::super::attempts::{Attempts, CheckEnd, News, Order, OrderId, Report, StopMode};
use super::super::super::journal::Request;
use super::world::{BEGIN, Seen, Shared};
use crate::ended::{Ended, Exit};
use crate::guard::CheckResult;

/// How an order ends.
#[derive(Clone, Debug)]
pub(in crate::coordinator::tests) enum Script {
    /// It exits with this code after this many seconds.
    Exit(u64, i32),
    /// Only when it is stopped.
    Never,
    /// It is lost after this many seconds.
    Lost(u64),
    /// It could not be started in time.
    Late,
    /// A check that has this result at once.
    Check(CheckResult),
}

/// Something from outside.
#[derive(Clone, Copy, Debug)]
pub(in crate::coordinator::tests) enum Outside {
    Signal(i32),
    Request(&'static str),
    /// About a guard of a step, for its first attempt: the verdict, the step's place and the guard.
    Decision(&'static str, usize, &'static str),
    Event(&'static str),
}

/// Attempts without processes, which end as a script says.
pub(in crate::coordinator::tests) struct FakeAttempts {
    pub(super) world: Shared,
    /// Tells how an order ends.
    pub(super) script: Box<dyn FnMut(OrderId) -> Script>,
    pub(super) prepared: Vec<OrderId>,
    pub(super) running: Vec<OrderId>,
    /// What happens, and when, in seconds.
    pub(super) pending: Vec<(u64, News)>,
    pub(super) outside: VecDeque<(u64, Outside)>,
    /// What happens to orders that were stopped, so many seconds after they continue.
    pub(super) halted: Vec<(u64, News)>,
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
            (Script::Check(result), OrderId::Check { .. }) => {
                let end = CheckEnd::Result(result);
                self.pending.push((now, News::Report(Report::Checked { id, end })));
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
            if let News::Report(
                Report::Ended { id, .. } | Report::Lost { id, .. } | Report::Checked { id, .. },
            ) = one
            {
                self.running.retain(|running| running != id);
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
            Outside::Decision(verdict, place, guard) => {
                let (work, verdict) = (WorkId::from_index(place), verdict.to_owned());
                let (guard, attempt) = (guard.to_owned(), 1);
                let number = world.requests.len() as u64 + 1;
                let text = format!("{verdict} {place}");
                world.requests.push(Request { number, text });
                let decision = Decision { work, guard, attempt, verdict, uid: 0, at_ms: 0 };
                world.decisions.push(decision);
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
                let flaw = Some(unresolved);
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

    fn set_limit(&mut self, _: OrderId, _: Option<Duration>) {
        unreachable!("only a worker's attempts get another time limit");
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
        let now = self.world.borrow().seconds();
        let of_order = self.pending.extract_if(.., |(_, news)| of_it(news));
        match (id, mode) {
            (_, StopMode::Halt) => {
                self.halted.extend(of_order.map(|(at, news)| (at - now, news)));
                return Ok(());
            }
            (_, StopMode::Continue) => {
                drop(of_order);
                let continued = self.halted.extract_if(.., |(_, news)| of_it(news));
                self.pending.extend(continued.map(|(left, news)| (now + left, news)));
                return Ok(());
            }
            _ => drop(of_order),
        }
        self.halted.retain(|(_, news)| !of_it(news));
        match (id, mode) {
            (OrderId::Check { .. }, _) => {
                let end = CheckEnd::Stopped;
                self.pending.push((now, News::Report(Report::Checked { id, end })));
            }
            (_, StopMode::Kill) => self.end(now, id, Exit::Signal(9)),
            (_, StopMode::Ask { .. }) => self.end(now, id, Exit::Signal(15)),
            (_, StopMode::Finish { grace }) => {
                self.end(now + grace.as_secs(), id, Exit::Signal(9));
            }
            (_, StopMode::Halt | StopMode::Continue) => unreachable!("they end nothing"),
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

    fn is_idle(&self) -> bool {
        self.running.iter().all(|id| matches!(id, OrderId::Check { .. }))
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

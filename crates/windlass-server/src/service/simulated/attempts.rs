//! The children of a worker, which no kernel knows.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use signal_hook::consts::SIGTERM;
use windlass_core::Timestamp;
use windlass_store::StoreError;

use super::connection::KILLED;
use super::machine::Child;
use super::world::World;
use crate::coordinator::RunError;
use crate::coordinator::attempts::{
    Attempts, CheckEnd, News, Order, OrderKey as _, OrderKind, Report, StopMode,
};
use crate::ended::{Ended, Exit};
use crate::guard::CheckResult;
use crate::service::duty::OrderToken;

/// What a worker executes, as children of the simulated machine.
pub(super) struct SimulatedAttempts {
    pub(super) world: Weak<World>,
    pub(super) pid: u32,
    /// The tag of the worker.
    pub(super) tag: String,
    pub(super) prepared: Vec<Order<OrderToken>>,
    pub(super) running: BTreeMap<u64, OrderToken>,
    pub(super) reports: Vec<Report<OrderToken>>,
}

impl SimulatedAttempts {
    pub(super) fn new(world: &Arc<World>, pid: u32, tag: &str) -> Self {
        let (prepared, reports) = (Vec::new(), Vec::new());
        let (world, running) = (Arc::downgrade(world), BTreeMap::new());
        Self { world, pid, tag: tag.to_owned(), prepared, running, reports }
    }

    fn world(&self) -> Arc<World> {
        self.world.upgrade().expect("it lasts longer than its processes")
    }

    fn start(&mut self, order: Order<OrderToken>) {
        // As the fence does, which each process asks.
        if !self.world().has_life(self.pid) {
            self.world().count("fenced starts");
            let why = "its worker's lease is over".to_owned();
            return self.reports.push(Report::Lost { id: order.id, why });
        }
        let (world, id) = (self.world(), order.id);
        let now = world.machine.at();
        if let Err(unresolved) = order.command {
            let ended = Ended { flaw: Some(unresolved), ..Exit::Code(126).into() };
            return self.reports.push(Report::Ended { id, ended });
        }
        // Time stands still while a worker looks at an order, which it does not elsewhere.
        if order.start_by.is_some_and(|by| Timestamp::from_nanos(now) >= by) {
            world.on_late(id.token);
            return self.reports.push(Report::Late(id));
        }
        let (tags, token, kind) = ([self.tag.clone(), order.tag], id.token, id.kind());
        let (holds, ends, exit) = (order.start_by.is_some(), u64::MAX, Exit::Code(0));
        let child = Child { parent: self.pid, tags, token, kind, holds, ends, exit };
        world.start_child(child);
        self.running.insert(id.token, id);
    }
}

impl Attempts<OrderToken> for SimulatedAttempts {
    fn prepare(&mut self, order: Order<OrderToken>) {
        self.prepared.push(order);
    }

    fn start_prepared(&mut self) -> Result<(), RunError> {
        std::mem::take(&mut self.prepared).into_iter().for_each(|order| self.start(order));
        Ok(())
    }

    fn stop(&mut self, id: OrderToken, mode: StopMode) -> Result<(), RunError> {
        let machine = &self.world().machine;
        let (after, signal) = match mode {
            StopMode::Kill => (0, 9),
            // Some processes take their time.
            StopMode::Ask { grace } => (machine.within(0..nanos(grace).max(1)), SIGTERM),
            StopMode::Finish { grace } => (nanos(grace), 9),
            // The children end when they would have ended, as those do that end just before they are stopped.
            StopMode::Halt | StopMode::Continue => return Ok(()),
        };
        let ends = machine.at() + after;
        machine.signal_children(ends, signal, |child| child.token == id.token);
        Ok(())
    }

    fn set_limit(&mut self, id: OrderToken, left: Option<Duration>) {
        let machine = &self.world().machine;
        if let Some(left) = left {
            let ends = machine.at() + nanos(left);
            machine.signal_children(ends, SIGTERM, |child| child.token == id.token);
        }
    }

    fn wait(&mut self, _: Option<Duration>) -> Result<Vec<News<OrderToken>>, RunError> {
        let world = self.world();
        if world.machine.is_gone(self.pid) {
            return Err(StoreError::Unanswered { why: KILLED.to_owned() }.into());
        }
        // As its guardian tells, whom a heartbeat has told.
        if !world.has_life(self.pid) {
            world.count("lives over");
            return Ok(vec![News::LifeOver]);
        }
        let mut news: Vec<_> = self.reports.drain(..).map(News::Report).collect();
        let at = world.machine.at();
        for child in world.machine.children() {
            if child.ends > at || child.parent != self.pid {
                continue;
            }
            let Some(id) = self.running.remove(&child.token) else { continue };
            // Its worker notes it at once, and nothing can come between.
            world.note_end(child.token);
            let report = match (child.kind, child.exit) {
                // No process kills a check but its worker, when it is to stop.
                (OrderKind::Check, Exit::Signal(_)) => {
                    Report::Checked { id, end: CheckEnd::Stopped }
                }
                (OrderKind::Check, _) => {
                    Report::Checked { id, end: CheckEnd::Result(CheckResult::Passed) }
                }
                (_, exit) => Report::Ended { id, ended: exit.into() },
            };
            news.push(News::Report(report));
        }
        news.extend(world.take_signal(self.pid).then_some(News::Signal(SIGTERM)));
        Ok(news)
    }

    fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    fn watch(&mut self, _: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), RunError> {
        let machine = &self.world().machine;
        machine.signal_children(machine.at(), 9, |child| child.parent == self.pid);
        Ok(())
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).expect("it is not that long")
}

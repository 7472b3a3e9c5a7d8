//! A journal and attempts without a store and without processes, in virtual time.
//!
//! Both write what they see to one [`World`], which also holds the clock: a wait moves it to the next
//! thing that happens. The world checks with every start and with everything shown that the journal
//! knows of it.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use windlass_core::{Grant, Token, WorkId};
use windlass_store::AttemptEnd;

use super::super::attempts::OrderId;
use super::super::identity::RunIdentity;
use super::super::run_loop::RunLoop;
use super::super::state::RunState;
use super::super::{End, RunError, Update};
use crate::clock::Clock;
use crate::guard::{CheckResult, NotYet};
use crate::schedule::Schedule;

mod attempts;
mod journal;
mod world;

use self::attempts::FakeAttempts;
pub(super) use self::attempts::{Outside, Script};
use self::journal::FakeJournal;
use self::world::BEGIN;
pub(super) use self::world::{Seen, World};

/// A run of a workflow, with what happens to it from outside.
pub(super) struct Case {
    text: String,
    outside: Vec<(u64, Outside)>,
    fails_at: Option<usize>,
    names_lost: bool,
    stall: Option<(u64, u64)>,
}

/// The record of a run.
pub(super) struct Told {
    pub(super) end: Result<End, RunError>,
    pub(super) world: World,
}

impl Case {
    pub(super) fn of(text: &str) -> Self {
        let (outside, fails_at, names_lost, stall) = (Vec::new(), None, false, None);
        Self { text: text.to_owned(), outside, fails_at, names_lost, stall }
    }

    /// Adds an event from outside after this many seconds.
    pub(super) fn at(mut self, seconds: u64, outside: Outside) -> Self {
        self.outside.push((seconds, outside));
        self
    }

    /// Has the journal fail when it is written for the `n`th time.
    pub(super) fn failing_at(mut self, n: usize) -> Self {
        self.fails_at = Some(n);
        self
    }

    /// Has another process keep the run from writing after `from` seconds, for `seconds`.
    pub(super) fn stalled(mut self, from: u64, seconds: u64) -> Self {
        self.stall = Some((from, seconds));
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
            stall: self.stall,
        };
        let attempts = FakeAttempts {
            world: Rc::clone(&world),
            script: Box::new(script),
            prepared: Vec::new(),
            running: Vec::new(),
            pending: Vec::new(),
            outside: self.outside.into(),
            halted: Vec::new(),
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

    /// Returns the records of attempts in the order in which they were committed, as (attempt, end).
    pub(super) fn ends(&self) -> Vec<(u32, AttemptEnd)> {
        self.world.attempts.iter().map(|(_, attempt, end)| (*attempt, *end)).collect()
    }
}

/// Returns the id of the command of an attempt.
pub(super) fn command(work: usize, attempt: u32) -> OrderId {
    OrderId::Command(Grant { work: WorkId::from_index(work), attempt })
}

/// Returns the id of the `finally` of an attempt.
pub(super) fn finally(work: usize, attempt: u32) -> OrderId {
    OrderId::Finally(Grant { work: WorkId::from_index(work), attempt })
}

/// Returns the id of a check of a step.
pub(super) fn check(work: usize, round: u64) -> OrderId {
    OrderId::Check { work: WorkId::from_index(work), round }
}

/// Returns the result of a check that has not passed.
pub(super) fn not_yet() -> Script {
    Script::Check(CheckResult::NotYet(NotYet::Exit { code: 1, said: "not there".to_owned() }))
}

/// Returns the result of a check that has passed.
pub(super) fn passed() -> Script {
    Script::Check(CheckResult::Passed)
}

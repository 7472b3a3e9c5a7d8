//! Everything behind a scheduler's lock: the engine, and what the driver keeps beside it.

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use windlass_core::{CostId, Engine, Grant, Input, Outcome, Phase, Transition, WorkId, WorkState};

use crate::context::AttemptCell;
use crate::crew::Crew;
use crate::entries::Entries;
use crate::entry::{Entry, Rare};
use crate::event::{Subscription, Watchers};
use crate::gate::Gate;
use crate::reference::{End, EndTeller};
use crate::report::Report;
use crate::stint::Stints;
use crate::work::Body;

pub(crate) struct State {
    pub(crate) engine: Engine,
    /// What a work costs that needs nothing but a slot.
    pub(crate) one_slot: CostId,
    pub(crate) entries: Entries<Entry>,
    pub(crate) watchers: Watchers,
    pub(crate) mode: Mode,
    pub(crate) crew: Crew,
    /// Works that runners have been given ahead; to be settled before anybody else looks.
    pub(crate) stints: Stints,
    /// Works at a gate that nobody watches yet.
    pub(crate) gates: Vec<WorkId>,
    /// How many ended works to keep.
    pub(crate) keep_ended: Option<usize>,
    /// Those that have ended, oldest first, if not all are kept.
    ended: VecDeque<WorkId>,
    /// Parents without a runner whose last child has ended.
    orphaned: Vec<WorkId>,
    /// How many visits have yet to drop what is the user's.
    pub(crate) clearing: usize,
    /// What the engine has done and everything else has yet to follow.
    pub(crate) transitions: Vec<Transition>,
}

/// Whether works are taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Open,
    /// A run was cancelled and has not returned: what comes is cancelled at once.
    Cancelling,
    /// The scheduler is gone.
    Closed,
}

/// What is to be done once the lock is free: wake-ups, so that whoever is woken finds it free.
#[derive(Default)]
pub(crate) struct Aftermath {
    /// Mostly there is nothing.
    deeds: Option<Box<Deeds>>,
    pub(crate) has_ended: bool,
    /// Whether an attempt goes on after a wait.
    pub(crate) has_resumed: bool,
}

#[derive(Default)]
struct Deeds {
    stopped: Vec<Arc<AttemptCell>>,
    bells: Vec<Arc<AttemptCell>>,
    ends: Vec<(tokio::sync::oneshot::Sender<End>, End)>,
    /// The `tracing` events about what has happened.
    reports: Vec<Report>,
    /// What is the user's is dropped where its destructor may do anything.
    rubbish: Vec<Rubbish>,
}

#[expect(dead_code, reason = "they are kept only to be dropped later")]
pub(crate) enum Rubbish {
    Gate(Gate),
    Bodies(Vec<Body>),
    Entry(Option<Box<Entry>>),
}

impl Rubbish {
    /// A destructor that panics has told of it; nobody else has to suffer.
    pub(crate) fn throw_out(self) {
        match self {
            Self::Bodies(bodies) => drop_each(bodies),
            other => _ = catch_unwind(AssertUnwindSafe(|| drop(other))),
        }
    }
}

/// Drops them one by one, whichever of them panics.
fn drop_each(bodies: Vec<Body>) {
    let mut bodies = bodies.into_iter();
    while catch_unwind(AssertUnwindSafe(|| bodies.by_ref().for_each(drop))).is_err() {}
}

impl Aftermath {
    /// What is left of a work's body.
    pub(crate) fn throw_body_away(&mut self, body: Option<Body>) {
        if let Some(body) = body {
            self.throw_away(Rubbish::Bodies(vec![body]));
        }
    }

    pub(crate) fn throw_away(&mut self, rubbish: Rubbish) {
        self.deeds().rubbish.push(rubbish);
    }

    fn report(&mut self, report: Option<Report>) {
        if let Some(report) = report {
            self.deeds().reports.push(report);
        }
    }

    #[inline]
    pub(crate) fn has_deeds(&self) -> bool {
        self.deeds.is_some()
    }

    pub(crate) fn has_rubbish(&self) -> bool {
        self.deeds.as_ref().is_some_and(|deeds| !deeds.rubbish.is_empty())
    }

    fn deeds(&mut self) -> &mut Deeds {
        self.deeds.get_or_insert_default()
    }

    /// An attempt is over: whoever outlives it has nothing to wait for any more.
    pub(crate) fn release(&mut self, attempt: Option<Arc<AttemptCell>>) {
        if let Some(cell) = attempt.filter(|cell| cell.release()) {
            self.deeds().bells.push(cell);
        }
    }

    /// Wakes everybody; what is left is to be thrown out last, because it may do anything.
    pub(crate) fn carry_out(self) -> Vec<Rubbish> {
        self.deeds.map(|deeds| deeds.carry_out()).unwrap_or_default()
    }
}

impl Deeds {
    fn carry_out(self) -> Vec<Rubbish> {
        // Before the wake-ups, so that a run does not return before its events are emitted.
        self.reports.into_iter().for_each(Report::emit);
        self.stopped.iter().for_each(|cell| cell.stop());
        self.bells.iter().for_each(|cell| cell.ring());
        // Whoever waited may be gone.
        self.ends.into_iter().for_each(|(tell, end)| _ = tell.send(end));
        self.rubbish
    }
}

impl State {
    pub(crate) fn new(
        mut engine: Engine,
        one_slot: CostId,
        watchers: Watchers,
        keep_ended: Option<usize>,
    ) -> Self {
        engine.set_quiet(!watchers.are_there());
        Self {
            engine,
            one_slot,
            entries: Entries::new(),
            watchers,
            mode: Mode::Open,
            crew: Crew::default(),
            stints: Stints::default(),
            gates: Vec::new(),
            keep_ended,
            ended: VecDeque::new(),
            orphaned: Vec::new(),
            clearing: 0,
            transitions: Vec::new(),
        }
    }

    pub(crate) fn entry(&mut self, work: WorkId) -> &mut Entry {
        self.entries.get_mut(work).expect("every work that the engine knows has an entry")
    }

    /// Has somebody told of everything from now on.
    pub(crate) fn subscribe(&mut self) -> Subscription {
        self.engine.set_quiet(false);
        self.watchers.subscribe()
    }

    /// Whether it matters when a work comes in: somebody is told, or something else may come first.
    pub(crate) fn minds_the_time(&self) -> bool {
        self.watchers.are_there() || self.engine.minds_the_time()
    }

    /// Keeps everything in step with what the engine has done.
    pub(crate) fn follow(&mut self, transitions: &[Transition], after: &mut Aftermath) {
        let first = self.engine.transitions() - transitions.len() as u64 + 1;
        for (number, transition) in (first..).zip(transitions) {
            // Children whose parent is tried again are forgotten in the same breath.
            let Some(entry) = self.entries.get_mut(transition.work) else { continue };
            if self.watchers.are_there() {
                self.watchers.tell(transition, number, &mut entry.name);
            }
            match transition.to {
                Phase::Gated => self.gates.push(transition.work),
                Phase::Suspended | Phase::Running
                    if transition.from == Some(WorkState::Running) =>
                {
                    hold(entry, transition, after);
                }
                Phase::Cancelling { .. } => {
                    after.deeds().stopped.extend(entry.attempt.clone());
                }
                Phase::Delayed { .. } => after.report(Report::of(transition, entry)),
                end if end.state().is_terminal() => self.close(transition, after),
                _ => {}
            }
        }
    }

    /// A work has ended: whoever waits for it is told, and its family.
    fn close(&mut self, transition: &Transition, after: &mut Aftermath) {
        let work = transition.work;
        after.has_ended = true;
        if transition.to != Phase::Success {
            self.note_blame(transition);
        }
        let closed = self.mode == Mode::Closed;
        let entry = self.entry(work);
        after.report(Report::of(transition, entry));
        if let Some(rare) = entry.known_rare() {
            close_rare(rare, transition.to, after);
        }
        if closed {
            after.throw_body_away(entry.body.take());
        }
        self.tell_parent(work, after);
        if self.keep_ended.is_some() {
            self.ended.push_back(work);
        }
    }

    /// What is to blame for an end: what is known by now, or else whatever no attempt explains.
    fn note_blame(&mut self, transition: &Transition) {
        let known = self.entry(transition.work).last_error();
        let too_late =
            transition.to == Phase::Failed && transition.from == Some(WorkState::Pending);
        let blame = match (known, transition.attempt) {
            (Some(error), 1..) if too_late => {
                let next = transition.attempt.saturating_add(1);
                Some(format!("{error}; its deadline passed before attempt {next}"))
            }
            (None, _) if too_late => Some("its deadline passed before it began".to_owned()),
            (None, _) if transition.to == Phase::Blocked => self.blocker(transition.work),
            _ => None,
        };
        if blame.is_some() {
            self.entry(transition.work).rare_mut().last_error = blame;
        }
    }

    fn blocker(&self, work: WorkId) -> Option<String> {
        let failed = |work: &WorkId| self.engine.phase(*work).is_some_and(is_failure);
        let source = self.engine.dependencies(work).map(|d| d.work).find(failed)?;
        let name = &self.entries.get(source)?.name;
        let state = self.engine.phase(source)?.state();
        Some(format!("it waits for {name:?}, which is {state}"))
    }

    fn tell_parent(&mut self, child: WorkId, after: &mut Aftermath) {
        let Some(parent) = self.engine.parent(child) else { return };
        let open = self.engine.children(parent).open();
        let failure = self.failure_of(child);
        let Some(entry) = self.entries.get_mut(parent) else { return };
        if let Some(failure) = failure {
            entry.rare_mut().failed_child.get_or_insert(failure);
        }
        if open == 0 && entry.rare().is_some_and(|rare| rare.abandoned) {
            self.orphaned.push(parent);
        }
        if let Some(cell) = &entry.attempt {
            cell.note_end_of(child);
            after.deeds().bells.push(Arc::clone(cell));
        }
    }

    /// What its parent says of a child that failed, which may be forgotten by then.
    fn failure_of(&self, child: WorkId) -> Option<String> {
        self.engine.phase(child).filter(|phase| *phase == Phase::Failed)?;
        let entry = self.entries.get(child)?;
        let why = entry.last_error().map_or("for no known reason", String::as_str);
        Some(format!("its child {:?} failed: {why}", entry.name))
    }

    /// Whether nothing has to follow from what has happened.
    #[inline]
    pub(crate) fn is_tidy(&self) -> bool {
        self.orphaned.is_empty() && self.keep_ended.is_none() && self.mode != Mode::Closed
    }

    /// The next parent without a runner that can end now.
    pub(crate) fn next_orphaned(&mut self) -> Option<Grant> {
        let work = self.orphaned.pop()?;
        let attempt = self.engine.attempts(work)?;
        Some(Grant { work, attempt })
    }

    /// The next ended work that is to be forgotten, if too many are kept.
    pub(crate) fn next_to_forget(&mut self) -> Option<WorkId> {
        let keep = self.keep_ended?;
        let metrics = self.engine.metrics();
        let ends = WorkState::ALL.into_iter().filter(|state| state.is_terminal());
        let known: usize = ends.map(|end| metrics.count(end)).sum();
        if self.ended.len() > known.saturating_mul(2).saturating_add(64) {
            // Those that were forgotten by hand are listed, too.
            self.ended.retain(|work| has_ended(&self.engine, *work));
        }
        if known <= keep {
            return None;
        }
        while let Some(work) = self.ended.pop_front() {
            if has_ended(&self.engine, work) {
                return Some(work);
            }
        }
        None
    }

    /// Works that are tried again have yet to end.
    pub(crate) fn expect_another_end(&mut self, works: &[WorkId]) {
        if !self.ended.is_empty() {
            let works: BTreeSet<_> = works.iter().collect();
            self.ended.retain(|work| !works.contains(work));
        }
        for work in works {
            if let Some(Rare { end: Some(end), .. }) = self.entry(*work).known_rare() {
                end.expect_another_end();
            }
        }
    }

    /// Lets go of what the engine has forgotten of `works`.
    pub(crate) fn drop_forgotten(&mut self, works: &[WorkId], after: &mut Aftermath) {
        for work in works.iter().filter(|work| self.engine.phase(**work).is_none()) {
            after.throw_away(Rubbish::Entry(self.entries.remove(*work).map(Box::new)));
        }
    }

    /// The news that an attempt whose runner is gone, and all its children with it, has ended.
    pub(crate) fn gone(grant: Grant) -> Input {
        Input::Finished { grant, outcome: Outcome::Cancelled }
    }
}

fn close_rare(rare: &mut Rare, end: Phase, after: &mut Aftermath) {
    let (watcher, gate) = (rare.watcher.take(), rare.gate.take());
    watcher.into_iter().for_each(|watcher| watcher.abort());
    gate.into_iter().for_each(|gate| after.throw_away(Rubbish::Gate(gate)));
    if let Some(tell) = rare.end.as_mut().and_then(EndTeller::take) {
        let (state, skipped) = (end.state(), end == Phase::Skipped);
        let end = End { state, skipped, error: rare.last_error.clone() };
        after.deeds().ends.push((tell, end));
    }
}

fn has_ended(engine: &Engine, work: WorkId) -> bool {
    engine.phase(work).is_some_and(|phase| phase.state().is_terminal())
}

fn is_failure(phase: Phase) -> bool {
    phase.state().is_failure()
}

/// The attempt waits, or goes on.
fn hold(entry: &Entry, transition: &Transition, after: &mut Aftermath) {
    if let Some(cell) = &entry.attempt {
        let holds = transition.to == Phase::Running;
        cell.set_holds(holds);
        if holds {
            after.has_resumed = true;
            after.deeds().bells.push(Arc::clone(cell));
        }
    }
}

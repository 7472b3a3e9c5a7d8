//! Everything behind a scheduler's lock: the engine, and what the driver keeps beside it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use windlass_core::{
    Column, CostId, Engine, Grant, Phase, StopReason, Timestamp, Transition, WorkId, WorkState,
};

use crate::effects::Effects;
use crate::entry::{Entry, Extras};
use crate::event::Publisher;
use crate::id::Issuer;
use crate::reference::{End, EndTeller};
use crate::report::Report;
use crate::summary::Tally;

pub(crate) struct State {
    pub(crate) engine: Engine,
    pub(crate) issuer: Issuer,
    /// The cost of a work that needs nothing but a slot.
    pub(crate) one_slot: CostId,
    /// By the index of the work.
    entries: Column<Entry>,
    pub(crate) publisher: Publisher,
    pub(crate) mode: Mode,
    pub(crate) runners: Runners,
    /// How works have ended since the last run returned.
    pub(crate) tally: Tally,
    /// Works at a gate that no task watches yet.
    pub(crate) gates: Vec<WorkId>,
    /// How many ended works to keep.
    pub(crate) keep_ended: Option<usize>,
    /// Works that have ended, oldest first, if not all are kept.
    ended: VecDeque<WorkId>,
    /// Parents without a runner whose last child has ended.
    orphaned: Vec<WorkId>,
    /// How many sessions have yet to drop values of the user's, and how many gates the run has.
    pub(crate) dropping: usize,
    /// What the engine has done and the entries have yet to follow. Empty between calls; kept for its memory.
    transitions: Vec<Transition>,
    #[cfg(feature = "metrics")]
    meter: crate::meter::Meter,
}

/// Whether works are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Open,
    /// A run was cancelled and has not returned: a new work is cancelled at once.
    Cancelling,
    /// The scheduler is gone.
    Closed,
}

/// The tasks that poll bodies, one at a time each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Runners {
    /// The run that they belong to. Those of an earlier run may be left, on another runtime even.
    run: u64,
    /// How many of this run poll a body that has not waited yet, or are about to.
    polling: usize,
    /// How many may do so at once: as many as the runtime has threads; none while there is no run.
    threads: usize,
    /// Whether no attempt may begin until the engine is called again.
    is_idle: bool,
    /// When the run looks again by itself.
    pub(crate) alarm: Option<Timestamp>,
}

impl Runners {
    /// A run begins on a runtime with so many threads.
    pub(crate) fn begin_run(&mut self, run: u64, threads: usize) {
        *self = Self { run, polling: 0, threads, is_idle: false, alarm: None };
    }

    /// The run is over, and nothing more begins.
    pub(crate) fn end_run(&mut self) {
        self.threads = 0;
    }

    pub(crate) fn is_running(&self) -> bool {
        self.threads > 0
    }

    /// The engine is called, so that an attempt may be able to begin.
    pub(crate) fn expect_work(&mut self) {
        self.is_idle = false;
    }

    /// The engine has no attempt to begin.
    pub(crate) fn find_none(&mut self) {
        self.is_idle = true;
    }

    /// Returns whether it is worth asking the engine for an attempt.
    pub(crate) fn may_find_work(&self) -> bool {
        self.is_running() && !self.is_idle
    }

    /// A runner is about to poll a body. Returns its run.
    pub(crate) fn begin_polling(&mut self) -> u64 {
        self.polling += 1;
        self.run
    }

    /// A runner of `run` polls its body no longer, or the body waits.
    pub(crate) fn end_polling(&mut self, run: u64) {
        self.polling -= usize::from(run == self.run);
    }

    /// Returns whether a thread may be without a runner.
    pub(crate) fn may_start_one(&self) -> bool {
        self.polling < self.threads
    }
}

impl State {
    pub(crate) fn new(
        engine: Engine,
        one_slot: CostId,
        publisher: Publisher,
        keep_ended: Option<usize>,
    ) -> Self {
        Self {
            engine,
            issuer: Issuer::new(),
            one_slot,
            entries: Column::default(),
            publisher,
            mode: Mode::Open,
            runners: Runners::default(),
            tally: Tally::default(),
            gates: Vec::new(),
            keep_ended,
            ended: VecDeque::new(),
            orphaned: Vec::new(),
            dropping: 0,
            transitions: Vec::new(),
            #[cfg(feature = "metrics")]
            meter: crate::meter::Meter::default(),
        }
    }

    /// Splits the state into the engine and the list for its transitions.
    pub(crate) fn engine_parts(&mut self) -> (&mut Engine, &mut Vec<Transition>) {
        (&mut self.engine, &mut self.transitions)
    }

    /// Returns how many works are known.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn entry(&self, work: WorkId) -> Option<&Entry> {
        self.entries.get(work.index())
    }

    pub(crate) fn entry_mut(&mut self, work: WorkId) -> Option<&mut Entry> {
        self.entries.get_mut(work.index())
    }

    /// Returns the entry of a work that the engine knows.
    pub(crate) fn known(&mut self, work: WorkId) -> &mut Entry {
        &mut self.entries[work.index()]
    }

    /// Adds the entry of the work that the engine has just accepted.
    #[inline]
    pub(crate) fn add(&mut self, work: WorkId, entry: Entry) {
        let index = self.entries.push(entry);
        assert_eq!(index, work.index(), "works are numbered one by one");
    }

    pub(crate) fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.entries.values_mut()
    }

    /// Keeps everything in step with what the engine has done.
    #[inline]
    pub(crate) fn follow(&mut self, effects: &mut Effects) {
        let mut next = 0;
        while let Some(&transition) = self.transitions.get(next) {
            self.follow_one(&transition, effects);
            next += 1;
        }
        self.transitions.clear();
    }

    #[inline]
    fn follow_one(&mut self, transition: &Transition, effects: &mut Effects) {
        #[cfg(feature = "metrics")]
        self.meter.follow(transition, effects);
        let (entries, index) = (&mut self.entries, transition.work.index());
        self.publisher.record(self.issuer, transition, || Some(&mut entries.get_mut(index)?.name));
        // Children whose parent is tried again may be forgotten already.
        let attempt = || self.entries.get(index)?.attempt().cloned();
        match transition.to {
            Phase::Gated => self.gates.push(transition.work),
            Phase::Suspended => attempt().into_iter().for_each(|own| own.set_holds(false)),
            Phase::Running if transition.from == Some(WorkState::Running) => {
                if let Some(attempt) = attempt() {
                    attempt.set_holds(true);
                    effects.wake(attempt);
                }
            }
            Phase::Cancelling { why, .. } => {
                if let Some(attempt) = attempt() {
                    if why != StopReason::Cancel {
                        attempt.note_out_of_time();
                    }
                    effects.stop(attempt);
                }
            }
            Phase::Delayed { .. } => self.report(transition, effects),
            end if end.state().is_terminal() => self.close(transition, effects),
            _ => {}
        }
    }

    fn report(&self, transition: &Transition, effects: &mut Effects) {
        effects.report(self.entry(transition.work).and_then(|entry| Report::of(transition, entry)));
    }

    /// Records the end of a work for its waiters and its parent.
    #[inline]
    fn close(&mut self, transition: &Transition, effects: &mut Effects) {
        let work = transition.work;
        effects.has_ended = true;
        if transition.to != Phase::Success {
            self.note_cause(transition);
        }
        let closed = self.mode == Mode::Closed;
        let Some(entry) = self.entries.get_mut(work.index()) else { return };
        if self.tally.count(work, transition.to) {
            self.tally.describe(entry.as_failure(self.issuer.id(work)));
        }
        effects.report(Report::of(transition, entry));
        if let Some(extras) = entry.known_extras() {
            close_extras(extras, transition.to, effects);
        }
        if closed && let Some(body) = entry.take_body() {
            effects.drop_later(body);
        }
        if let Some(parent) = self.engine.parent(work) {
            self.tell_parent(parent, work, effects);
        }
        if self.keep_ended.is_some() {
            self.ended.push_back(work);
        }
    }

    /// Notes the cause of an end that no attempt explains.
    fn note_cause(&mut self, transition: &Transition) {
        let Some(entry) = self.entry(transition.work) else { return };
        let known = entry.last_error();
        let too_late =
            transition.to == Phase::Failed && transition.from == Some(WorkState::Pending);
        let cause = match (known, transition.attempt) {
            (Some(error), 1..) if too_late => {
                let next = transition.attempt.saturating_add(1);
                Some(format!("{error}; its deadline passed before attempt {next}"))
            }
            (None, _) if too_late => Some("its deadline passed before it began".to_owned()),
            (None, _) if transition.to == Phase::Blocked => self.blocker(transition.work),
            _ => None,
        };
        if let Some(cause) = cause {
            self.known(transition.work).extras_mut().note_error(cause);
        }
    }

    fn blocker(&self, work: WorkId) -> Option<String> {
        let failed = |work: &WorkId| {
            self.engine.phase(*work).is_some_and(|phase| phase.state().is_failure())
        };
        let source = self.engine.dependencies(work).map(|d| d.work).find(failed)?;
        let name = &self.entry(source)?.name;
        let state = self.engine.phase(source)?.state();
        Some(format!("it waits for {name:?}, which is {state}"))
    }

    fn tell_parent(&mut self, parent: WorkId, child: WorkId, effects: &mut Effects) {
        let open = self.engine.children(parent).open();
        let has_failed = self.engine.phase(child) == Some(Phase::Failed);
        let failed = self.entry_mut(child).filter(|_| has_failed).map(Entry::as_failed_child);
        let Some(entry) = self.entries.get_mut(parent.index()) else { return };
        if let Some(failed) = failed {
            entry.extras_mut().failed_child.get_or_insert(failed);
        }
        if open == 0 && entry.extras().is_some_and(|extras| extras.abandoned) {
            self.orphaned.push(parent);
        }
        if let Some(attempt) = entry.attempt() {
            attempt.note_end_of(child);
            effects.wake(Arc::clone(attempt));
        }
    }

    /// Returns whether nothing has to follow from what has happened.
    #[inline]
    pub(crate) fn is_tidy(&self) -> bool {
        self.orphaned.is_empty() && self.keep_ended.is_none() && self.mode != Mode::Closed
    }

    /// Returns the next parent without a runner that can end now.
    pub(crate) fn next_orphaned(&mut self) -> Option<Grant> {
        let work = self.orphaned.pop()?;
        let attempt = self.engine.attempts(work)?;
        Some(Grant { work, attempt })
    }

    /// Returns the next ended work to be forgotten, if too many are kept.
    pub(crate) fn next_to_forget(&mut self) -> Option<WorkId> {
        let keep = self.keep_ended?;
        let metrics = self.engine.metrics();
        let ends = WorkState::ALL.into_iter().filter(|state| state.is_terminal());
        let known: usize = ends.map(|end| metrics.count(end)).sum();
        if self.ended.len() > known.saturating_mul(2).saturating_add(64) {
            // Works that users have forgotten themselves are listed, too.
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
            self.tally.withdraw(*work);
            if let Some(Extras { end: Some(end), .. }) = self.known(*work).known_extras() {
                end.expect_another_end();
            }
        }
    }

    /// Removes the entries of a family whose parent will run again, and their ends from the summary.
    pub(crate) fn drop_family(&mut self, works: &[WorkId], effects: &mut Effects) {
        for work in works.iter().filter(|work| self.engine.phase(**work).is_none()) {
            self.tally.withdraw(*work);
        }
        self.drop_forgotten(works, effects);
    }

    /// Removes the entries of those of `works` that the engine has forgotten.
    pub(crate) fn drop_forgotten(&mut self, works: &[WorkId], effects: &mut Effects) {
        for work in works.iter().filter(|work| self.engine.phase(**work).is_none()) {
            self.tally.forget(*work);
            if let Some(entry) = self.entries.take(work.index()) {
                effects.drop_later(Box::new(entry));
            }
        }
    }
}

fn close_extras(extras: &mut Extras, end: Phase, effects: &mut Effects) {
    if let Some(watcher) = extras.gate_watcher.take() {
        watcher.abort();
    }
    if let Some(gate) = extras.gate.take() {
        effects.drop_later(Box::new(gate));
    }
    if let Some(waiter) = extras.end.as_mut().and_then(EndTeller::take) {
        let (state, skipped) = (end.state(), end == Phase::Skipped);
        let end = End::new(state, skipped, extras.last_error.as_ref());
        effects.send_end(waiter, end);
    }
}

fn has_ended(engine: &Engine, work: WorkId) -> bool {
    engine.phase(work).is_some_and(|phase| phase.state().is_terminal())
}

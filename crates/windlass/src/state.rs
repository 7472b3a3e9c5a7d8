//! Everything behind a scheduler's lock: the engine, and what the driver keeps beside it.

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use windlass_core::{
    CostId, Engine, Grant, Input, Outcome, Phase, Timestamp, Transition, WorkId, WorkState,
};

use crate::context::AttemptCell;
use crate::entries::Entries;
use crate::entry::Entry;
use crate::event::Watchers;
use crate::gate::Gate;
use crate::reference::End;
use crate::work::Work;

pub(crate) struct State {
    pub(crate) engine: Engine,
    /// What a work costs that needs nothing but a slot.
    pub(crate) one_slot: CostId,
    pub(crate) entries: Entries<Entry>,
    pub(crate) watchers: Watchers,
    pub(crate) mode: Mode,
    pub(crate) crew: Crew,
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
    /// Kept for the next visit, so that it need not be made anew.
    pub(crate) scratch: Vec<Transition>,
}

/// Those who run bodies, one at a time each.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crew {
    /// How many are polling a body that has not waited yet, or are about to.
    pub(crate) polling: usize,
    /// How many can do so at once: as many as the runtime has threads.
    pub(crate) threads: usize,
    /// The run they belong to; those of an earlier one start nothing any more.
    pub(crate) run: u64,
    /// When the run looks again by itself.
    pub(crate) wakes_at: Option<Timestamp>,
}

impl Crew {
    /// A run begins, on a runtime with so many threads.
    pub(crate) fn begin(&mut self, threads: usize) {
        self.threads = threads;
        self.run += 1;
    }

    /// The run is over; some of its runners may go on for a while.
    pub(crate) fn end(&mut self) {
        self.run += 1;
    }

    /// Whether another runner would have a thread.
    pub(crate) fn has_room(&self) -> bool {
        self.polling < self.threads
    }
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
    stopped: Vec<Arc<AttemptCell>>,
    bells: Vec<Arc<AttemptCell>>,
    ends: Vec<(tokio::sync::oneshot::Sender<End>, End)>,
    /// What is the user's is dropped where its destructor may do anything.
    rubbish: Vec<Rubbish>,
    pub(crate) has_ended: bool,
    /// Whether an attempt goes on after a wait.
    pub(crate) has_resumed: bool,
}

#[expect(dead_code, reason = "they are kept only to be dropped later")]
pub(crate) enum Rubbish {
    Gate(Gate),
    Body(Option<Box<dyn Work>>),
    Entry(Option<Box<Entry>>),
}

impl Rubbish {
    /// A destructor that panics has told of it; nobody else has to suffer.
    pub(crate) fn throw_out(self) {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(self)));
    }
}

impl Aftermath {
    pub(crate) fn throw_away(&mut self, rubbish: Rubbish) {
        self.rubbish.push(rubbish);
    }

    pub(crate) fn has_rubbish(&self) -> bool {
        !self.rubbish.is_empty()
    }

    /// An attempt is over: whoever outlives it has nothing to wait for any more.
    pub(crate) fn release(&mut self, attempt: Option<Arc<AttemptCell>>) {
        self.bells.extend(attempt.filter(|cell| cell.release()));
    }

    /// Wakes everybody; what is left is to be thrown out last, because it may do anything.
    pub(crate) fn carry_out(self) -> Vec<Rubbish> {
        self.stopped.iter().for_each(|cell| cell.stop());
        self.bells.iter().for_each(|cell| cell.ring());
        // Whoever waited may be gone.
        self.ends.into_iter().for_each(|(tell, end)| _ = tell.send(end));
        self.rubbish
    }
}

impl State {
    pub(crate) fn new(
        engine: Engine,
        one_slot: CostId,
        watchers: Watchers,
        keep_ended: Option<usize>,
    ) -> Self {
        Self {
            engine,
            one_slot,
            entries: Entries::new(),
            watchers,
            mode: Mode::Open,
            crew: Crew::default(),
            gates: Vec::new(),
            keep_ended,
            ended: VecDeque::new(),
            orphaned: Vec::new(),
            clearing: 0,
            scratch: Vec::new(),
        }
    }

    pub(crate) fn entry(&mut self, work: WorkId) -> &mut Entry {
        self.entries.get_mut(work).expect("every work that the engine knows has an entry")
    }

    /// Keeps everything in step with what the engine has done.
    pub(crate) fn follow(&mut self, transitions: &[Transition], after: &mut Aftermath) {
        for transition in transitions {
            // Children whose parent is tried again are forgotten in the same breath.
            let Some(entry) = self.entries.get_mut(transition.work) else { continue };
            self.watchers.tell(transition, &entry.name);
            match transition.to {
                Phase::Gated => self.gates.push(transition.work),
                Phase::Suspended | Phase::Running
                    if transition.from == Some(WorkState::Running) =>
                {
                    hold(entry, transition, after);
                }
                Phase::Cancelling { .. } => {
                    after.stopped.extend(entry.attempt.clone());
                }
                end if end.state().is_terminal() => self.close(transition, after),
                _ => {}
            }
        }
    }

    /// A work has ended: whoever waits for it is told, and its family.
    fn close(&mut self, transition: &Transition, after: &mut Aftermath) {
        let work = transition.work;
        after.has_ended = true;
        let blame = self.blame(transition);
        let entry = self.entry(work);
        if let Some(watcher) = entry.watcher.take() {
            watcher.abort();
        }
        if let Some(gate) = entry.gate.take() {
            after.throw_away(Rubbish::Gate(gate));
        }
        entry.last_error = blame;
        if let Some(tell) = entry.end.take() {
            let skipped = transition.to == Phase::Skipped;
            let state = transition.to.state();
            after.ends.push((tell, End { state, skipped, error: entry.last_error.clone() }));
        }
        if self.mode == Mode::Closed {
            after.throw_away(Rubbish::Body(self.entry(work).body.take()));
        }
        self.tell_parent(work, after);
        if self.keep_ended.is_some() {
            self.ended.push_back(work);
        }
    }

    /// What is to blame for an end: what is known by now, or else whatever no attempt explains.
    fn blame(&self, transition: &Transition) -> Option<String> {
        let known = self.entries.get(transition.work).and_then(|entry| entry.last_error.clone());
        let too_late =
            transition.to == Phase::Failed && transition.from == Some(WorkState::Pending);
        match (known, transition.attempt) {
            (Some(error), 1..) if too_late => {
                let next = transition.attempt.saturating_add(1);
                Some(format!("{error}; its deadline passed before attempt {next}"))
            }
            (None, _) if too_late => Some("its deadline passed before it began".to_owned()),
            (None, _) if transition.to == Phase::Blocked => self.blocker(transition.work),
            (known, _) => known,
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
        let Some(entry) = self.entries.get_mut(parent) else { return };
        if entry.abandoned && open == 0 {
            self.orphaned.push(parent);
        }
        if let Some(cell) = &entry.attempt {
            cell.note_end_of(child);
            after.bells.push(Arc::clone(cell));
        }
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
            after.bells.push(Arc::clone(cell));
        }
    }
}

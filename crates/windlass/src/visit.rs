//! One visit to a scheduler's state: the engine does something, and everything else follows it.
//!
//! Everything in it happens at one time, under the lock, and is heard of when it is over.

use std::sync::Arc;

use windlass_core::{
    Begun, ClientId, CostId, Engine, Grant, Input, Rejected, ResourceCost, Submission, Timestamp,
    WorkId, World,
};

use crate::attempt::Attempt;
use crate::capacity::{Client, TreeGuard};
use crate::context::{AttemptCell, WorkContext};
use crate::entry::Entry;
use crate::handle::ReopenError;
use crate::relay::Note;
use crate::shared::{Shared, Succeeded, Success};
use crate::spec::SubmitError;
use crate::state::{Aftermath, Mode, State};
use crate::sync::MutexGuard;
use crate::work::Body;

mod stints;

/// One visit to the state: everything that happens in it is heard of when it is over.
pub(crate) struct Visit<'a> {
    pub(crate) state: MutexGuard<'a, State>,
    client: &'a Client,
    /// The tree of the capacity, once somebody has asked for it.
    tree: Option<TreeGuard<'a>>,
    /// The time of all that happens in it: nothing comes due between a look and what follows it.
    now: Timestamp,
    pub(crate) after: Aftermath,
    wakes: Vec<ClientId>,
    changed: bool,
    /// It is the run itself that visits, and sees to everything.
    by_the_run: bool,
    /// Somebody has asked whether the run is needed, and nothing has happened since.
    asked_for_the_run: bool,
}

/// What has to be heard of outside, now that the lock is free.
pub(crate) struct Heard {
    pub(crate) after: Aftermath,
    /// Other clients of the capacity that should look again.
    pub(crate) wakes: Vec<ClientId>,
    /// Whether the run should.
    pub(crate) changed: bool,
}

/// What a visit leaves to be done. Mostly it is so little that nothing has to be carried out of it.
pub(crate) enum Left {
    Nothing,
    /// A work has ended; nobody but those who listen to that has to hear of it.
    AnEnd,
    More(Heard),
}

impl<'a> Visit<'a> {
    #[inline]
    pub(crate) fn new(state: MutexGuard<'a, State>, client: &'a Client, now: Timestamp) -> Self {
        Self {
            state,
            client,
            tree: None,
            now,
            after: Aftermath::default(),
            wakes: Vec::new(),
            changed: false,
            by_the_run: false,
            asked_for_the_run: false,
        }
    }

    /// Frees the lock; what has to be heard of outside.
    #[inline(always)]
    pub(crate) fn leave(self) -> Left {
        let Visit { mut state, tree, after, wakes, changed, .. } = self;
        // A run that comes later begins with a look.
        let changed = changed && state.crew.is_running;
        state.clearing += usize::from(after.has_rubbish());
        drop(tree);
        drop(state);
        if changed || !wakes.is_empty() || after.has_deeds() {
            return Left::More(Heard { after, wakes, changed });
        }
        if after.has_ended { Left::AnEnd } else { Left::Nothing }
    }
}

impl Visit<'_> {
    pub(crate) fn apply(&mut self, input: Input) -> Result<(), Rejected> {
        self.engine(|engine, world| engine.apply(world, input))
    }

    /// Has the engine do something, and everything else follow it.
    pub(crate) fn engine<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let result = self.engine_alone(call);
        self.follow();
        result
    }

    /// Keeps everything in step with what the engine has done.
    #[inline]
    pub(crate) fn follow(&mut self) {
        if self.state.transitions.is_empty() {
            return;
        }
        let mut transitions = std::mem::take(&mut self.state.transitions);
        self.state.follow(&transitions, &mut self.after);
        transitions.clear();
        self.state.transitions = transitions;
    }

    /// Has the engine do something; everything else has yet to follow it.
    pub(crate) fn engine_alone<T>(
        &mut self,
        call: impl FnOnce(&mut Engine, &mut World<'_>) -> T,
    ) -> T {
        let State { engine, transitions, .. } = &mut *self.state;
        let tree = self.tree.get_or_insert_with(|| self.client.capacity.lock());
        let mut world = World {
            now: self.now,
            capacity: tree,
            facts: None,
            transitions: Some(transitions),
            wakes: &mut self.wakes,
        };
        let result = call(engine, &mut world);
        self.changed = true;
        self.asked_for_the_run = false;
        result
    }

    /// The number of a cost that can be had, unless nothing is taken in. An attempt that is over
    /// has no more children, also while the next one is under way.
    pub(crate) fn accept(
        &mut self,
        parent: Option<Grant>,
        needs: Option<&ResourceCost>,
    ) -> Result<CostId, SubmitError> {
        if self.state.mode == Mode::Closed {
            return Err(SubmitError::ShutDown);
        }
        if let Some(Grant { work: parent, attempt }) = parent
            && self.state.engine.attempts(parent) != Some(attempt)
        {
            return Err(windlass_core::SubmitError::NoParent { parent }.into());
        }
        let Some(needs) = needs else { return Ok(self.state.one_slot) };
        let tree = self.tree.get_or_insert_with(|| self.client.capacity.lock());
        Ok(self.state.engine.cost(tree, needs)?)
    }

    pub(crate) fn take_in(&mut self, submission: Submission<'_>) -> Result<WorkId, SubmitError> {
        let id = self.engine_alone(|engine, world| engine.submit(world, submission));
        id.map_err(|refused| {
            self.follow();
            refused.into()
        })
    }

    /// The engine knows the work; so do we, before anything that follows from it.
    pub(crate) fn enter(&mut self, id: WorkId, entry: Entry) -> WorkId {
        self.state.entries.insert(id, entry);
        self.follow();
        if self.state.mode == Mode::Cancelling {
            // It may have ended at once, blocked by others.
            let _ = self.apply(Input::Cancel(id));
        }
        id
    }

    pub(crate) fn forget(&mut self, work: WorkId) -> bool {
        // What time alone has changed is told while the work is still known.
        let forgotten = self.apply(Input::Tick).and_then(|()| self.apply(Input::Forget(work)));
        self.state.drop_forgotten(&[work], &mut self.after);
        forgotten.is_ok()
    }

    /// The attempt is over for the driver; its entry is ready for the next one.
    pub(crate) fn stop(&mut self, work: WorkId, mut body: Option<Body>, ended_at: Timestamp) {
        if self.state.mode == Mode::Closed {
            self.after.throw_body_away(body.take());
        }
        let attempt = self.state.entry(work).stop(body, ended_at);
        self.after.release(attempt);
    }

    /// The same for the runner of an attempt that nobody else has anything of: there is nobody to be
    /// released.
    pub(crate) fn stop_alone(
        &mut self,
        work: WorkId,
        body: Body,
        ended_at: Timestamp,
    ) -> Option<Arc<AttemptCell>> {
        self.state.entry(work).stop(Some(body), ended_at)
    }

    /// A work fails without an attempt, because its gate did.
    pub(crate) fn reject(&mut self, work: WorkId, error: String) -> Result<(), Rejected> {
        // What time alone has changed counts before the question, not between it and the deed.
        self.apply(Input::Tick)?;
        if self.state.engine.awaits_gate(work) {
            self.state.entry(work).rare_mut().last_error = Some(error);
        }
        self.apply(Input::Reject(work))
    }

    pub(crate) fn reopen(&mut self, work: WorkId) -> Result<(), ReopenError> {
        // What time alone has changed counts before the question, not between it and the deed.
        self.apply(Input::Tick)?;
        let works = self.state.engine.would_reopen(work)?;
        let body = |work: WorkId| self.state.entries.get(work)?.body.as_ref();
        let gone = |work: &&WorkId| body(**work).is_none();
        if let Some(&work) = works.iter().find(gone) {
            return Err(ReopenError::NoBody { work });
        }
        let gate = |work: WorkId| self.state.entries.get(work)?.rare()?.gate.as_ref();
        let ungated = |work: &&WorkId| self.state.engine.is_shut(**work) && gate(**work).is_none();
        if let Some(&work) = works.iter().find(ungated) {
            return Err(ReopenError::NoGate { work });
        }
        let families: Vec<_> =
            works.iter().flat_map(|work| self.state.engine.descendants(*work)).collect();
        self.state.expect_another_end(&works);
        self.apply(Input::Reopen(work))?;
        self.state.drop_forgotten(&families, &mut self.after);
        for work in works {
            // A gate that had opened is gone, so it stays open.
            let rare = self.state.entries.get(work).and_then(Entry::rare);
            let is_gone = rare.is_none_or(|rare| rare.gate.is_none());
            if is_gone && self.state.engine.awaits_gate(work) {
                self.apply(Input::Open(work))?;
            }
        }
        if self.state.mode == Mode::Cancelling {
            // Everything else has been cancelled already.
            self.apply(Input::CancelAll)?;
        }
        Ok(())
    }

    /// Sees to those who came meanwhile. What the run has to hear of this visit it still has to, and if
    /// it is the run's own, it has not seen any of this.
    pub(crate) fn answer(&mut self, notes: &mut Vec<Note<Success, Succeeded>>) {
        let mut changed = self.changed;
        self.by_the_run = false;
        let mut next = Vec::with_capacity(notes.len());
        // They stay where they are until all is well: an attempt must not be dropped under the lock.
        for Note { news: Success { attempt, ended_at }, .. } in notes.iter_mut() {
            self.now = self.now.max(*ended_at);
            next.push(attempt.succeed(self, *ended_at));
            changed |= self.changed;
        }
        self.tidy_up();
        self.changed |= changed;
        for (Note { news, desk }, next) in notes.drain(..).zip(next) {
            desk.answer(Succeeded { attempt: news.attempt, next });
        }
    }

    /// What has happened in this visit is nothing that the run has to hear of, unless there is
    /// something that only the run can do.
    pub(crate) fn nothing_new(&mut self) {
        self.changed = false;
    }

    /// The same for one who has asked already whether there is.
    pub(crate) fn nothing_new_but(&mut self, needs_the_run: bool) {
        self.changed = needs_the_run;
        self.asked_for_the_run = true;
    }

    /// Somebody rests who could help: the run looks in from now on; whether it is told so now.
    pub(crate) fn look_in(&mut self) -> bool {
        let has_to = self.state.crew.has_to_be_watched();
        self.changed |= has_to;
        has_to
    }

    /// It is the run that visits, and there is nothing left for it to do.
    pub(crate) fn seen_by_the_run(&mut self) {
        self.changed = false;
        self.by_the_run = true;
    }

    /// The next attempt that may begin; whoever has it polls it.
    pub(crate) fn next_attempt(&mut self, shared: &Arc<Shared>) -> Option<Attempt> {
        let grant = self.begin_next()?;
        let cell = Arc::new(AttemptCell::new(Arc::clone(shared)));
        let body = self.start(grant, Arc::clone(&cell));
        let ctx = WorkContext { id: grant.work, attempt: grant.attempt, cell };
        Some(Attempt::new(ctx, body, self.now, self.state.crew.run))
    }

    /// Begins the next attempt; works that go on after a wait have heard it by then.
    pub(crate) fn begin_next(&mut self) -> Option<Grant> {
        loop {
            match self.engine(Engine::begin_next)? {
                Begun::Started(grant) => return Some(grant),
                Begun::Resumed(_) => {}
            }
        }
    }

    /// The body of an attempt that has begun, for the runner that has it from now on.
    pub(crate) fn start(&mut self, grant: Grant, cell: Arc<AttemptCell>) -> Body {
        self.state.crew.polling += 1;
        let now = self.now;
        self.state.entry(grant.work).start(cell, now)
    }

    /// The time of this visit.
    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Whether there is something that only the run can do: watch a gate, return, or wake up
    /// earlier than it meant to.
    pub(crate) fn needs_the_run(&self) -> bool {
        let State { engine, gates, crew, .. } = &*self.state;
        let late = |wake| crew.wakes_at.is_none_or(|at| wake < at);
        let is_over = self.after.has_ended && engine.is_done();
        !gates.is_empty() || is_over || engine.next_wakeup().is_some_and(late)
    }

    /// What follows from all that has happened in this visit.
    #[inline]
    pub(crate) fn tidy_up(&mut self) {
        if !self.state.is_tidy() {
            self.tidy_up_everything();
            self.asked_for_the_run = false;
        }
        if !self.by_the_run && !self.asked_for_the_run {
            self.changed |= self.needs_the_run();
        }
        self.state.watchers.post();
    }

    fn tidy_up_everything(&mut self) {
        while let Some(grant) = self.state.next_orphaned() {
            self.stop(grant.work, None, self.now);
            // It may have been settled meanwhile.
            let _ = self.apply(State::gone(grant));
        }
        while let Some(work) = self.state.next_to_forget() {
            self.forget(work);
        }
        if self.state.mode == Mode::Closed && self.state.engine.is_done() {
            self.state.watchers.close();
        }
    }
}

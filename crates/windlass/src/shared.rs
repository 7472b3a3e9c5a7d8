//! What a scheduler, its handles and its works share: the state behind its lock, and the bells that
//! are rung when the lock is free again.
//!
//! The scheduler's lock is taken before the capacity's. Nothing of the user's runs under either.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use windlass_core::{
    Begun, CapacityTree, Children, ClientId, CostId, Engine, Grant, Input, More, Phase, Rejected,
    ResourceCost, Submission, Timestamp, Transition, Why, WorkId, World,
};

use crate::attempt::{Attempt, Next};
use crate::capacity::Client;
use crate::context::{AttemptCell, WorkContext};
use crate::entry::{Entry, shared_name};
use crate::handle::ReopenError;
use crate::reference::End;
use crate::relay::{Note, Relay, Turn, Waited};
use crate::spec::{Rare, SubmitError, WorkSpec};
use crate::state::{Aftermath, Mode, Rubbish, State};
use crate::sync::MutexGuard;
use crate::work::Work;

pub(crate) struct Shared {
    state: Relay<State, Success, Succeeded>,
    pub(crate) client: Client,
    /// Rung when a run should look again.
    pub(crate) news: Notify,
    /// Rung when a work has ended, for those who listen.
    ended: Notify,
    listeners: AtomicUsize,
    /// Attempts that need a runner.
    handed_over: Mutex<Vec<Attempt>>,
    cancel_grace: Option<Duration>,
}

/// How often one who visits looks for notes before it goes about its own business again.
const ROUNDS: usize = 8;

/// An attempt that went well, to be handed in.
struct Success {
    attempt: Box<Attempt>,
    ended_at: Timestamp,
}

/// What became of that: what its runner does next, if it was as simple as that.
pub(crate) struct Succeeded {
    pub(crate) attempt: Box<Attempt>,
    pub(crate) next: Option<Next>,
}

/// One visit to the state: everything that happens in it is heard of when it is over.
pub(crate) struct Visit<'a> {
    pub(crate) state: MutexGuard<'a, State>,
    client: &'a Client,
    /// The tree of the capacity, once somebody has asked for it.
    tree: Option<MutexGuard<'a, CapacityTree>>,
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

impl Shared {
    pub(crate) fn new(state: State, client: Client, cancel_grace: Option<Duration>) -> Self {
        let (news, ended) = (Notify::new(), Notify::new());
        let (state, handed_over) = (Relay::new(state), Mutex::default());
        let listeners = AtomicUsize::new(0);
        Self { state, client, news, ended, listeners, handed_over, cancel_grace }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.client.capacity.now()
    }

    /// Looks at the state, without changing it.
    pub(crate) fn look(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Looks at the state after everything that time alone has changed.
    pub(crate) fn look_now(&self) -> MutexGuard<'_, State> {
        self.visit(|visit| {
            visit.apply(Input::Tick).expect("time passes");
            // A run has a timer for it.
            visit.nothing_new();
        });
        self.look()
    }

    /// Visits the state; then, with the lock free, wakes whoever has to hear of it.
    pub(crate) fn visit<T>(&self, call: impl FnOnce(&mut Visit<'_>) -> T) -> T {
        let state = self.look();
        self.visit_at(state, self.client.capacity.now(), call)
    }

    /// Hands in that an attempt went well, as its body has been told. If the lock is taken, its holder
    /// sees to it.
    pub(crate) fn succeed(&self, attempt: Box<Attempt>) -> Succeeded {
        let ended_at = self.client.capacity.now();
        match self.state.hand_in(Success { attempt, ended_at }) {
            Turn::Answered(succeeded) => succeeded,
            Turn::Held(state, Success { mut attempt, .. }, waited) => {
                let now = match waited {
                    Waited::No => ended_at,
                    // What begins then begins when it has the lock.
                    Waited::Yes => self.client.capacity.now(),
                };
                let next = self.visit_at(state, now, |visit| attempt.succeed(visit, ended_at));
                Succeeded { attempt, next }
            }
        }
    }

    fn visit_at<'a, T>(
        &'a self,
        state: MutexGuard<'a, State>,
        now: Timestamp,
        call: impl FnOnce(&mut Visit<'_>) -> T,
    ) -> T {
        let mut notes = Vec::new();
        let mut visit = Visit {
            state,
            client: &self.client,
            tree: None,
            now,
            after: Aftermath::default(),
            wakes: Vec::new(),
            changed: false,
            by_the_run: false,
            asked_for_the_run: false,
        };
        let result = call(&mut visit);
        visit.tidy_up();
        for _ in 0..ROUNDS {
            notes.extend(self.state.take_notes(&visit.state));
            if notes.is_empty() {
                break;
            }
            visit.answer(&mut notes);
        }
        self.leave(visit);
        result
    }

    /// Frees the lock, and carries out what has to be heard of outside.
    fn leave(&self, visit: Visit<'_>) {
        let Visit { mut state, tree, after, wakes, changed, .. } = visit;
        // One that comes later begins with a look.
        let changed = changed && state.crew.is_running;
        state.clearing += usize::from(after.has_rubbish());
        drop(tree);
        drop(state);
        let has_ended = after.has_ended;
        let rubbish = after.carry_out();
        if !wakes.is_empty() {
            self.client.capacity.ring(&wakes);
        }
        if changed {
            self.news.notify_one();
        }
        if has_ended {
            self.ring_for_ends();
        }
        if !rubbish.is_empty() {
            rubbish.into_iter().for_each(Rubbish::throw_out);
            self.look().clearing -= 1;
            self.ring_for_ends();
        }
    }

    /// To be called after what is to be heard of has happened under the lock.
    fn ring_for_ends(&self) {
        // Relaxed: whoever listens counts itself before it takes the lock to look, so either it has
        // seen what happened, or the lock has brought us its count.
        if self.listeners.load(Ordering::Relaxed) > 0 {
            self.ended.notify_waiters();
        }
    }

    pub(crate) fn apply(&self, input: Input) -> Result<(), Rejected> {
        self.visit(|visit| visit.apply(input))
    }

    /// Has the run find a runner for this attempt.
    pub(crate) fn hand_over(&self, attempt: Attempt) {
        self.handed_over.lock().unwrap_or_else(PoisonError::into_inner).push(attempt);
        self.news.notify_one();
    }

    pub(crate) fn take_handed_over(&self) -> Vec<Attempt> {
        std::mem::take(&mut *self.handed_over.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes in a work, as a child if it has a parent; `end` is told of its end.
    pub(crate) fn submit<T>(
        &self,
        mut spec: WorkSpec<T>,
        parent: Option<Grant>,
        end: Option<oneshot::Sender<End>>,
    ) -> Result<WorkId, SubmitError> {
        let gate = spec.body.gate();
        spec.add_gate(gate);
        let Rare { policy, timeout, deadline, gate } = spec.take_rare();
        let more = More {
            parent: parent.map(|attempt| attempt.work),
            gated: gate.is_some(),
            timeout,
            deadline: deadline.map(|at| self.timestamp(at)),
            retry: policy,
        };
        let name = shared_name(spec.body.name());
        let (after, priority, retries) = (&spec.after, spec.priority, spec.retries);
        self.visit(|visit| {
            let accepted = visit.accept(parent, &spec.needs);
            let submission = |cost| Submission { after, cost, priority, retries, more };
            let taken_in = accepted.and_then(|cost| visit.take_in(submission(cost)));
            let mut entry = Entry::new(name, spec.body, retries);
            if gate.is_some() || timeout.is_some() || end.is_some() {
                let rare = entry.rare_mut();
                (rare.gate, rare.timeout, rare.end) = (gate, timeout, end);
            }
            match taken_in {
                Ok((id, transitions)) => Ok(visit.enter(id, entry, transitions)),
                Err(refused) => {
                    visit.after.throw_away(Rubbish::Entry(Some(Box::new(entry))));
                    Err(refused)
                }
            }
        })
    }

    /// What people call it.
    pub(crate) fn name(&self, work: WorkId) -> Arc<str> {
        self.look().entries.get(work).map(|entry| Arc::clone(&entry.name)).unwrap_or_default()
    }

    pub(crate) fn forget(&self, work: WorkId) -> bool {
        self.visit(|visit| visit.forget(work))
    }

    /// How the children of this attempt fare: there are none once it has been followed by another.
    pub(crate) fn children(&self, of: Grant) -> Children {
        let state = self.look();
        let is_latest = state.engine.attempts(of.work) == Some(of.attempt);
        if is_latest { state.engine.children(of.work) } else { Children::default() }
    }

    /// How long an attempt that was asked to stop may go on; none if as long as it likes.
    pub(crate) fn grace(&self, work: WorkId) -> Option<Duration> {
        match self.look().engine.phase(work) {
            Some(Phase::Cancelling { why: Why::Timeout | Why::Deadline, .. }) => {
                Some(self.cancel_grace.unwrap_or_default())
            }
            Some(Phase::Cancelling { .. }) => self.cancel_grace,
            _ => None,
        }
    }

    /// Waits until `is_so` says so; it is asked whenever a work has ended, or something of the user's
    /// is dropped.
    pub(crate) async fn until(&self, is_so: impl Fn(&State) -> bool) {
        let _listening = Listening::to(&self.listeners);
        loop {
            let rung = self.ended.notified();
            tokio::pin!(rung);
            // Listening before asking: an end in between rings.
            rung.as_mut().enable();
            if is_so(&self.look()) {
                return;
            }
            rung.await;
        }
    }

    /// When `at` is on the engine's clock: now, if it has passed.
    fn timestamp(&self, at: Instant) -> Timestamp {
        let left = at.saturating_duration_since(Instant::now());
        self.client.capacity.now().after(left)
    }
}

/// Someone who listens counts for as long as this lives.
struct Listening<'a>(&'a AtomicUsize);

impl<'a> Listening<'a> {
    fn to(listeners: &'a AtomicUsize) -> Self {
        listeners.fetch_add(1, Ordering::Relaxed);
        Self(listeners)
    }
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Visit<'_> {
    pub(crate) fn apply(&mut self, input: Input) -> Result<(), Rejected> {
        self.engine(|engine, world| engine.apply(world, input))
    }

    /// Has the engine do something, and everything else follow it.
    pub(crate) fn engine<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let (result, transitions) = self.engine_alone(call);
        self.follow(transitions);
        result
    }

    /// Keeps everything in step with what the engine has done.
    pub(crate) fn follow(&mut self, mut transitions: Vec<Transition>) {
        self.state.follow(&transitions, &mut self.after);
        transitions.clear();
        self.state.scratch = transitions;
    }

    /// Has the engine do something; everything else has yet to follow it.
    pub(crate) fn engine_alone<T>(
        &mut self,
        call: impl FnOnce(&mut Engine, &mut World<'_>) -> T,
    ) -> (T, Vec<Transition>) {
        let mut transitions = std::mem::take(&mut self.state.scratch);
        let tree = self.tree.get_or_insert_with(|| self.client.capacity.lock());
        let mut world = World {
            now: self.now,
            capacity: tree,
            facts: None,
            transitions: Some(&mut transitions),
            wakes: &mut self.wakes,
        };
        let result = call(&mut self.state.engine, &mut world);
        self.changed = true;
        self.asked_for_the_run = false;
        (result, transitions)
    }

    /// The number of a cost that can be had, unless nothing is taken in. An attempt that is over
    /// has no more children, also while the next one is under way.
    fn accept(
        &mut self,
        parent: Option<Grant>,
        needs: &ResourceCost,
    ) -> Result<CostId, SubmitError> {
        if self.state.mode == Mode::Closed {
            return Err(SubmitError::ShutDown);
        }
        if let Some(Grant { work: parent, attempt }) = parent
            && self.state.engine.attempts(parent) != Some(attempt)
        {
            return Err(windlass_core::SubmitError::NoParent { parent }.into());
        }
        if needs.is_empty() {
            return Ok(self.state.one_slot);
        }
        let tree = self.tree.get_or_insert_with(|| self.client.capacity.lock());
        Ok(self.state.engine.cost(tree, needs)?)
    }

    fn take_in(
        &mut self,
        submission: Submission<'_>,
    ) -> Result<(WorkId, Vec<Transition>), SubmitError> {
        let (id, transitions) = self.engine_alone(|engine, world| engine.submit(world, submission));
        match id {
            Ok(id) => Ok((id, transitions)),
            Err(refused) => {
                self.follow(transitions);
                Err(refused.into())
            }
        }
    }

    /// The engine knows the work; so do we, before anything that follows from it.
    fn enter(&mut self, id: WorkId, entry: Entry, transitions: Vec<Transition>) -> WorkId {
        self.state.entries.insert(id, entry);
        self.follow(transitions);
        if self.state.mode == Mode::Cancelling {
            // It may have ended at once, blocked by others.
            let _ = self.apply(Input::Cancel(id));
        }
        id
    }

    pub(crate) fn forget(&mut self, work: WorkId) -> bool {
        let forgotten = self.apply(Input::Forget(work)).is_ok();
        self.state.drop_forgotten(&[work], &mut self.after);
        forgotten
    }

    /// The attempt is over for the driver; its entry is ready for the next one.
    pub(crate) fn stop(
        &mut self,
        work: WorkId,
        mut body: Option<Box<dyn Work>>,
        ended_at: Timestamp,
    ) {
        if self.state.mode == Mode::Closed {
            self.after.throw_body_away(body.take());
        }
        let attempt = self.state.entry(work).stop(body, ended_at);
        self.after.release(attempt);
    }

    /// The same for the runner of an attempt that nobody else has anything of: there is nobody to be
    /// released.
    pub(crate) fn stop_alone(&mut self, work: WorkId, body: Box<dyn Work>, ended_at: Timestamp) {
        self.state.entry(work).stop(Some(body), ended_at);
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
        if self.state.mode == Mode::Cancelling {
            // Everything else has been cancelled already.
            self.apply(Input::CancelAll)?;
        }
        Ok(())
    }

    /// Sees to those who came meanwhile. What the run has to hear of this visit it still has to, and if
    /// it is the run's own, it has not seen any of this.
    fn answer(&mut self, notes: &mut Vec<Note<Success, Succeeded>>) {
        let mut changed = self.changed;
        self.by_the_run = false;
        for Note { news: Success { mut attempt, ended_at }, desk } in notes.drain(..) {
            self.now = self.now.max(ended_at);
            let next = attempt.succeed(self, ended_at);
            changed |= self.changed;
            desk.answer(Succeeded { attempt, next });
        }
        self.tidy_up();
        self.changed |= changed;
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

    /// Somebody rests who could help: the run looks in from now on.
    pub(crate) fn look_in(&mut self) {
        self.changed |= self.state.crew.has_to_be_watched();
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
    pub(crate) fn start(&mut self, grant: Grant, cell: Arc<AttemptCell>) -> Box<dyn Work> {
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
    fn tidy_up(&mut self) {
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

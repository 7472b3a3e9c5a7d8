//! What a scheduler, its handles and its works share: the state behind its lock, and the bells that
//! are rung when the lock is free again.
//!
//! The scheduler's lock is taken before the capacity's. Nothing of the user's runs under either.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::{
    Children, Grant, Input, More, Phase, Rejected, Submission, Timestamp, Why, WorkId,
};

use crate::attempt::{Attempt, Next};
use crate::capacity::Client;
use crate::entry::Entry;
use crate::reference::{EndTeller, WorkRef};
use crate::relay::{Relay, Turn, Waited};
use crate::shelf::Shelf;
use crate::spec::{Rare, SubmitError, WorkSpec};
use crate::state::{Rubbish, State};
use crate::sync::{Mutex, MutexGuard};
use crate::visit::{Heard, Left, Visit};

pub(crate) struct Shared {
    state: Relay<State, Success, Succeeded>,
    pub(crate) client: Client,
    /// Rung when a run should look again.
    pub(crate) news: Notify,
    /// Rung when a work has ended, for those who listen.
    ended: Notify,
    listeners: AtomicUsize,
    /// Attempts without a runner. Its lock is taken after the state's.
    shelf: Mutex<Shelf>,
    cancel_grace: Option<Duration>,
}

/// How often one who visits looks for notes before it goes about its own business again.
const ROUNDS: usize = 8;

/// An attempt that went well, to be handed in.
pub(crate) struct Success {
    pub(crate) attempt: Box<Attempt>,
    pub(crate) ended_at: Timestamp,
}

/// What became of that: what its runner does next, if it was as simple as that.
pub(crate) struct Succeeded {
    pub(crate) attempt: Box<Attempt>,
    pub(crate) next: Option<Next>,
}

impl Shared {
    pub(crate) fn new(state: State, client: Client, cancel_grace: Option<Duration>) -> Self {
        let (news, ended) = (Notify::new(), Notify::new());
        let (state, shelf) = (Relay::new(state), Mutex::new(Shelf::new()));
        let listeners = AtomicUsize::new(0);
        Self { state, client, news, ended, listeners, shelf, cancel_grace }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.client.capacity.now()
    }

    /// Looks at the state, without changing it.
    pub(crate) fn look(&self) -> MutexGuard<'_, State> {
        loop {
            let state = self.state.lock();
            if !state.stints.are_on() {
                return state;
            }
            // There is none for a while then, so there is an end to this.
            self.visit_at(state, self.client.capacity.now(), |visit| {
                visit.settle_stint();
                visit.nothing_new();
            });
        }
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
        let state = self.state.lock();
        self.visit_at(state, self.client.capacity.now(), |visit| {
            visit.settle_stint();
            call(visit)
        })
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
                let succeed = |visit: &mut Visit<'_>| attempt.succeed(visit, ended_at);
                let (mut next, rings_for_others) = self.visit_and_answer(state, now, succeed);
                if let Some(next) = &mut next {
                    next.others_first |= rings_for_others;
                }
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
        self.visit_and_answer(state, now, call).0
    }

    /// Visits the state, and sees to those who came meanwhile; whether somebody has to be woken for them.
    fn visit_and_answer<'a, T>(
        &'a self,
        state: MutexGuard<'a, State>,
        now: Timestamp,
        call: impl FnOnce(&mut Visit<'_>) -> T,
    ) -> (T, bool) {
        // Dropped after the visit, if that panics: an attempt on its way out makes one itself.
        let mut notes = Vec::new();
        let mut has_answered = false;
        let mut visit = Visit::new(state, &self.client, now);
        let result = call(&mut visit);
        visit.tidy_up();
        for _ in 0..ROUNDS {
            if !self.state.has_notes() {
                break;
            }
            notes.extend(self.state.take_notes(&visit.state));
            visit.answer(&mut notes);
            has_answered = true;
        }
        let left = visit.leave();
        let rings_for_others = has_answered && matches!(left, Left::More(_));
        match left {
            Left::Nothing => {}
            Left::AnEnd => self.ring_for_ends(),
            Left::More(heard) => self.carry_out(heard),
        }
        (result, rings_for_others)
    }

    /// Carries out what has to be heard of outside, with the lock free.
    fn carry_out(&self, heard: Heard) {
        let Heard { after, wakes, changed } = heard;
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

    pub(crate) fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the run find a runner for this attempt.
    pub(crate) fn hand_over(&self, attempt: Attempt) {
        self.shelf().put(attempt);
        self.news.notify_one();
    }

    /// A runner lets others go first, and leaves its attempt to whoever comes; the attempt if nobody
    /// will, because the run is over.
    pub(crate) fn leave(&self, attempt: Attempt, run: u64) -> Option<Attempt> {
        let left = self.shelf().leave(attempt, run);
        if left.as_ref().is_ok_and(|tells_the_run| *tells_the_run) {
            self.news.notify_one();
        }
        left.err()
    }

    /// Takes in a work, as a child if it has a parent; `end` is told of its end.
    pub(crate) fn submit<T>(
        &self,
        mut spec: WorkSpec<T>,
        parent: Option<Grant>,
        end: Option<EndTeller>,
    ) -> Result<WorkId, SubmitError> {
        let gate = spec.body.view_mut().gate();
        spec.add_gate(gate);
        let rare = spec.rare.take();
        let more = self.more(parent, rare.as_deref());
        let more = more.as_ref();
        let (after, priority, retries) = (&spec.after, spec.priority, spec.retries);
        let state = self.state.lock();
        let is_due = more.is_some_and(|more| more.deadline.is_some());
        let now = match is_due || state.minds_the_time() {
            true => self.client.capacity.now(),
            false => self.client.capacity.last_time(),
        };
        self.visit_at(state, now, |visit| {
            visit.settle_stint();
            let accepted = visit.accept(parent, spec.needs.as_ref());
            let submission = |cost| Submission { after, cost, priority, retries, more };
            let taken_in = accepted.and_then(|cost| visit.take_in(submission(cost)));
            let mut entry = Entry::new(spec.name, spec.body);
            if let Some(rare) = rare {
                entry.keep(*rare);
            }
            if end.is_some() {
                entry.rare_mut().end = end;
            }
            match taken_in {
                Ok(id) => Ok(visit.enter(id, entry)),
                Err(refused) => {
                    visit.after.throw_away(Rubbish::Entry(Some(Box::new(entry))));
                    Err(refused)
                }
            }
        })
    }

    /// What the engine has to know that it need not know of most works.
    fn more(&self, parent: Option<Grant>, rare: Option<&Rare>) -> Option<More> {
        if parent.is_none() && rare.is_none() {
            return None;
        }
        Some(More {
            parent: parent.map(|attempt| attempt.work),
            gated: rare.is_some_and(|rare| rare.gate.is_some()),
            timeout: rare.and_then(|rare| rare.timeout),
            deadline: rare.and_then(|rare| rare.deadline).map(|at| self.timestamp(at)),
            retry: rare.and_then(|rare| rare.policy),
        })
    }

    /// The same for a work whose end and value somebody asks for.
    pub(crate) fn spawn<T>(
        &self,
        mut spec: WorkSpec<T>,
        parent: Option<Grant>,
    ) -> Result<WorkRef<T>, SubmitError> {
        let (tell, ends) = EndTeller::new();
        let (name, brings) = (spec.name().into(), (spec.brings)(spec.body.view_mut()));
        let id = self.submit(spec, parent, Some(tell))?;
        Ok(WorkRef::new(id, name, brings, ends))
    }

    /// What people call it.
    pub(crate) fn name(&self, work: WorkId) -> Arc<str> {
        self.look().entries.get(work).map(|entry| entry.name.to_shared()).unwrap_or_default()
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

//! What a scheduler, its handles and its works share: the state behind its lock, and the wake-ups that follow
//! when the lock is released.
//!
//! The scheduler's lock is taken before the capacity's. Nothing of the user's runs under either.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_core::{
    Children, Extras, Grant, Input, Phase, Rejected, Submission, Timestamp, WorkId,
};

use crate::capacity::Client;
use crate::context::AttemptShared;
use crate::effects::Effects;
use crate::entry::Entry;
use crate::id::{self, Issuer};
use crate::panic::{drop_quietly, quietly};
use crate::reference::{EndTeller, WorkRef};
use crate::session::Session;
use crate::spec::{self, SubmitError, WorkSpec};
use crate::state::State;
use crate::sync::{Mutex, MutexGuard};

pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) client: Client,
    pub(crate) issuer: Issuer,
    /// Notified when the run should look.
    pub(crate) news: Notify,
    /// Grows when a run begins and when it is over, so it is odd during a run.
    run: AtomicU64,
    /// Whether a thread checks for a caller that waits without a run, or has reported one.
    idle_check: AtomicBool,
    /// Notified when a work has ended, while there are listeners.
    ended: Notify,
    listeners: AtomicUsize,
    cancel_grace: Option<Duration>,
}

impl Shared {
    pub(crate) fn new(state: State, client: Client, cancel_grace: Option<Duration>) -> Self {
        Self {
            issuer: state.issuer,
            state: Mutex::new(state),
            client,
            news: Notify::new(),
            run: AtomicU64::new(0),
            idle_check: AtomicBool::new(false),
            ended: Notify::new(),
            listeners: AtomicUsize::new(0),
            cancel_grace,
        }
    }

    /// Locks the state to look at it. Only a [session](Self::session) reports a change.
    pub(crate) fn look(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state to look at it after everything that time alone has changed.
    pub(crate) fn look_now(&self) -> MutexGuard<'_, State> {
        self.apply(Input::Tick).expect("time passes");
        self.look()
    }

    /// Runs `call` on the locked state; then, with the lock free, carries out its effects.
    #[inline]
    pub(crate) fn session<T>(&self, call: impl FnOnce(&mut Session<'_>) -> T) -> T {
        self.session_on(self.look(), call).0
    }

    /// As [`Shared::session`], on the state that the caller has locked. Also returns whether the run or an
    /// attempt was woken.
    #[inline]
    pub(crate) fn session_on<T>(
        &self,
        state: MutexGuard<'_, State>,
        call: impl FnOnce(&mut Session<'_>) -> T,
    ) -> (T, bool) {
        let mut effects = Effects::default();
        let mut session = Session::new(state, &self.client, &mut effects);
        let result = call(&mut session);
        let wakes_run = session.close();
        let wakes = wakes_run || effects.wakes_attempts();
        if wakes_run {
            quietly(|| self.news.notify_one());
        }
        self.carry_out(effects);
        (result, wakes)
    }

    #[inline]
    fn carry_out(&self, effects: Effects) {
        if !effects.clients.is_empty() {
            quietly(|| self.client.capacity.notify(&effects.clients));
        }
        let has_ended = effects.has_ended;
        let drops = effects.into_extras().map(|extras| extras.notify());
        if has_ended {
            self.notify_listeners();
        }
        if let Some(drops) = drops.filter(|drops| !drops.is_empty()) {
            drops.into_iter().for_each(drop_quietly);
            self.note_drop();
        }
    }

    /// What was counted in `dropping` is dropped.
    fn note_drop(&self) {
        self.look().dropping -= 1;
        self.notify_listeners();
    }

    /// Called after something has happened under the lock.
    fn notify_listeners(&self) {
        // Relaxed: a listener counts itself before it takes the lock to look, so either it has seen what
        // happened, or the lock has brought us its count.
        if self.listeners.load(Ordering::Relaxed) > 0 {
            quietly(|| self.ended.notify_waiters());
        }
    }

    pub(crate) fn apply(&self, input: Input) -> Result<(), Rejected> {
        self.session(|session| session.apply(input))
    }

    /// A run begins or is over. Returns its number; runners of another one stop.
    pub(crate) fn change_run(&self) -> u64 {
        // Release, with the acquire in `is_current`.
        self.run.fetch_add(1, Ordering::Release) + 1
    }

    /// Returns whether this is the run under way.
    pub(crate) fn is_current(&self, run: u64) -> bool {
        self.run.load(Ordering::Acquire) == run
    }

    /// Returns whether a run is under way.
    pub(crate) fn is_running(&self) -> bool {
        self.run.load(Ordering::Acquire) % 2 == 1
    }

    /// Returns whether the caller is to check for a waiter without a run. Relaxed: nothing else depends on it.
    pub(crate) fn begin_idle_check(&self) -> bool {
        !self.idle_check.swap(true, Ordering::Relaxed)
    }

    /// Such a waiter can be checked for again.
    pub(crate) fn end_idle_check(&self) {
        self.idle_check.store(false, Ordering::Relaxed);
    }

    /// Returns the engine's id of a work of this scheduler.
    #[inline]
    pub(crate) fn own(&self, id: id::WorkId) -> Option<WorkId> {
        self.issuer.own(id)
    }

    /// Adds a work, as a child if it has a parent. `end` sends its end to the waiters.
    pub(crate) fn submit<T>(
        &self,
        mut spec: WorkSpec<T>,
        parent: Option<Grant>,
        end: Option<EndTeller>,
    ) -> Result<id::WorkId, SubmitError> {
        if let Some(work) = spec.after.other_than(self.issuer) {
            drop_quietly(spec);
            return Err(SubmitError::OtherScheduler { work });
        }
        let gate = spec.body.work().gate();
        spec.add_gate(gate);
        let WorkSpec { body, name, after, retries, priority, needs, extras: settings, .. } = spec;
        let extras = self.extras(parent, settings.as_deref());
        let mut entry = Entry::new(name, body);
        if let Some(settings) = settings {
            entry.keep(*settings);
        }
        if end.is_some() {
            entry.extras_mut().end = end;
        }
        self.session(|session| {
            let cost = match session.accept(parent, needs.as_ref()) {
                Ok(cost) => cost,
                Err(refused) => return session.refuse(entry, refused),
            };
            let after = after.works();
            let submission = Submission { after, cost, priority, retries, extras: extras.as_ref() };
            match session.engine_alone(|engine, world| engine.submit(world, submission)) {
                Ok(work) => Ok(self.issuer.id(session.add(work, entry))),
                Err(refused) => session.refuse(entry, SubmitError::of(refused, self.issuer)),
            }
        })
    }

    /// Returns what the engine has to know of few works.
    fn extras(&self, parent: Option<Grant>, spec: Option<&spec::Extras>) -> Option<Extras> {
        if parent.is_none() && spec.is_none() {
            return None;
        }
        Some(Extras {
            parent: parent.map(|attempt| attempt.work),
            gated: spec.is_some_and(|spec| spec.gate.is_some()),
            timeout: spec.and_then(|spec| spec.timeout),
            deadline: spec.and_then(|spec| spec.deadline).map(|at| self.timestamp(at)),
            retry: spec.and_then(|spec| spec.policy),
            beside: None,
        })
    }

    /// Adds a work whose end and value can be awaited.
    pub(crate) fn spawn<T>(
        self: &Arc<Self>,
        mut spec: WorkSpec<T>,
        parent: Option<Grant>,
    ) -> Result<WorkRef<T>, SubmitError> {
        let (tell, ends) = EndTeller::new(Arc::downgrade(self));
        let (name, output) = (spec.name.share(), (spec.output)(spec.body.work()));
        let id = self.submit(spec, parent, Some(tell))?;
        Ok(WorkRef::new(id, name, output, ends))
    }

    /// Returns the name of a work.
    pub(crate) fn name(&self, work: WorkId) -> Arc<str> {
        self.look().entry(work).map(|entry| entry.name.to_shared()).unwrap_or_default()
    }

    pub(crate) fn forget(&self, work: WorkId) -> bool {
        self.session(|session| session.forget(work))
    }

    /// Returns how the children of this attempt fare: there are none once another attempt has followed it.
    pub(crate) fn children(&self, of: Grant) -> Children {
        let state = self.look();
        let is_latest = state.engine.attempts(of.work) == Some(of.attempt);
        if is_latest { state.engine.children(of.work) } else { Children::default() }
    }

    /// Returns how long an attempt that was asked to stop may go on; none if as long as it likes.
    pub(crate) fn grace(&self, work: WorkId, attempt: &AttemptShared) -> Option<Duration> {
        let state = self.look();
        match state.engine.phase(work)? {
            Phase::Cancelling { .. } if attempt.is_out_of_time() => {
                Some(self.cancel_grace.unwrap_or_default())
            }
            Phase::Cancelling { .. } => self.cancel_grace,
            _ => None,
        }
    }

    /// Waits until `condition` holds. It is checked whenever a work has ended or a value of the user's was
    /// dropped.
    pub(crate) async fn until(&self, condition: impl Fn(&State) -> bool) {
        let _listening = Listening::to(&self.listeners);
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // Registered before looking, so that no end in between is missed.
            ended.as_mut().enable();
            if condition(&self.look()) {
                return;
            }
            ended.await;
        }
    }

    /// Returns an instant as a time of the engine's clock: now, if it has passed.
    fn timestamp(&self, at: Instant) -> Timestamp {
        let left = at.saturating_duration_since(Instant::now());
        self.client.capacity.now().after(left)
    }
}

/// Counts a value of the user's that has left the state, until it is dropped.
pub(crate) struct Undropped(Arc<Shared>);

impl Undropped {
    pub(crate) fn begin(shared: &Arc<Shared>, state: &mut State) -> Self {
        state.dropping += 1;
        Self(Arc::clone(shared))
    }
}

impl Drop for Undropped {
    fn drop(&mut self) {
        self.0.note_drop();
    }
}

/// Counts one listener for as long as it lives.
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

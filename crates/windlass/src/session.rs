//! One session on a scheduler's state: the engine does something, and everything else follows it.
//!
//! Everything in a session happens at one time, under the lock. What others have to hear of it is kept in its
//! [`Effects`] and carried out when the lock is free.

use std::sync::Arc;

use windlass_core::{
    Begun, CostId, Engine, Grant, Input, Rejected, ResourceCost, Timestamp, WorkId, World,
};

use crate::attempt::{Attempt, Attempts};
use crate::body::Body;
use crate::capacity::Client;
use crate::context::AttemptShared;
use crate::effects::Effects;
use crate::entry::{Cause, Entry};
use crate::handle::ReopenError;
use crate::shared::Shared;
use crate::spec::SubmitError;
use crate::state::{Mode, State};
use crate::sync::MutexGuard;
use crate::world::SessionWorld;

pub(crate) struct Session<'a> {
    pub(crate) state: MutexGuard<'a, State>,
    world: SessionWorld<'a>,
    pub(crate) effects: &'a mut Effects,
    /// Whether the run has to look in any case.
    wakes_run: bool,
}

impl<'a> Session<'a> {
    #[inline]
    pub(crate) fn new(
        state: MutexGuard<'a, State>,
        client: &'a Client,
        effects: &'a mut Effects,
    ) -> Self {
        Self { state, world: SessionWorld::new(client), effects, wakes_run: false }
    }

    /// Frees the lock. Returns whether the run has to look.
    #[inline]
    pub(crate) fn close(mut self) -> bool {
        self.follow();
        if !self.state.is_tidy() {
            self.tidy_up();
        }
        let wakes_run = self.state.runners.is_running() && (self.wakes_run || self.needs_run());
        if let Some(readers) = self.state.publisher.publish() {
            self.effects.wake_readers(readers);
        }
        self.state.dropping += usize::from(self.effects.has_drops());
        wakes_run
    }

    /// The time of everything in this session.
    #[inline]
    pub(crate) fn now(&mut self) -> Timestamp {
        self.world.now()
    }

    /// Has the run look when the session is over.
    pub(crate) fn wake_run(&mut self) {
        self.wakes_run = true;
    }

    pub(crate) fn apply(&mut self, input: Input) -> Result<(), Rejected> {
        self.engine(|engine, world| engine.apply(world, input))
    }

    /// Has the engine do something, and everything else follow it.
    #[inline]
    pub(crate) fn engine<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let result = self.engine_alone(call);
        self.follow();
        result
    }

    /// Has everything else follow what the engine has done.
    #[inline]
    pub(crate) fn follow(&mut self) {
        self.state.follow(self.effects);
    }

    /// Lets everything happen that time alone brings.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.engine(Engine::advance);
    }

    /// Has the engine do something that everything else has yet to follow, at the latest at the end of the
    /// session.
    #[inline]
    pub(crate) fn engine_alone<T>(
        &mut self,
        call: impl FnOnce(&mut Engine, &mut World<'_>) -> T,
    ) -> T {
        self.state.runners.expect_work();
        let (engine, transitions) = self.state.engine_parts();
        call(engine, &mut self.world.world(transitions, &mut self.effects.clients))
    }

    /// Returns the number of a cost that can be met, unless no works are accepted. An attempt that is over
    /// has no more children, also while the next one is under way.
    #[inline]
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
            return Err(SubmitError::NoParent { parent: self.state.issuer.id(parent) });
        }
        let Some(needs) = needs else { return Ok(self.state.one_slot) };
        Ok(self.state.engine.cost(self.world.tree(), needs)?)
    }

    /// Adds the entry of a work that the engine has just accepted.
    #[inline]
    pub(crate) fn add(&mut self, work: WorkId, entry: Entry) -> WorkId {
        self.state.add(work, entry);
        if self.state.mode == Mode::Cancelling {
            // Refused if other works have blocked it already.
            let _ = self.apply(Input::Cancel(work));
        }
        work
    }

    /// Has the entry of a work that is not accepted dropped after the session.
    #[cold]
    pub(crate) fn refuse<T>(
        &mut self,
        entry: Entry,
        refused: SubmitError,
    ) -> Result<T, SubmitError> {
        self.effects.drop_later(Box::new(entry));
        Err(refused)
    }

    pub(crate) fn forget(&mut self, work: WorkId) -> bool {
        // What time alone has changed is told while the work is still known.
        let forgotten = self.apply(Input::Tick).and_then(|()| self.apply(Input::Forget(work)));
        self.state.drop_forgotten(&[work], self.effects);
        forgotten.is_ok()
    }

    /// Begins the next attempt, if one may begin, for a runner that is free.
    #[inline]
    pub(crate) fn begin_next(&mut self) -> Option<Grant> {
        while self.state.runners.may_find_work() {
            match self.engine(Engine::begin_next) {
                Some(Begun::Started(grant)) => return Some(grant),
                // The attempt goes on after a wait. What follows from that has woken it.
                Some(Begun::Resumed(_)) => {}
                None => self.state.runners.find_none(),
            }
        }
        None
    }

    /// Begins an attempt for each thread that has no runner: a runner that polls a body starts no other.
    #[inline]
    pub(crate) fn begin_more(&mut self, shared: &Arc<Shared>) -> Attempts {
        let mut begun = Attempts::default();
        while self.state.runners.may_start_one()
            && self.may_begin()
            && let Some(grant) = self.begin_next()
        {
            begun.push(Attempt::begin(self, shared, grant));
        }
        begun
    }

    /// Returns whether an attempt may begin: cheaper to know than to ask for one in vain.
    fn may_begin(&mut self) -> bool {
        if !self.state.runners.may_find_work() {
            return false;
        }
        let may_begin = self.state.engine.may_begin(self.world.tree());
        if !may_begin {
            self.state.runners.find_none();
        }
        may_begin
    }

    /// Gives a runner the body of a work whose attempt begins. Also returns the run that it belongs to.
    #[inline]
    pub(crate) fn start(
        &mut self,
        work: WorkId,
        attempt: &Arc<AttemptShared>,
    ) -> (Box<dyn Body>, u64) {
        let run = self.state.runners.begin_polling();
        (self.state.known(work).start(Arc::clone(attempt)), run)
    }

    /// The attempt is over for the driver, and its entry is ready for the next one.
    pub(crate) fn stop(&mut self, work: WorkId, mut body: Option<Box<dyn Body>>) {
        if self.state.mode == Mode::Closed
            && let Some(body) = body.take()
        {
            self.effects.drop_later(body);
        }
        let now = self.now();
        let entry = self.state.known(work);
        let (attempt, failed_child) = (entry.stop(body, now), entry.take_failed_child());
        self.effects.release(attempt);
        if let Some(failed_child) = failed_child {
            self.effects.drop_later(Box::new(failed_child));
        }
    }

    /// Keeps why the latest attempt of a work did not succeed.
    pub(crate) fn note_cause(&mut self, work: WorkId, cause: Cause) {
        if let Some(before) = self.state.known(work).extras_mut().last_error.replace(cause) {
            self.effects.drop_later(Box::new(before));
        }
    }

    /// Fails a work without an attempt, because its gate failed.
    pub(crate) fn reject(&mut self, work: WorkId, error: String) -> Result<(), Rejected> {
        // What time alone has changed counts before the question, not after it.
        self.apply(Input::Tick)?;
        if self.state.engine.awaits_gate(work) {
            self.state.known(work).extras_mut().note_error(error);
        }
        self.apply(Input::Reject(work))
    }

    pub(crate) fn reopen(&mut self, work: WorkId) -> Result<(), ReopenError> {
        let issuer = self.state.issuer;
        let refused = |rejected| ReopenError::of(rejected, issuer);
        // What time alone has changed counts before the question, not after it.
        self.apply(Input::Tick).map_err(refused)?;
        let works = self.state.engine.would_reopen(work).map_err(refused)?;
        let has_body = |work: WorkId| self.state.entry(work).is_some_and(Entry::has_body);
        if let Some(&work) = works.iter().find(|work| !has_body(**work)) {
            return Err(ReopenError::NoBody { work: issuer.id(work) });
        }
        let gateless = |work: WorkId| {
            let extras = self.state.entry(work).and_then(Entry::extras);
            extras.is_none_or(|extras| extras.gate.is_none())
        };
        let is_shut = |work: WorkId| self.state.engine.is_shut(work);
        if let Some(&work) = works.iter().find(|work| is_shut(**work) && gateless(**work)) {
            return Err(ReopenError::NoGate { work: issuer.id(work) });
        }
        // A gate that had opened is gone, so it stays open.
        let opened: Vec<_> = works.iter().copied().filter(|work| gateless(*work)).collect();
        let families: Vec<_> =
            works.iter().flat_map(|work| self.state.engine.descendants(*work)).collect();
        self.state.expect_another_end(&works);
        self.apply(Input::Reopen(work)).map_err(refused)?;
        self.state.drop_family(&families, self.effects);
        for work in opened {
            if self.state.engine.awaits_gate(work) {
                self.apply(Input::Open(work)).map_err(refused)?;
            }
        }
        if self.state.mode == Mode::Cancelling {
            // Everything else was cancelled already.
            self.apply(Input::CancelAll).map_err(refused)?;
        }
        Ok(())
    }

    /// Does what follows from everything that has happened in this session.
    fn tidy_up(&mut self) {
        while let Some(grant) = self.state.next_orphaned() {
            self.stop(grant.work, None);
            // It may have ended meanwhile.
            let _ = self.apply(gone(grant));
        }
        while let Some(work) = self.state.next_to_forget() {
            self.forget(work);
        }
        if self.state.mode == Mode::Closed
            && self.state.engine.is_done()
            && let Some(readers) = self.state.publisher.close()
        {
            self.effects.wake_readers(readers);
        }
    }

    /// Returns whether something is left that only the run does: watch a gate, return, wake up earlier than
    /// it meant to, or start a runner.
    #[inline]
    fn needs_run(&self) -> bool {
        let Some(tree) = self.world.locked_tree() else { return false };
        let State { engine, gates, runners, .. } = &*self.state;
        let is_early = |wake| runners.alarm.is_none_or(|alarm| wake < alarm);
        !gates.is_empty()
            || self.effects.has_ended && engine.is_done()
            || engine.next_wakeup().is_some_and(is_early)
            || runners.may_start_one() && runners.may_find_work() && engine.may_begin(tree)
    }
}

/// The news that an attempt has ended whose runner is gone, and all its children with it.
pub(crate) fn gone(grant: Grant) -> Input {
    Input::Finished { grant, outcome: windlass_core::Outcome::Cancelled }
}

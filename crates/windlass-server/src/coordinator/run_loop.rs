//! The loop of a run: take in, decide, commit, act, wait.
//!
//! The order of durable writes is what makes a run survive a kill at any point. The start of an attempt,
//! with the names it holds, is committed before its process exists. Its end is committed before any
//! dependent starts, in the same commit. Nothing is shown, and nothing that follows an end starts,
//! before the disk has it.
//!
//! A commit survives a kill as soon as it is written, and a loss of power once it is synced. What does not
//! follow an end that may still be lost starts before the sync, because no process survives a loss of power.
//! While there are only starts, and good ends that nothing follows, the sync waits a few milliseconds for
//! more of them, so that steps that are shorter than a sync do not take one each. Where something follows,
//! the disk begins at once, and the follower is prepared meanwhile: its command is resolved and its program
//! found. The ends of the last steps and that of the run share a sync.
//!
//! While another process keeps writers out of the store, the loop waits in the middle of a write. Everything
//! that has begun goes on; nothing that follows does. The time of the run pauses. A signal ends such a wait,
//! and with it the run: its attempts are asked to end, and the next leader takes them for lost.

use std::time::Duration;

use windlass_core::Name;
use windlass_store::{AttemptRecord, Blocker, OnWait, RunEnd, StoreError};

use super::attempts::{Attempts, Meanwhile, News, Order, Report};
use super::journal::{Due, Journal, Request, Start, SyncScope};
use super::state::RunState;
use super::{End, RunError, Update};
#[cfg(windlass_faults)]
use crate::fault::Point;

/// The interval between two checks of the store without a wake-up: a holder that was killed wakes no
/// waiter.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a sync may wait for more to sync. No user sees the difference, and steps that take less
/// time than a sync need not wait for one each.
const LINGER: Duration = Duration::from_millis(50);

/// Leads one run.
pub(super) struct RunLoop<J, A> {
    state: RunState,
    // Dropped before the journal, so that no process outlives the lead of its run.
    attempts: A,
    journal: J,
    /// What is to be taken in before the next commit.
    inbox: Vec<News>,
}

/// How everything has come to its end.
#[derive(Clone, Copy)]
enum Over {
    /// Nothing follows but that the journal learns of it.
    Plain(End),
    /// All that had to follow has.
    Closed(End),
}

impl<J: Journal, A: Attempts> RunLoop<J, A> {
    pub(super) fn new(state: RunState, journal: J, attempts: A) -> Self {
        Self { state, attempts, journal, inbox: vec![News::Wakeup] }
    }

    pub(super) fn state_mut(&mut self) -> &mut RunState {
        &mut self.state
    }

    /// Finds the attempts of a run that was led before where they were left, and what users have decided
    /// since.
    pub(super) fn pick_up(&mut self, attempts: &[AttemptRecord]) -> Result<(), RunError> {
        self.state.note_decisions(&self.journal.decisions()?);
        self.state.pick_up(attempts);
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn journal_mut(&mut self) -> &mut J {
        &mut self.journal
    }

    /// Gives up the lead of the run, which has ended like that, if it has, and leaves it as it was.
    pub(super) fn abandon(&mut self, end: Option<RunEnd>) -> Result<(), RunError> {
        let given_up = self.write(&mut |_| {}, |journal, state, on_wait| {
            journal.finish(state.schedule_mut(), end, on_wait)
        });
        match given_up {
            // The lead ends with this process.
            Err(RunError::Store(StoreError::Interrupted)) => Ok(()),
            given_up => given_up,
        }
    }

    /// Stores what is known of the run, which another process will lead, and gives up its lead.
    pub(super) fn hand_over(&mut self) -> Result<(), RunError> {
        self.state.leave();
        self.commit(&mut |_| {})?;
        self.abandon(None)
    }

    pub(super) fn state(&self) -> &RunState {
        &self.state
    }

    /// Leads the run until it ends or is interrupted; `watch` is shown every change.
    pub(super) fn run(&mut self, watch: &mut dyn FnMut(&Update<'_>)) -> Result<End, RunError> {
        let ended = self.until_over(watch).and_then(|over| self.finish(over, watch));
        match ended {
            Err(RunError::Store(StoreError::Interrupted)) => self.leave(watch),
            Ok(end) => Ok(end),
            // Where the directory of the store is gone, any file in it may be the first to tell.
            Err(error) => {
                self.show_committed(watch);
                Err(self.journal.loss().map_or(error, RunError::Store))
            }
        }
    }

    fn until_over(&mut self, watch: &mut dyn FnMut(&Update<'_>)) -> Result<Over, RunError> {
        loop {
            self.take_in(watch)?;
            let starts = self.commit(watch)?;
            let mut scope = self.act(starts)?;
            loop {
                if let Some(end) = self.state.plain_end().filter(|_| self.inbox.is_empty()) {
                    return Ok(Over::Plain(end));
                }
                if scope == SyncScope::Committed || !self.may_linger() {
                    self.publish(scope, watch)?;
                    scope = SyncScope::Stored;
                    if let Some(end) = self.end()? {
                        return Ok(Over::Closed(end));
                    }
                }
                self.wait(watch)?;
                if !self.inbox.is_empty() {
                    break;
                }
            }
        }
    }

    /// Takes in everything that has happened. Reads come first: once the engine has changed, only a
    /// commit may follow.
    pub(super) fn take_in(&mut self, watch: &mut dyn FnMut(&Update<'_>)) -> Result<(), RunError> {
        let news = std::mem::take(&mut self.inbox);
        let woken = news.iter().any(|news| matches!(news, News::Wakeup));
        let requests = if woken { self.journal.requests()? } else { Vec::new() };
        let decided = requests.iter().any(Request::is_decision);
        let decisions = if decided { self.journal.decisions()? } else { Vec::new() };
        let events = if self.state.heeds_events() { self.journal.events()? } else { Vec::new() };
        let mut reports = Vec::new();
        for news in news {
            match news {
                News::Report(report) => reports.push((self.lost_name(&report, watch)?, report)),
                News::Signal(signal) => self.state.on_signal(signal),
                News::Wakeup => {}
                News::LifeOver => unreachable!("only a worker has a guardian"),
            }
        }
        self.stop()?;
        self.state.on_tick();
        reports.into_iter().for_each(|(lost, report)| self.state.on_report(report, lost));
        self.state.on_events(&events);
        requests.iter().for_each(|request| self.state.on_request(request));
        self.state.on_decisions(&decisions);
        self.state.on_all_taken_in();
        Ok(())
    }

    /// Returns a name that the order of a report has lost, if it has lost one.
    fn lost_name(
        &mut self,
        report: &Report,
        watch: &mut dyn FnMut(&Update<'_>),
    ) -> Result<Option<Name>, RunError> {
        self.write(watch, |journal, state, on_wait| match state.names_in_doubt(report) {
            [] => Ok(None),
            names => journal.lost_name(names, on_wait),
        })
    }

    /// Commits what was decided, and returns the attempts that have begun.
    pub(super) fn commit(
        &mut self,
        watch: &mut dyn FnMut(&Update<'_>),
    ) -> Result<Vec<Start>, RunError> {
        self.hand_records_over();
        let committed = self.write(watch, |journal, state, on_wait| {
            let admission = state.admission();
            journal.commit(state.schedule_mut(), admission, on_wait)
        })?;
        Ok(self.state.on_committed(committed))
    }

    /// Writes to the journal, while everything that has begun goes on.
    fn write<T>(
        &mut self,
        watch: &mut dyn FnMut(&Update<'_>),
        act: impl FnOnce(&mut J, &mut RunState, OnWait<'_>) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let Self { state, attempts, journal, inbox } = self;
        let mut tell = |blocker: &Blocker| {
            watch(&Update::Notice(&format!("waiting for the store: {blocker}")));
        };
        let mut meanwhile = Meanwhile::new(attempts, inbox, &mut tell);
        let clock = state.schedule().clock().clone();
        let mut paused = clock.with_pauses();
        let written = act(journal, state, &mut |wait| {
            let now = clock.with_pauses();
            clock.pause(now.since(std::mem::replace(&mut paused, now)));
            meanwhile.go_on(wait)
        });
        meanwhile.failure().map_or(written, Err)
    }

    fn hand_records_over(&mut self) {
        self.state.take_records().into_iter().for_each(|record| self.journal.record(record));
    }

    /// Starts what may start before the disk has the commit, and makes ready what may not: what follows
    /// an end that a loss of power would undo. Returns the sync that has to come next.
    pub(super) fn act(&mut self, starts: Vec<Start>) -> Result<SyncScope, RunError> {
        let ended = self.state.schedule().just_ended();
        let follows = |start: &Start| self.state.follows(start, &ended);
        let (following, free): (Vec<_>, Vec<_>) = starts.into_iter().partition(follows);
        if !following.is_empty() {
            // The disk writes while the orders are made ready.
            self.journal.begin_sync();
        }
        for start in free {
            let order = self.state.begin_attempt(start);
            self.start(order)?;
        }
        for order in self.state.take_orders() {
            self.start(order)?;
        }
        self.stop()?;
        let scope = if following.is_empty() { SyncScope::Stored } else { SyncScope::Committed };
        for start in following {
            let order = self.state.begin_attempt(start);
            self.attempts.prepare(order);
        }
        Ok(scope)
    }

    /// Syncs the commit, starts what was made ready, and shows what has changed.
    fn publish(
        &mut self,
        scope: SyncScope,
        watch: &mut dyn FnMut(&Update<'_>),
    ) -> Result<(), RunError> {
        self.write(watch, |journal, _, on_wait| journal.sync(scope, on_wait))?;
        self.attempts.start_prepared()?;
        self.state.publish(watch);
        self.stop()?;
        self.start_due()
    }

    /// Returns how the run ends, once everything has; the hook for that runs before.
    fn end(&mut self) -> Result<Option<End>, RunError> {
        if !self.inbox.is_empty() || self.state.has_decisions() {
            return Ok(None);
        }
        if self.state.begin_closing() {
            self.start_due()?;
        }
        Ok(self.state.end())
    }

    /// Starts what follows the end of steps, and hooks.
    fn start_due(&mut self) -> Result<(), RunError> {
        self.state.take_due_orders().into_iter().try_for_each(|order| self.start(order))
    }

    fn start(&mut self, order: Order) -> Result<(), RunError> {
        self.attempts.prepare(order);
        self.attempts.start_prepared()
    }

    fn stop(&mut self) -> Result<(), RunError> {
        let mut stops = self.state.take_stops().into_iter();
        stops.try_for_each(|(id, mode)| self.attempts.stop(id, mode))
    }

    /// Returns whether a sync can wait a moment for what comes next.
    fn may_linger(&self) -> bool {
        let young = self.journal.unsynced_for().is_some_and(|long| long < LINGER);
        young && self.state.may_linger()
    }

    /// Waits until something happens, or it is time for something.
    fn wait(&mut self, watch: &mut dyn FnMut(&Update<'_>)) -> Result<(), RunError> {
        self.write(watch, |journal, _, on_wait| journal.store_due(on_wait))?;
        let Self { journal, attempts, .. } = self;
        let due = journal.on_due(&mut |source| attempts.watch(source))?;
        if due == Due::LookAgain || self.state.has_decisions() {
            self.inbox.push(News::Wakeup);
        }
        if !self.inbox.is_empty() {
            return Ok(());
        }
        let now = self.state.schedule().now();
        let look = self.state.waits_for_others().then(|| now.after(LOOK_AGAIN));
        let look = look.into_iter().chain(self.state.next_due()).min();
        let linger = self.journal.unsynced_for().map(|long| LINGER.saturating_sub(long));
        let pauses = [look.map(|at| at.since(now)), linger, self.journal.until_due()];
        self.inbox = self.attempts.wait(pauses.into_iter().flatten().min())?;
        let now = self.state.schedule().now();
        if self.inbox.is_empty() && look.is_some_and(|at| at <= now) {
            self.inbox.push(News::Wakeup);
        }
        Ok(())
    }

    /// Gives up the lead of a run that has ended, or is left to another process.
    fn finish(&mut self, over: Over, watch: &mut dyn FnMut(&Update<'_>)) -> Result<End, RunError> {
        let (Over::Plain(end) | Over::Closed(end)) = over;
        if let Over::Closed(_) = over {
            self.state.show_rest(watch);
        }
        self.attempts.finish()?;
        self.hand_records_over();
        let stored = self.state.stored_end(end);
        self.write(watch, |journal, state, on_wait| {
            journal.finish(state.schedule_mut(), stored, on_wait)
        })?;
        #[cfg(windlass_faults)]
        Point::AfterStepDown.reached();
        if let Over::Plain(_) = over {
            self.state.publish(watch);
        }
        Ok(end)
    }

    /// Shows what was committed and not yet shown, of a run that cannot continue.
    fn show_committed(&mut self, watch: &mut dyn FnMut(&Update<'_>)) {
        let synced = |journal: &mut J, _: &mut RunState, on_wait: OnWait<'_>| {
            journal.sync(SyncScope::Stored, on_wait)
        };
        if !self.journal.has_failed() && self.write(watch, synced).is_ok() {
            self.state.publish(watch);
        }
    }

    /// Ends what runs, because of a signal that has ended a wait for the store.
    fn leave(&mut self, watch: &mut dyn FnMut(&Update<'_>)) -> Result<End, RunError> {
        watch(&Update::Stopping);
        let mut last = None;
        loop {
            for news in std::mem::take(&mut self.inbox) {
                if let News::Signal(signal) = news {
                    self.state.on_signal(signal);
                    last = Some(signal);
                }
            }
            self.stop()?;
            if self.attempts.is_idle() {
                let signal = last.expect("only a signal interrupts a wait for the store");
                return Ok(End::Interrupted { signal });
            }
            self.inbox = self.attempts.wait(None)?;
        }
    }
}

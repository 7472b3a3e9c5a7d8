//! Waits for whatever comes next, and is there for others meanwhile.

use std::time::{Duration, Instant};

use windlass_store::Topic;
use windlass_workflow::Plan;

use super::bells::Bells;
use super::leader::terms;
use super::pass::Running;
use super::starting::cannot_log;
use super::{Coordinator, News, RunError, heeds_events, needs_names};
use crate::processes::{Prepared, Woken};
use crate::pulse::Pulse;

/// How often to look though nobody rang: a holder that was killed rings for nobody.
const NET: Duration = Duration::from_secs(1);
/// How long a run lasts before others can reach it, though they could have left something for it: most
/// small ones are over by then, and need neither bells nor a pulse.
const BRIEF: Duration = Duration::from_millis(20);
/// How long until a run tries again to be there for others, if it had no room for that.
const ROOM_PAUSE: Duration = Duration::from_millis(100);
/// How long it may take until it is. Its heartbeats have to come in time.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);
/// How long a sync may wait for more to sync. Nobody sees the difference, and steps that take less time
/// than a sync need not wait for one each.
const LINGER: Duration = Duration::from_millis(50);

impl Coordinator {
    /// Whether a sync can wait a moment for what comes next: nothing depends on it, and there is
    /// nothing to tell that anybody waits for.
    pub(super) fn may_linger(&self, follow: &[Prepared]) -> bool {
        let young = self.keeper.unsynced_for().is_some_and(|long| long < LINGER);
        let due = !follow.is_empty()
            || !self.due_finally.is_empty()
            || self.hooks.are_due()
            || !self.uncleaned.is_empty()
            || !self.conditions.is_empty();
        let told = !self.whys.is_empty() || !self.notices.is_empty();
        let ends = self.running.is_empty() || self.stop.is_some() || self.closing.is_some();
        young && !due && !told && !ends && self.schedule.all_is_well()
    }

    /// Waits until something happens, or time has come for something.
    pub(super) fn wait(&mut self) -> Result<(), RunError> {
        self.store_when_due()?;
        if self.until_there() == Some(Duration::ZERO) {
            self.be_there_if_there_is_room()?;
        }
        if !self.inbox.is_empty() {
            return Ok(());
        }
        let what = "processes cannot be waited for";
        let linger = self.keeper.unsynced_for().map(|long| LINGER.saturating_sub(long));
        let room = self.waiting.until_try();
        let pauses = [linger, self.keeper.until_stored(), self.until_there(), room];
        let pause = pauses.into_iter().flatten().min();
        let patience = self.patience();
        // After which there is something to store, sync or start, or somebody to be there for, and
        // nothing to take in.
        let pauses = pause.is_some_and(|pause| patience.is_none_or(|other| pause < other));
        let woken = self.processes.wait(if pauses { pause } else { patience });
        let woken = woken.map_err(|source| RunError::Io { what, source })?;
        let Woken { over, news, rang, log_error } = woken;
        if let Some(source) = log_error {
            return Err(cannot_log(source));
        }
        let exited = over.into_iter().map(|(job, ended)| News::Exited { job, ended });
        self.inbox.extend(exited);
        if news {
            self.inbox.extend(self.news.take());
        }
        if rang {
            self.bells.hush();
            self.inbox.push(News::Rang);
        }
        // Nobody rang in time, which may be because nobody could.
        if self.inbox.is_empty() && !pauses {
            self.inbox.push(News::Rang);
        }
        Ok(())
    }

    /// How long until there is something to take in, though nobody says so.
    fn patience(&self) -> Option<Duration> {
        let looks = [self.schedule.engine().next_wakeup(), self.conditions.next_look()];
        let due = looks.into_iter().flatten().min().map(|due| due.since(self.schedule.now()));
        let nets = self.schedule.waits_outside() || self.conditions.heeds_events();
        let kill =
            self.running.values().filter_map(Running::kill_at).chain(self.hooks.end_at()).min();
        let kill = kill.map(|at| at.saturating_duration_since(Instant::now()));
        // What was cleared away just now is had by asking again, and nobody rings for it.
        let cleared = (!self.ended.is_empty()).then_some(Duration::ZERO);
        [due, nets.then_some(NET), kill, cleared].into_iter().flatten().min()
    }

    /// How long until others can reach the run; none if they can. One that deals with others does not
    /// put that off.
    fn until_there(&self) -> Option<Duration> {
        let brief = if self.bells.is_empty() { BRIEF } else { Duration::ZERO };
        let due = self.there_at.unwrap_or(self.began + brief);
        self.pulse.is_none().then(|| due.saturating_duration_since(Instant::now()))
    }

    /// Is there for others from now on, or tries again later if there is no room for another thread or
    /// open file, unless that has lasted for too long.
    fn be_there_if_there_is_room(&mut self) -> Result<(), RunError> {
        match self.be_there() {
            Err(error) if error.is_no_room() && self.began.elapsed() < ROOM_PATIENCE => {
                self.there_at = Some(Instant::now() + ROOM_PAUSE);
                Ok(())
            }
            there => there,
        }
    }

    /// Is there for others from now on.
    fn be_there(&mut self) -> Result<(), RunError> {
        if self.bells.is_empty() {
            self.bells = Bells::hang(&self.store, topics(self.schedule.plan()))?;
        }
        let (process, terms) = (self.leader.process.clone(), terms(self.schedule.plan()));
        let what = "heartbeats cannot be sent";
        let pulse = Pulse::of_process(self.store.opener(), process, terms);
        self.pulse = Some(pulse.map_err(|source| RunError::Io { what, source })?);
        let what = "bells cannot be heard";
        let heard = self.bells.iter().try_for_each(|bell| self.processes.hear(bell));
        heard.map_err(|source| RunError::Io { what, source })?;
        // Whoever was earlier has rung for nobody.
        self.inbox.push(News::Rang);
        Ok(())
    }
}

/// The bells that matter to a run of `plan`.
pub(super) fn topics(plan: &Plan) -> Vec<Topic> {
    let names = plan.steps.iter().any(needs_names).then_some(Topic::Turn);
    let events = heeds_events(plan).then_some(Topic::Events);
    [Some(Topic::Requests), names, events].into_iter().flatten().collect()
}

//! Decides in each round what starts: it hands each run what concerns it, and has the runs start steps in turn
//! until none finds room for another.
//!
//! Everything it changes in the store is part of the caller's transaction.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass_core::Token;
use windlass_store::{Delivery, Leftover, Name, Need, StoreError, Transaction};

use super::inbox::Inbox;
use super::news::SchedulerNews;
use super::runs::Runs;
use crate::coordinator::served::{EndLeftovers, Host, QueuePlace, RoundEnd, ServedRun, StepStart};
use crate::coordinator::{LOOKED_AT, RunError, run_of};
use crate::participant::{Asking, LimitTurn, Participant};
use crate::schedule::LimitWait;
use crate::service::placement::Placement;

/// The interval between two rounds without a wake-up.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The same while nothing is under way.
const IDLE: Duration = Duration::from_secs(5);
/// The same where wake-ups come with commits.
const IDLE_AND_TOLD: Duration = Duration::from_secs(60);

/// Decides what the runs of a scheduler start.
pub(super) struct Dispatcher {
    host: Host,
    runs: Runs,
    inbox: Inbox,
    placement: Placement,
    /// The workers have changed since the last decisions.
    workers_changed: bool,
    /// All runs together, as those that take from the limits of the store.
    participant: Participant,
    /// Stale holds of limits whose processes were ended, so that the next round can take them.
    cleared: Vec<(Name, Token)>,
    /// What dead holders of limits have left running.
    leftovers: Vec<Leftover>,
}

impl Dispatcher {
    pub(super) fn new(host: Host) -> Self {
        Self {
            participant: Participant::of_scheduler(host.process().clone()),
            placement: Placement::new(host.capacity.clone()),
            host,
            runs: Runs::default(),
            inbox: Inbox::default(),
            workers_changed: false,
            cleared: Vec::new(),
            leftovers: Vec::new(),
        }
    }

    /// Returns whether no run has anything to do.
    pub(super) fn is_idle(&self) -> bool {
        self.runs.values().all(ServedRun::is_idle)
    }

    /// Returns how long until there is something to do without a wake-up.
    pub(super) fn pause(&self, delivery: Delivery) -> Duration {
        let due = |run: &ServedRun| Some(run.next_due()?.since(run.now()));
        if !self.cleared.is_empty() {
            return Duration::ZERO;
        }
        let first = self.runs.values().filter_map(due).min();
        let look = match delivery {
            _ if !self.is_idle() => LOOK_AGAIN,
            Delivery::WithCommit => IDLE_AND_TOLD,
            Delivery::AfterCommit => IDLE,
        };
        first.unwrap_or(look).min(look)
    }

    /// Returns whether a round has anything to do.
    pub(super) fn has_news(&mut self, transaction: &Transaction<'_>) -> Result<bool, StoreError> {
        self.workers_changed |= self.placement.look(transaction)?;
        Ok(self.workers_changed
            || self.runs.are_touched()
            || !self.cleared.is_empty()
            || self.inbox.has_news(transaction, &self.runs)?)
    }

    /// Drops the runs that a round has changed whose commit is not known. They are adopted again.
    pub(super) fn drop_touched(&mut self) {
        if !self.runs.are_touched() {
            return;
        }
        self.runs.drop_touched();
        self.workers_changed = true;
        self.inbox.go_back();
    }

    /// Notes that the store has everything that the last round has decided.
    pub(super) fn note_committed(&mut self) {
        self.runs.note_committed();
        self.inbox.note_committed();
    }

    /// Does what a committed round has to do outside the store.
    pub(super) fn clean_up(&mut self, end_leftovers: EndLeftovers<'_>) -> Result<(), RunError> {
        for run in self.runs.values_mut() {
            run.end_leftovers(end_leftovers)?;
            run.remove_old_logs();
        }
        let leftovers = std::mem::take(&mut self.leftovers);
        self.cleared = end_leftovers(leftovers)?;
        Ok(())
    }

    /// Adopts new runs, has each run decide that something concerns, and each that gets room by that.
    pub(super) fn decide(
        &mut self,
        transaction: &Transaction<'_>,
        wakeup: &str,
        news: &mut Vec<SchedulerNews>,
    ) -> Result<(), StoreError> {
        self.runs.adopt_unknown(transaction, &self.host, news)?;
        let place = self.participant.place().clone();
        let turn = QueuePlace { wakeup: Some(wakeup), place: &place };
        let mut open = self.begin(transaction)?;
        // All runs have given back names by then, and holds have moved to lives that are there.
        self.wake_refused(transaction, turn, &mut open)?;
        let limits: BTreeSet<_> = self.runs.values().flat_map(ServedRun::limits).collect();
        if limits.is_empty() {
            // The runs that have waited have ended.
            self.participant.leave(transaction)?;
        }
        self.participant.set_limits(limits);
        let cleared = self.cleared.clone();
        let users = self.runs.values().filter(|run| run.uses_limits());
        let priority = users.map(ServedRun::priority).max().unwrap_or_default();
        let asking = Asking { priority, wakeup: Some(wakeup), cleared: &cleared };
        self.leftovers.clear();
        let mut rooms = self.participant.share(transaction, asking, &self.host.capacity)?;
        let mut has_started = false;
        loop {
            has_started |= self.start_all(transaction, turn, &mut open, news)?;
            let wait = self.limit_wait();
            let (participant, wait) = (&self.participant, wait.as_ref());
            match participant.queue(transaction, asking, &rooms, wait, has_started)? {
                LimitTurn::Refused(refused) => self.leftovers.extend(refused.leftovers),
                LimitTurn::Free => {
                    let before = rooms;
                    rooms = participant.share(transaction, asking, &self.host.capacity)?;
                    if rooms != before {
                        continue;
                    }
                }
                LimitTurn::Nothing | LimitTurn::Impossible(_) => {}
            }
            return Ok(());
        }
    }

    #[cfg(test)]
    pub(super) fn digests(&self) -> impl Iterator<Item = (&str, u64)> {
        self.runs.digests()
    }

    /// Hands each run what concerns it. Returns the runs that have something to decide.
    fn begin(&mut self, transaction: &Transaction<'_>) -> Result<BTreeSet<String>, StoreError> {
        let changed = self.placement.look(transaction)?;
        let mut news = self.inbox.take(transaction, &self.runs)?;
        if changed || std::mem::take(&mut self.workers_changed) {
            for (run, _) in self.runs.iter() {
                news.entry(run.clone()).or_default();
            }
        }
        let mut open = BTreeSet::new();
        for (id, round) in news {
            self.runs.touch(&id).begin_round(transaction, round, &self.placement)?;
            self.runs.want_turn(&id);
            open.insert(id);
        }
        Ok(open)
    }

    /// Returns what the first run in turn waits for that lacks nothing but limits of the store.
    fn limit_wait(&mut self) -> Option<LimitWait> {
        let waits = self.runs.values_mut().filter_map(ServedRun::limit_wait);
        waits.min_by_key(|wait| (Reverse(wait.priority), wait.turn))
    }

    /// Has runs start steps until none finds room for another, and those in `open` and those that start
    /// something decide what follows. Returns whether a step has started that holds some of a limit.
    fn start_all(
        &mut self,
        transaction: &Transaction<'_>,
        turn: QueuePlace<'_>,
        open: &mut BTreeSet<String>,
        news: &mut Vec<SchedulerNews>,
    ) -> Result<bool, StoreError> {
        let mut has_started = false;
        loop {
            has_started |= self.start_in_turn(transaction, turn, open)?;
            let Some(id) = open.pop_first() else { return Ok(has_started) };
            match self.runs.touch(&id).end_round(transaction, &self.placement, turn)? {
                RoundEnd::Done => {}
                RoundEnd::MayStart => {
                    self.runs.want_turn(&id);
                    open.insert(id);
                }
                RoundEnd::Over(end) => {
                    self.runs.forget(&id);
                    news.push(SchedulerNews::Ended { run: id, end });
                }
            }
        }
    }

    /// Wakes the steps that names have refused and that may have them now. Of all runs that wait for the same
    /// names, those look whose turn has come, and the first: what refuses it refuses the others, too. So a
    /// round costs as much however many wait. Adds the runs that have looked to `open`.
    fn wake_refused(
        &mut self,
        transaction: &Transaction<'_>,
        turn: QueuePlace<'_>,
        open: &mut BTreeSet<String>,
    ) -> Result<(), StoreError> {
        let mut waiting: BTreeMap<Vec<Need>, BTreeSet<&str>> = BTreeMap::new();
        for (id, run) in self.runs.iter() {
            for needs in run.refused_needs() {
                waiting.entry(needs).or_default().insert(id);
            }
        }
        let mut looks: BTreeSet<(String, Vec<Need>)> = BTreeSet::new();
        for (needs, runs) in waiting {
            let first = transaction.leases().first_waiters(&needs, LOOKED_AT)?;
            let ours = first.iter().filter_map(|waiter| {
                let run = run_of(&waiter.holder).filter(|run| runs.contains(run))?;
                Some((run, waiter.notified_at.is_some()))
            });
            let ours: Vec<_> = ours.collect();
            let called = ours.iter().filter(|(_, is_called)| *is_called).map(|(run, _)| *run);
            let first = ours.first().map(|(run, _)| *run).or(runs.first().copied());
            looks.extend(called.chain(first).map(|run| (run.to_owned(), needs.clone())));
        }
        for (id, needs) in looks {
            self.runs.touch(&id).wake_refused(transaction, &needs, turn)?;
            self.runs.want_turn(&id);
            open.insert(id);
        }
        Ok(())
    }

    /// Offers room at workers to the runs that wait for it. Returns whether one may have it.
    fn offer_workers(&mut self) -> bool {
        let clients = self.host.capacity.pass_on();
        clients.iter().for_each(|client| self.runs.offer_workers(*client));
        !clients.is_empty()
    }

    /// Has the runs start steps, one at a time and in turn, until none finds room for another. Adds those
    /// that have decided something to `open`. Returns whether a step has started that holds some of a limit.
    fn start_in_turn(
        &mut self,
        transaction: &Transaction<'_>,
        turn: QueuePlace<'_>,
        open: &mut BTreeSet<String>,
    ) -> Result<bool, StoreError> {
        let mut has_started = false;
        // Before a run searches, all room at workers is offered to those that have waited for it.
        self.offer_workers();
        loop {
            for client in self.host.capacity.take_woken() {
                self.runs.wake(client);
            }
            let Some(id) = self.runs.next_in_turn() else {
                match self.offer_workers() {
                    true => continue,
                    false => return Ok(has_started),
                }
            };
            let run = self.runs.touch(&id);
            let started = run.start_next(transaction, &self.placement, turn)?;
            if started != StepStart::Nothing {
                self.runs.took_turn(&id);
            }
            has_started |= started == StepStart::WithLimits;
            open.insert(id);
        }
    }
}

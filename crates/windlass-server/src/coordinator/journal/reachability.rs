//! How other processes reach a run: wake-ups, and heartbeats that keep its holds alive.
//!
//! Most small runs are over within milliseconds, so both begin a moment later than the run, unless its
//! steps share names or events with other processes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use windlass_store::{LeaseTerms, Process, Store, StoreError, Topic};
use windlass_workflow::Plan;

use super::super::{RunError, heeds_events, needs_names};
use super::admission::terms;
use super::wakeups::Wakeups;
use crate::heartbeat::Heartbeat;

/// How long a run lasts before other processes can reach it. What they left for it before is found then.
const BRIEF: Duration = Duration::from_millis(20);
/// How long until a run that had no room for it tries again to become reachable.
const ROOM_PAUSE: Duration = Duration::from_millis(100);
/// How long a run may be unreachable for want of room. Its heartbeats have to come in time.
const ROOM_PATIENCE: Duration = Duration::from_secs(10);

/// Whether and how other processes reach a run.
pub(super) struct Reachability {
    process: Process,
    topics: Vec<Topic>,
    terms: LeaseTerms,
    wakeups: Wakeups,
    heartbeat: Option<Heartbeat>,
    began: Instant,
    /// When to try again, if there was no room.
    retry_at: Option<Instant>,
}

impl Reachability {
    /// Registers the wake-ups of a run whose steps share names or events; those of other runs are
    /// registered when they become reachable.
    pub(super) fn new(store: &Store, process: Process, plan: &Plan) -> Result<Self, StoreError> {
        let topics = topics(plan);
        let wakeups = match topics == [Topic::Requests] {
            true => Wakeups::default(),
            false => Wakeups::register(store, &topics)?,
        };
        Ok(Self {
            process,
            topics,
            terms: terms(plan),
            wakeups,
            heartbeat: None,
            began: Instant::now(),
            retry_at: None,
        })
    }

    pub(super) fn wakeups(&self) -> &Wakeups {
        &self.wakeups
    }

    /// Returns how long until the run is to become reachable; none if it is.
    pub(super) fn until_due(&self) -> Option<Duration> {
        let brief = if self.wakeups.is_empty() { BRIEF } else { Duration::ZERO };
        let due = self.retry_at.unwrap_or(self.began + brief);
        self.heartbeat.is_none().then(|| due.saturating_duration_since(Instant::now()))
    }

    /// Becomes reachable if it is time to, and returns whether it has. A run that has no room for
    /// another thread or open file tries again later, unless that has lasted for too long.
    pub(super) fn on_due(
        &mut self,
        store: &Store,
        watch: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<()>,
    ) -> Result<bool, RunError> {
        if self.until_due() != Some(Duration::ZERO) {
            return Ok(false);
        }
        match self.begin(store, watch) {
            Err(error) if error.is_no_room() && self.began.elapsed() < ROOM_PATIENCE => {
                self.retry_at = Some(Instant::now() + ROOM_PAUSE);
                Ok(false)
            }
            begun => begun.map(|()| true),
        }
    }

    fn begin(
        &mut self,
        store: &Store,
        watch: &mut dyn FnMut(BorrowedFd<'_>) -> io::Result<()>,
    ) -> Result<(), RunError> {
        if self.wakeups.is_empty() {
            self.wakeups = Wakeups::register(store, &self.topics)?;
        }
        let heartbeat = Heartbeat::of_process(store, self.process.clone(), self.terms);
        let what = "heartbeats cannot be sent";
        let heartbeat = heartbeat.map_err(|source| RunError::Io { what, source })?;
        let watched = self.wakeups.iter().try_for_each(|wakeup| watch(wakeup.as_fd()));
        let what = "wake-ups cannot be watched";
        watched.map_err(|source| RunError::Io { what, source })?;
        self.heartbeat = Some(heartbeat);
        Ok(())
    }
}

/// Returns the topics that can wake a run of `plan`.
fn topics(plan: &Plan) -> Vec<Topic> {
    let names = plan.steps.iter().any(needs_names).then_some(Topic::Turn);
    let events = heeds_events(plan).then_some(Topic::Events);
    [Some(Topic::Requests), names, events].into_iter().flatten().collect()
}

//! Processes that wait for room: as many files are open, or as many processes run, as the system lets
//! us have.
//!
//! The leader tries them again, in their order, whenever a process of the run has ended, and after a
//! pause, because the kernel does not tell when another program has given room back. An attempt fails
//! for want of room only if no process of its run is left to wait for.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use super::starting::why_not;
use super::{Coordinator, Notice, RunError};
use crate::files;
use crate::processes::{CANNOT_START, Job, NotStarted, Prepared};

/// How long until a start is tried again though nothing of the run has ended.
const PAUSE: Duration = Duration::from_millis(100);
/// How long room is waited for while nothing of the run runs.
const PATIENCE: Duration = Duration::from_secs(2);

/// The processes that wait for room, the first one first.
#[derive(Default)]
pub(super) struct Waiting {
    queue: VecDeque<Prepared>,
    /// When it was tried last.
    tried: Option<Instant>,
    /// Since when nothing of the run has been running while they waited.
    alone_since: Option<Instant>,
}

impl Waiting {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns how long until they are tried again; none if none waits.
    pub(super) fn until_try(&self) -> Option<Duration> {
        let tried = self.tried.filter(|_| !self.is_empty())?;
        Some(PAUSE.saturating_sub(tried.elapsed()))
    }

    /// Takes out the process of a job.
    fn remove(&mut self, job: Job) -> Option<Prepared> {
        let place = self.queue.iter().position(|prepared| prepared.job() == job)?;
        self.queue.remove(place)
    }
}

impl Coordinator {
    /// Starts a process. One for which there is no room waits, behind those that wait already.
    pub(super) fn start_with_room(&mut self, prepared: Prepared) -> Result<(), Box<NotStarted>> {
        if !self.waiting.is_empty() {
            self.waiting.queue.push_back(prepared);
            return Ok(());
        }
        match self.processes.start(prepared) {
            Err(not) if files::is_no_room(&not.error) => {
                let NotStarted { prepared, error } = *not;
                self.tell_lack(&error);
                self.waiting.queue.push_back(prepared);
                (self.waiting.tried, self.waiting.alone_since) = (Some(Instant::now()), None);
                Ok(())
            }
            started => started,
        }
    }

    fn tell_lack(&mut self, error: &io::Error) {
        let what = format!("there is no room for another process, so the next ones wait: {error}");
        self.notices.push(Notice::Said(what));
    }

    /// Tries again to start those that wait, if it is time for it.
    pub(super) fn try_waiting(&mut self) -> Result<(), RunError> {
        let ended = !self.inbox.is_empty();
        let due = self.waiting.until_try().is_some_and(|left| left.is_zero());
        if self.waiting.is_empty() || !(ended || due) {
            return Ok(());
        }
        self.waiting.tried = Some(Instant::now());
        while let Some(first) = self.waiting.queue.pop_front() {
            let Some(first) = self.unless_name_lost(first)? else { continue };
            match self.processes.start(first) {
                Ok(()) => {}
                Err(not) if files::is_no_room(&not.error) && self.has_patience() => {
                    self.waiting.queue.push_front(not.prepared);
                    break;
                }
                Err(not) => {
                    self.never_began(not.prepared.job(), not.prepared.log(), why_not(&not));
                }
            }
        }
        Ok(())
    }

    /// Whether something of the run may still give room, or the time for others to do so is not over.
    fn has_patience(&mut self) -> bool {
        if !self.processes.is_idle() {
            self.waiting.alone_since = None;
            return true;
        }
        let since = *self.waiting.alone_since.get_or_insert_with(Instant::now);
        since.elapsed() < PATIENCE
    }

    /// Has a process that waits for room end before it has begun. Returns whether it was one.
    pub(super) fn end_waiting(&mut self, job: Job) -> bool {
        let Some(prepared) = self.waiting.remove(job) else { return false };
        let why = "it was ended while it waited for room for another process".to_owned();
        self.never_began(job, prepared.log(), (CANNOT_START, why));
        true
    }

    /// The same for all of them.
    pub(super) fn end_all_waiting(&mut self) {
        while let Some(job) = self.waiting.queue.front().map(Prepared::job) {
            self.end_waiting(job);
        }
    }
}

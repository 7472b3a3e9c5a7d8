//! What a run does while another process keeps writers out of the store.
//!
//! Output is taken, timers of orders are heeded, ends and signals are collected for later. The time of the run
//! pauses, and its leases are kept. Users learn once which process the run waits for.

use std::ops::ControlFlow;
use std::time::Duration;

use windlass_core::Timestamp;
use windlass_store::{StoreError, WriterWait};

use super::super::attempts::{Attempts, News};
use super::super::{RunError, Update};
use crate::clock::Clock;

/// How often to look at what runs.
const LOOK: Duration = Duration::from_millis(50);

pub(super) struct Meanwhile<'a, 'w, A> {
    attempts: &'a mut A,
    inbox: &'a mut Vec<News>,
    watch: &'a mut (dyn FnMut(&Update<'_>) + 'w),
    clock: Clock,
    /// Until when the clock was paused, on a clock that does not pause.
    paused: Timestamp,
    told: bool,
    /// Why the wait has ended, if it is not a signal.
    failure: Option<RunError>,
}

impl<'a, 'w, A: Attempts> Meanwhile<'a, 'w, A> {
    pub(super) fn new(
        attempts: &'a mut A,
        inbox: &'a mut Vec<News>,
        watch: &'a mut (dyn FnMut(&Update<'_>) + 'w),
        clock: Clock,
    ) -> Self {
        let paused = clock.with_pauses();
        Self { attempts, inbox, watch, clock, paused, told: false, failure: None }
    }

    /// Has everything that has begun go on for a moment. Interrupts the wait for a signal.
    pub(super) fn go_on(&mut self, wait: &dyn WriterWait) -> ControlFlow<StoreError, Duration> {
        let now = self.clock.with_pauses();
        self.clock.pause(now.since(self.paused));
        self.paused = now;
        if wait.is_long() {
            wait.keep_leases();
            if !std::mem::replace(&mut self.told, true) {
                let waits = format!("waiting for the store: {}", wait.blocker());
                (self.watch)(&Update::Notice(&waits));
            }
        }
        match self.attempts.wait(Some(Duration::ZERO)) {
            Ok(news) => self.inbox.extend(news),
            Err(error) => {
                self.failure = Some(error);
                return ControlFlow::Break(StoreError::Interrupted);
            }
        }
        match self.inbox.iter().any(|news| matches!(news, News::Signal(_))) {
            true => ControlFlow::Break(StoreError::Interrupted),
            false => ControlFlow::Continue(LOOK),
        }
    }

    pub(super) fn failure(self) -> Option<RunError> {
        self.failure
    }
}

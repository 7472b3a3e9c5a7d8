//! What goes on while another process keeps this one from writing to the store.
//!
//! Output is taken, timers of orders are heeded, ends and signals are collected for later, and leases are
//! kept. The user learns once which process is waited for.

use std::ops::ControlFlow;
use std::time::Duration;

use windlass_store::{Blocker, StoreError, WriterWait};

use super::super::RunError;
use super::{Attempts, News};

/// How often to look at what runs.
const LOOK: Duration = Duration::from_millis(50);

/// One write to the store, and what goes on if it has to wait.
pub(crate) struct Meanwhile<'a, A, K> {
    attempts: &'a mut A,
    inbox: &'a mut Vec<News<K>>,
    tell: &'a mut dyn FnMut(&Blocker),
    told: bool,
    /// What has failed meanwhile, which has ended the wait.
    failure: Option<RunError>,
}

impl<'a, A: Attempts<K>, K> Meanwhile<'a, A, K> {
    pub(crate) fn new(
        attempts: &'a mut A,
        inbox: &'a mut Vec<News<K>>,
        tell: &'a mut dyn FnMut(&Blocker),
    ) -> Self {
        Self { attempts, inbox, tell, told: false, failure: None }
    }

    /// Has everything that has begun go on for a moment. Interrupts the wait for a signal, and
    /// when what was ordered is ended.
    pub(crate) fn go_on(&mut self, wait: &dyn WriterWait) -> ControlFlow<StoreError, Duration> {
        if wait.is_long() {
            wait.keep_leases();
            if !std::mem::replace(&mut self.told, true) {
                (self.tell)(&wait.blocker());
            }
        }
        match self.attempts.wait(Some(Duration::ZERO)) {
            Ok(news) => news.into_iter().for_each(|news| self.collect(news)),
            Err(error) => {
                self.failure = Some(error);
                return ControlFlow::Break(StoreError::Interrupted);
            }
        }
        match self.has(|news| matches!(news, News::Signal(_) | News::LifeOver)) {
            true => ControlFlow::Break(StoreError::Interrupted),
            false => ControlFlow::Continue(LOOK),
        }
    }

    /// Returns what has failed meanwhile.
    pub(crate) fn failure(self) -> Option<RunError> {
        self.failure
    }

    /// Adds what has happened to the inbox; a wake-up that is not heeded comes again and again.
    fn collect(&mut self, news: News<K>) {
        let is_wakeup = |news: &News<K>| matches!(news, News::Wakeup);
        if !is_wakeup(&news) || !self.has(is_wakeup) {
            self.inbox.push(news);
        }
    }

    fn has(&self, is_it: impl Fn(&News<K>) -> bool) -> bool {
        self.inbox.iter().any(is_it)
    }
}

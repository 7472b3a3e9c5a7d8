//! Listens to the bells of a run, and tells when one has rung.

use std::io::{self, PipeWriter};
use std::os::fd::AsFd;
use std::thread;

use windlass_store::{Bell, Store, Topic};

use super::{News, RunError};
use crate::mailbox::Sender;
use crate::poll::poll;

/// Listens until it is dropped.
pub(super) struct BellWatch {
    turn: Option<String>,
    /// Closed to end the thread.
    stop: Option<PipeWriter>,
    thread: Option<thread::JoinHandle<()>>,
}

impl BellWatch {
    pub(super) fn start(
        store: &Store,
        topics: Vec<Topic>,
        tell: Sender<News>,
    ) -> Result<Self, RunError> {
        let mut bells = Vec::new();
        let mut turn = None;
        for topic in topics {
            let bell = store.hang(&topic)?;
            if topic == Topic::Turn {
                turn = Some(bell.name().to_owned());
            }
            bells.push(bell);
        }
        let what = "bells cannot be heard";
        let (stopped, stop) = io::pipe().map_err(|source| RunError::Io { what, source })?;
        let thread = thread::Builder::new().spawn(move || {
            let mut sources: Vec<&dyn AsFd> = vec![&stopped];
            sources.extend(bells.iter().map(|bell| bell as &dyn AsFd));
            while let Ok(ready) = poll(&sources, None)
                && !ready[0]
            {
                bells.iter().for_each(Bell::hush);
                // Nobody listens any more once the run has ended.
                let _ = tell.send(News::Rang);
            }
        });
        let thread = thread.map_err(|source| RunError::Io { what, source })?;
        Ok(Self { turn, stop: Some(stop), thread: Some(thread) })
    }

    /// By which whoever gives a name back rings; none where no step needs names.
    pub(super) fn turn(&self) -> Option<&str> {
        self.turn.as_deref()
    }
}

impl Drop for BellWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It does nothing that could panic.
            let _ = thread.join();
        }
    }
}

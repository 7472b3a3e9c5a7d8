//! Listens for the places in line that a run has, and tells when one may have come up.

use std::io::{self, PipeWriter};
use std::thread;

use windlass_store::Bell;

use super::News;
use crate::mailbox::Sender;
use crate::poll::poll;

/// Listens until it is dropped.
pub(super) struct TurnWatch {
    bell: String,
    /// Closed to end the thread.
    stop: Option<PipeWriter>,
    thread: Option<thread::JoinHandle<()>>,
}

impl TurnWatch {
    pub(super) fn start(bell: Bell, tell: Sender<News>) -> io::Result<Self> {
        let (stopped, stop) = io::pipe()?;
        let name = bell.name().to_owned();
        let thread = thread::spawn(move || {
            while let Ok(ready) = poll(&[&bell, &stopped], None)
                && !ready[1]
            {
                bell.hush();
                // Nobody listens any more once the run has ended.
                let _ = tell.send(News::Turn);
            }
        });
        Ok(Self { bell: name, stop: Some(stop), thread: Some(thread) })
    }

    /// By which whoever gives a name back rings.
    pub(super) fn bell(&self) -> &str {
        &self.bell
    }
}

impl Drop for TurnWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It does nothing that could panic.
            let _ = thread.join();
        }
    }
}

//! The processes of a service: a scheduler and a worker, which end with this program.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use crate::Place;

/// How long to wait for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A scheduler and a worker.
pub struct Service {
    /// `windlass serve --no-worker`.
    pub scheduler: Process,
    /// `windlass worker`.
    pub worker: Process,
}

/// A process that tells what happens, and is killed when this value is dropped.
pub struct Process {
    child: Child,
    told: Receiver<(Instant, String)>,
}

impl Service {
    /// Starts both, and waits until they are ready.
    pub fn start(place: &Place, slots: usize) -> Self {
        let mut scheduler = Process::scheduler(place);
        scheduler.await_event("leading");
        let mut worker = Process::worker(place, slots);
        worker.await_event("ready");
        Self { scheduler, worker }
    }
}

impl Process {
    /// Starts a scheduler.
    pub fn scheduler(place: &Place) -> Self {
        Self::start(place, &["--json", "serve", "--no-worker"])
    }

    /// Starts a worker.
    pub fn worker(place: &Place, slots: usize) -> Self {
        let slots = slots.to_string();
        Self::start(place, &["--json", "worker", "--name", "bench", "--slots", &slots])
    }

    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.command(arguments);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let lines = BufReader::new(child.stderr.take().expect("it is a pipe")).lines();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The receiver may not be interested any more.
                let _ = tell.send((Instant::now(), line));
            }
        });
        Self { child, told }
    }

    /// Returns the pid.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns when the process has told an event.
    pub fn await_event(&mut self, event: &str) -> Instant {
        let wanted = format!("\"event\":\"{event}\"");
        loop {
            let (when, line) = self.told.recv_timeout(PATIENCE).expect("it tells the event");
            if line.contains(&wanted) {
                return when;
            }
        }
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        // It may have ended.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

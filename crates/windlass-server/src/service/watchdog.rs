//! Tells systemd that this process is ready and alive, if a unit asks for it.
//!
//! The loop of the worker beats, not a thread of its own, so that a loop that hangs is noticed.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process;
use std::time::{Duration, Instant};

/// The watchdog of the unit that this process is the main one of; does nothing without one.
#[derive(Default)]
pub(super) struct Watchdog {
    socket: Option<UnixDatagram>,
    /// The interval between two beats.
    every: Duration,
    last: Option<Instant>,
}

impl Watchdog {
    /// Connects to the socket that systemd names in the environment of a service.
    pub(super) fn of_process() -> Self {
        let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
        // A step inherits the variables, and is not the process that they are for.
        let is_for_us = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(process::id()));
        let limit = number("WATCHDOG_USEC").map_or(Duration::MAX, Duration::from_micros);
        let socket = env::var("NOTIFY_SOCKET").ok().filter(|_| is_for_us);
        Self { socket: socket.and_then(|path| connect(&path)), every: limit / 4, last: None }
    }

    /// Says that the service has started.
    pub(super) fn ready(&self) {
        self.tell("READY=1");
    }

    /// Says that the process is alive, if it is time for that.
    pub(super) fn beat(&mut self) {
        if self.socket.is_some() && self.last.is_none_or(|last| last.elapsed() >= self.every) {
            self.tell("WATCHDOG=1");
            self.last = Some(Instant::now());
        }
    }

    /// Returns the longest time that the process may wait before it beats again.
    pub(super) fn longest_wait(&self) -> Duration {
        match self.socket {
            Some(_) => self.every,
            None => Duration::MAX,
        }
    }

    fn tell(&self, text: &str) {
        // Without an answer, systemd ends the service, and nothing else can be done about it here.
        let _ = self.socket.as_ref().map(|socket| socket.send(text.as_bytes()));
    }
}

/// Connects to a socket by its path, or by its abstract name behind an `@`.
fn connect(path: &str) -> Option<UnixDatagram> {
    let address = match path.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(path),
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect_addr(&address.ok()?).ok()?;
    // A full queue must not stop the worker.
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}

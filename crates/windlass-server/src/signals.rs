//! Ctrl-C and SIGTERM, as messages.

use std::io;
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

/// Calls back for every signal until it is dropped.
pub(crate) struct SignalWatch {
    handle: Handle,
    thread: Option<thread::JoinHandle<()>>,
}

impl SignalWatch {
    pub(crate) fn start(mut tell: impl FnMut(i32) + Send + 'static) -> io::Result<Self> {
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let thread = thread::spawn(move || signals.forever().for_each(&mut tell));
        Ok(Self { handle, thread: Some(thread) })
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // It can only panic in the callback, which has been reported then.
            let _ = thread.join();
        }
    }
}

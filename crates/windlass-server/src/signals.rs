//! Signals to this process, delivered as callbacks or through a pipe that can be polled.
//!
//! A run's leader takes signals that ask it to end, and survives those that would kill it and leave its
//! steps. A wrapper passes signals on to its command.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

#[cfg(not(windlass_faults))]
use signal_hook::consts::SIGXFSZ;
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::{SigId, flag, low_level};

use crate::proc_fs;
use crate::spawn::unblock;

/// The signals that ask the leader of a run to end. SIGXCPU comes once its processor time is used up, and then
/// every second.
const ENDING: [i32; 5] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU];
/// The signals that the leader of a run survives: they would kill it and leave its steps. After SIGXFSZ a
/// write fails as on a full disk; the tests that kill a leader in the middle of a write do so by it.
const MEANINGLESS: &[i32] = &[
    SIGUSR1,
    SIGUSR2,
    SIGALRM,
    SIGVTALRM,
    SIGPROF,
    SIGIO,
    #[cfg(not(windlass_faults))]
    SIGXFSZ,
];
/// The signals that a wrapper passes on to its command.
const PASSED_ON: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// Returns whether a signal is handled. `nohup` starts commands with SIGHUP ignored, and it stays ignored. A
/// shell also starts background commands with some signals ignored, and those are handled all the same.
#[must_use]
pub fn is_heeded(signal: i32) -> bool {
    signal != SIGHUP || !Ignored::now().contains(signal)
}

/// Returns the signals that this process ignores, as the kernel reports them.
struct Ignored(u64);

impl Ignored {
    fn now() -> Self {
        let mask = proc_fs::own_status("SigIgn");
        Self(mask.and_then(|mask| u64::from_str_radix(&mask, 16).ok()).unwrap_or(0))
    }

    fn contains(&self, signal: i32) -> bool {
        self.0 >> (signal - 1) & 1 == 1
    }
}

/// Calls a function for every signal until it is dropped.
pub(crate) struct SignalWatch {
    handle: Handle,
    thread: Option<thread::JoinHandle<()>>,
    /// The signals that do nothing meanwhile.
    muted: Vec<SigId>,
}

impl SignalWatch {
    /// Calls `tell` for each signal that asks the leader of a run to end. Those that it survives do nothing
    /// until this is dropped; they have a handler, because children inherit ignored signals.
    pub(crate) fn start(tell: impl FnMut(i32) + Send + 'static) -> io::Result<Self> {
        let mut watch = Self::of(&ENDING, tell)?;
        let ignored = Ignored::now();
        for signal in MEANINGLESS.iter().filter(|signal| !ignored.contains(**signal)) {
            watch.muted.push(flag::register(*signal, Arc::default())?);
        }
        Ok(watch)
    }

    fn of(wanted: &[i32], mut tell: impl FnMut(i32) + Send + 'static) -> io::Result<Self> {
        let mut signals = Signals::new(wanted.iter().filter(|signal| is_heeded(**signal)))?;
        let handle = signals.handle();
        unblock(wanted);
        let watch = move || signals.forever().for_each(&mut tell);
        let thread = thread::Builder::new().spawn(watch)?;
        Ok(Self { handle, thread: Some(thread), muted: Vec::new() })
    }
}

impl Drop for SignalWatch {
    fn drop(&mut self) {
        for id in self.muted.drain(..) {
            low_level::unregister(id);
        }
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // A panic in the callback has been reported.
            let _ = thread.join();
        }
    }
}

/// Has this process survive all signals that the leader of a run heeds or survives.
pub(crate) fn survive() -> io::Result<()> {
    for signal in ENDING.iter().chain(MEANINGLESS) {
        flag::register(*signal, Arc::default())?;
    }
    unblock(&ENDING);
    Ok(())
}

/// Signals as something that can be polled.
pub(crate) struct SignalPipe {
    reader: PipeReader,
    came: Arc<AtomicU64>,
    _watch: SignalWatch,
}

impl SignalPipe {
    /// Opens a pipe for every signal that a wrapper passes on.
    pub(crate) fn open() -> io::Result<Self> {
        let (reader, mut writer) = io::pipe()?;
        let came = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&came);
        let _watch = SignalWatch::of(&PASSED_ON, move |signal| {
            // Pairs with the loads in `flag`; the count orders no other memory access.
            count.fetch_add(1, Ordering::Relaxed);
            // There is no reader any more once the command has ended.
            let _ = writer.write(&[u8::try_from(signal).unwrap_or_default()]);
        })?;
        Ok(Self { reader, came, _watch })
    }

    /// Returns the next signal, and waits for one if none has come.
    pub(crate) fn next(&self) -> io::Result<i32> {
        let mut signal = [0];
        (&self.reader).read_exact(&mut signal)?;
        Ok(i32::from(signal[0]))
    }

    /// Returns a function that says whether a signal has come since this call, for callers that cannot
    /// poll.
    pub(crate) fn flag(&self) -> impl Fn() -> bool + Send + 'static {
        let came = Arc::clone(&self.came);
        let before = came.load(Ordering::Relaxed);
        move || came.load(Ordering::Relaxed) != before
    }
}

impl AsFd for SignalPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

//! Signals to this process, as messages.

use std::fs;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[cfg(not(windlass_faults))]
use signal_hook::consts::SIGXFSZ;
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU,
};
use signal_hook::iterator::{Handle, Signals};
use signal_hook::{SigId, flag, low_level};

use crate::spawn::hear;

/// Those that ask the leader of a run to end. SIGXCPU comes once its processor time is used up, and then
/// every second.
const ENDING: [i32; 5] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU];
/// Those that mean nothing to the leader of a run, and would end it and leave its steps. After SIGXFSZ a
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
/// Those that a wrapper passes on to its command.
const PASSED_ON: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// Whether a signal is heeded. `nohup` has those that it starts ignore SIGHUP, and means it; other
/// signals are heeded also by what a shell has started in the background.
#[must_use]
pub fn is_heeded(signal: i32) -> bool {
    signal != SIGHUP || !Ignored::now().contains(signal)
}

/// The signals that this process ignores, as far as the kernel tells.
struct Ignored(u64);

impl Ignored {
    fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        Self(mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
    }

    fn contains(&self, signal: i32) -> bool {
        self.0 >> (signal - 1) & 1 == 1
    }
}

/// Calls back for every signal until it is dropped.
pub(crate) struct SignalWatch {
    handle: Handle,
    thread: Option<thread::JoinHandle<()>>,
    /// Those that do nothing meanwhile.
    muted: Vec<SigId>,
}

impl SignalWatch {
    /// Calls `tell` for each signal that asks the leader of a run to end; those that mean nothing to it do
    /// nothing until this is dropped. They have a handler, because what is ignored would be ignored
    /// by its children, too.
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
        hear(wanted);
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
            // It can only panic in the callback, which has been reported then.
            let _ = thread.join();
        }
    }
}

/// Signals as something that can be polled.
pub(crate) struct SignalPipe {
    reader: PipeReader,
    came: Arc<AtomicBool>,
    _watch: SignalWatch,
}

impl SignalPipe {
    /// Every signal that a wrapper passes on.
    pub(crate) fn open() -> io::Result<Self> {
        let (reader, mut writer) = io::pipe()?;
        let came = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&came);
        let _watch = SignalWatch::of(&PASSED_ON, move |signal| {
            // A flag and nothing behind it: pairs with the load in `flag`, which orders nothing.
            flag.store(true, Ordering::Relaxed);
            // Nobody listens any more once the command has ended.
            let _ = writer.write(&[u8::try_from(signal).unwrap_or_default()]);
        })?;
        Ok(Self { reader, came, _watch })
    }

    /// The next signal; waits for one if none has come.
    pub(crate) fn next(&self) -> io::Result<i32> {
        let mut signal = [0];
        (&self.reader).read_exact(&mut signal)?;
        Ok(i32::from(signal[0]))
    }

    /// Says whether a signal has come, for those who cannot poll.
    pub(crate) fn flag(&self) -> impl Fn() -> bool + Send + 'static {
        let came = Arc::clone(&self.came);
        move || came.load(Ordering::Relaxed)
    }
}

impl AsFd for SignalPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}

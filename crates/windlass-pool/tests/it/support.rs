//! Helpers of the tests.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{
        Once,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::Duration,
};

use windlass_pool::{Scheduler, SchedulerConfig};

/// Long enough for any machine. A test that reaches it hangs.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(if cfg!(miri) { 3600 } else { 120 });

/// Returns `full`, or `reduced` under Miri, which is a thousand times slower.
pub(crate) const fn amount(full: usize, reduced: usize) -> usize {
    if cfg!(miri) { reduced } else { full }
}

/// Starts a scheduler whose workers do not steal.
pub(crate) fn without_stealing(worker_count: usize) -> Scheduler {
    let defaults = SchedulerConfig::default();
    Scheduler::with_config(SchedulerConfig { worker_count, enable_stealing: false, ..defaults })
}

/// Runs `f` on a thread of its own. Panics if it does not end.
pub(crate) fn must_end<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    let (done, result) = mpsc::channel();
    thread::spawn(move || done.send(panic::catch_unwind(AssertUnwindSafe(f))));
    match result.recv_timeout(TIMEOUT) {
        Ok(Ok(value)) => value,
        Ok(Err(payload)) => panic::resume_unwind(payload),
        Err(_) => panic!("timed out"),
    }
}

/// A flag that is raised once and can be waited for.
#[derive(Default)]
pub(crate) struct Signal {
    raised: AtomicBool,
}

impl Signal {
    pub(crate) const fn new() -> Self {
        Self { raised: AtomicBool::new(false) }
    }

    pub(crate) fn raise(&self) {
        self.raised.store(true, SeqCst);
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(SeqCst)
    }

    pub(crate) fn wait(&self) {
        while !self.is_raised() {
            thread::yield_now();
        }
    }
}

/// Returns the message of the panic in `f`.
pub(crate) fn panic_of<R>(f: impl FnOnce() -> R) -> String {
    let payload = panic::catch_unwind(AssertUnwindSafe(f)).err().expect("it panics");
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).expect("with a message")
}

/// Silences the panic hook for messages that start with "on purpose".
pub(crate) fn silence_expected_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let message = info.payload_as_str().unwrap_or_default();
            if !message.starts_with("on purpose") {
                report(info);
            }
        }));
    });
}

//! Reports a caller that awaits a work while its scheduler is not running, and so would wait in silence.
//!
//! The run may begin right after the caller has begun to wait, in another task or on another thread, so a
//! thread looks again after a while. It needs no timer of the caller's runtime, which may have none, and it
//! is only started where a `tracing` subscriber wants warnings.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tracing::dispatcher::{Dispatch, get_default, with_default};
use tracing::level_filters::LevelFilter;

use crate::reference::NextEnd;
use crate::shared::Shared;

/// How long a caller may wait for a run to begin.
const PATIENCE: Duration = Duration::from_secs(1);

/// A caller that awaits the end of a work.
struct Waiter {
    work: Arc<str>,
    end: NextEnd,
}

/// A caller begins to await a work. It is reported unless a run begins soon; one caller at a time is enough.
pub(crate) fn expect_run(scheduler: &Arc<Shared>, work: &Arc<str>, end: &NextEnd) {
    if LevelFilter::current() < LevelFilter::WARN
        || scheduler.is_running()
        || !scheduler.begin_idle_check()
    {
        return;
    }
    let waiter = Waiter { work: Arc::clone(work), end: end.clone() };
    let (scheduler, dispatch) = (Arc::downgrade(scheduler), get_default(Dispatch::clone));
    let check = move || {
        thread::sleep(PATIENCE);
        let Some(scheduler) = scheduler.upgrade() else { return };
        if scheduler.is_running() || !waiter.still_waits() {
            scheduler.end_idle_check();
        } else {
            with_default(&dispatch, || waiter.report());
        }
    };
    // Without a thread there is no report.
    _ = thread::Builder::new().name("windlass-idle-check".to_owned()).spawn(check);
}

impl Waiter {
    /// Returns whether the work has not ended, and the caller has not stopped waiting.
    fn still_waits(&self) -> bool {
        // This waiter has one reference, and the work's own record of its next end has another.
        self.end.peek().is_none() && self.end.strong_count().is_some_and(|count| count > 2)
    }

    fn report(&self) {
        let work = &self.work;
        tracing::warn!(
            "waiting for work {work:?}, but its scheduler is not running: call run_until_done"
        );
    }
}

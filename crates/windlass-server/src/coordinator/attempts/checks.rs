//! Checks of conditions, each on a thread of its own.

use std::collections::BTreeMap;
use std::io::{self, PipeWriter};
use std::thread;
use std::time::Duration;

use super::{CheckEnd, News, OrderKey, Report};
use crate::channel::Sender;
use crate::command::CommandSpec;
use crate::fence;
use crate::guard::{CheckCommand, check_until_closed};
use crate::inherited::Inherited;

/// The checks that run. None outlives this object.
pub(super) struct Checks<K: OrderKey> {
    running: BTreeMap<K, RunningCheck>,
    inherited: Inherited,
}

struct RunningCheck {
    /// The check is stopped when this end of its pipe is closed.
    stop: Option<PipeWriter>,
    thread: thread::JoinHandle<()>,
}

/// A check to start.
pub(super) struct Check<K> {
    pub(super) id: K,
    pub(super) command: CommandSpec,
    /// The tags that its processes carry.
    pub(super) tags: String,
    pub(super) limit: Duration,
}

impl<K: OrderKey> Checks<K> {
    pub(super) fn new(inherited: Inherited) -> Self {
        Self { running: BTreeMap::new(), inherited }
    }

    /// Starts a check, whose end is sent to `reports`.
    pub(super) fn start(&mut self, check: Check<K>, reports: Sender<News<K>>) -> io::Result<()> {
        let (stopped, stop) = io::pipe()?;
        let Check { id, command, tags, limit } = check;
        let inherited = self.inherited.clone();
        let thread = thread::Builder::new().spawn(move || {
            let (command, inherited, tags) = (&command, &inherited, tags.as_str());
            let check = CheckCommand { command, inherited, limit, tags };
            let ended = |end| Report::Checked { id, end };
            let report = match check_until_closed(&check, &stopped) {
                Ok(Some(result)) => ended(CheckEnd::Result(result)),
                Ok(None) => ended(CheckEnd::Stopped),
                Err(error) if fence::has_refused(&error) => {
                    Report::Lost { id, why: fence::REASON.to_owned() }
                }
                Err(error) => ended(CheckEnd::Failed(error.to_string())),
            };
            // The run may have ended, and then there is no receiver.
            let _ = reports.send(News::Report(report));
        })?;
        self.running.insert(id, RunningCheck { stop: Some(stop), thread });
        Ok(())
    }

    /// Stops a check; its end is still reported.
    pub(super) fn stop(&mut self, id: K) {
        if let Some(check) = self.running.get_mut(&id) {
            check.stop = None;
        }
    }

    /// Notes that a check has reported its end.
    pub(super) fn note_end(&mut self, id: K) {
        self.running.remove(&id);
    }

    /// Stops every check, and returns once their processes are gone.
    pub(super) fn finish(&mut self) {
        self.running.values_mut().for_each(|check| check.stop = None);
        for check in std::mem::take(&mut self.running).into_values() {
            // It can only panic by a bug, which has been reported then.
            let _ = check.thread.join();
        }
    }
}

impl<K: OrderKey> Drop for Checks<K> {
    fn drop(&mut self) {
        self.finish();
    }
}

//! The process of an attempt, from its start to its exit.

use std::io;
use std::path::PathBuf;
use std::process::Child;
use std::thread;

use rustix::process::Signal;
use windlass_core::Grant;

use super::leader::Start;
use super::{Coordinator, News, Running};
use crate::attempt::{self, exit_code, log_path, signal_group};
use crate::outputs;
use crate::tree;

/// What a shell says of a command that cannot be executed.
const CANNOT_START: i32 = 126;
/// The variable that tells an attempt where to write what it hands on.
const OUTPUT_VARIABLE: &str = "WINDLASS_OUTPUT";
/// The variable that tells an attempt until when it has time, in seconds since 1970.
const DEADLINE_VARIABLE: &str = "WINDLASS_DEADLINE";

impl Coordinator {
    /// Starts the process of an attempt that the store knows about. One that cannot be started has
    /// ended with 126 or 127, as a shell would say.
    pub(super) fn start(&mut self, start: Start) {
        let grant = start.grant;
        let pid = self.try_start(&start).unwrap_or_else(|(code, why)| {
            let step = &self.schedule.step(grant.work).name;
            let log = log_path(&self.logs, grant, step);
            outputs::complain(&log, &format!("the step cannot be started: {why}"));
            self.tell.send(News::Exited { grant, code }).expect("we listen ourselves");
            None
        });
        self.running.insert(grant.work, Running { start, pid, kill_at: None });
    }

    /// The leader of the attempt's process group; or a code and the reason why there is none.
    fn try_start(&self, start: &Start) -> Result<Option<u32>, (i32, String)> {
        let grant = start.grant;
        if let Some(missing) = &start.broken {
            return Err((CANNOT_START, missing.to_string()));
        }
        let step = &self.schedule.step(grant.work).name;
        let log = log_path(&self.logs, grant, step);
        let output = outputs::path(&self.logs, grant, step);
        let tokens: Vec<_> = start.names.iter().map(|(_, token)| *token).collect();
        let written = |step: &str, key: &str| self.schedule.output(&self.logs, step, key);
        let orders = self.leader.orders(&self.schedule, &written);
        let order = orders.order(grant, &log, &tokens);
        let mut order = order.map_err(|missing| (CANNOT_START, missing.to_string()))?;
        let marks = tree::marks_with(&self.leader.mark_of(grant));
        order.env.push((tree::MARKS.to_owned(), marks));
        order.env.push((OUTPUT_VARIABLE.to_owned(), output.display().to_string()));
        if let Some(until) = self.schedule.until(grant.work) {
            order.env.push((DEADLINE_VARIABLE.to_owned(), until.to_string()));
        }
        let child = attempt::start(&order).map_err(|error| {
            let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { CANNOT_START };
            (code, error.to_string())
        })?;
        Ok(Some(self.await_exit(grant, child, log, output)))
    }

    fn await_exit(&self, grant: Grant, mut child: Child, log: PathBuf, output: PathBuf) -> u32 {
        let pid = child.id();
        let tell = self.tell.clone();
        thread::spawn(move || {
            attempt::await_end(pid);
            // Whatever the step left behind in its group ends with it. The group's number cannot
            // be anybody else's before its leader is reaped.
            signal_group(pid, Signal::KILL);
            let mut code = child.wait().map_or(CANNOT_START, exit_code);
            if let (0, Err(error)) = (code, outputs::read(&output)) {
                outputs::complain(&log, &format!("what it wrote to $WINDLASS_OUTPUT: {error}"));
                code = 1;
            }
            // Nobody listens any more if the run has failed meanwhile.
            let _ = tell.send(News::Exited { grant, code });
        });
        pid
    }
}

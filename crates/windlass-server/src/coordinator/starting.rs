//! Starts the attempts that the store knows about.

use std::io;

use super::leader::Start;
use super::{Coordinator, News, Running};
use crate::attempt::log_path;
use crate::ended::{Ended, Exit};
use crate::outputs;
use crate::processes::{CANNOT_START, Traces};
use crate::tree;

/// What a shell says of a command that cannot be found.
const NOT_FOUND: i32 = 127;
/// The variable that tells an attempt where to write what it hands on.
const OUTPUT_VARIABLE: &str = "WINDLASS_OUTPUT";
/// The variable that tells an attempt until when it has time, in seconds since 1970.
const DEADLINE_VARIABLE: &str = "WINDLASS_DEADLINE";

impl Coordinator {
    /// Starts the process of an attempt that the store knows about. One that cannot be started has
    /// ended with 126 or 127, as a shell would say.
    pub(super) fn start(&mut self, start: Start) {
        let grant = start.grant;
        if let Err((code, why)) = self.try_start(&start) {
            let step = &self.schedule.step(grant.work).name;
            let log = log_path(&self.logs, grant, step);
            outputs::complain(&log, &format!("the step cannot be started: {why}"));
            let ended = Ended::from(Exit::Code(code));
            self.tell.send(News::Exited { grant, ended }).expect("we listen ourselves");
        }
        self.running.insert(grant.work, Running { start });
    }

    /// A code and the reason, if there is no process.
    fn try_start(&mut self, start: &Start) -> Result<(), (i32, String)> {
        let Self { processes, schedule, leader, logs, .. } = self;
        let grant = start.grant;
        if let Some(missing) = &start.broken {
            return Err((CANNOT_START, missing.to_string()));
        }
        let step = &schedule.step(grant.work).name;
        let log = log_path(logs, grant, step);
        let output = outputs::path(logs, grant, step);
        let tokens: Vec<_> = start.names.iter().map(|(_, token)| *token).collect();
        let written = |step: &str, key: &str| schedule.output(logs, step, key);
        let order = leader.orders(schedule, &written).order(grant, &log, &tokens);
        let mut order = order.map_err(|missing| (CANNOT_START, missing.to_string()))?;
        let mark = leader.mark_of(grant);
        let marks = tree::marks_with(&format!("{} {mark}", leader.mark()));
        order.env.push((tree::MARKS.to_owned(), marks));
        order.env.push((OUTPUT_VARIABLE.to_owned(), output.display().to_string()));
        if let Some(until) = schedule.until(grant.work) {
            order.env.push((DEADLINE_VARIABLE.to_owned(), until.to_string()));
        }
        let traces = Traces { mark, log: log.clone(), output };
        processes.start(&order, traces).map_err(|error| {
            if let Err(error) = order.dir.read_dir() {
                return (CANNOT_START, format!("its directory {}: {error}", order.dir.display()));
            }
            let code =
                if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_START };
            (code, format!("{}: {error}", order.program))
        })
    }
}

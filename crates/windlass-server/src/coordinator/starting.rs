//! The processes of a pass through a step, from their start to their exit.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;

use rustix::process::Signal;
use windlass_core::{Grant, Token, WorkId};

use super::leader::Start;
use super::pass::Running;
use super::{Coordinator, News};
use crate::attempt::{self, FENCE_VARIABLE, RUN_VARIABLE, fence, log_path, signal_group};
use crate::ended::{Ended, Exit};
#[cfg(windlass_faults)]
use crate::fault::Point;
use crate::order::Order;
use crate::outputs;
use crate::tree;

/// What a shell says of a command that cannot be executed.
const CANNOT_START: i32 = 126;
/// The variable that tells an attempt where to write what it hands on.
const OUTPUT_VARIABLE: &str = "WINDLASS_OUTPUT";
/// The variable that tells an attempt until when it has time, in seconds since 1970.
const DEADLINE_VARIABLE: &str = "WINDLASS_DEADLINE";

/// Why a process is not there, with the code that a shell would give.
type NotStarted = (i32, String);

impl Coordinator {
    /// Starts the command of an attempt that the store knows about. One that cannot be started has
    /// ended with 126 or 127, as a shell would say.
    pub(super) fn start(&mut self, start: Start) {
        let work = start.grant.work;
        let step = self.schedule.step(work);
        if step.finally.is_some() {
            self.uncleaned.insert(work);
        }
        self.items.take(work, self.schedule.plan(), step);
        let log = log_path(&self.logs, start.grant, &step.name);
        let started = match &start.broken {
            Some(unready) => Err((CANNOT_START, unready.to_string())),
            None => self.start_command(&start, &log),
        };
        let mut running = Running::new(start, self.schedule.now());
        running.pid = self.or_complain(work, &log, started);
        self.running.insert(work, running);
    }

    /// Starts what follows a step in any case.
    pub(super) fn start_finally(&mut self, work: WorkId) {
        let grant = self.latest(work);
        let step = self.schedule.step(work);
        let log = log_path(&self.logs, grant, &step.name).with_extension("finally.log");
        let command = step.finally.clone().expect("it has one");
        let written = |step: &str, key: &str| self.schedule.output(&self.logs, step, key);
        let orders = self.leader.orders(&self.schedule, &written);
        let order = orders.finally(grant, &command);
        let tokens = self.running[&work].start.tokens();
        let started = order.map_err(|unready| (CANNOT_START, unready.to_string()));
        let started = started.and_then(|mut order| {
            self.introduce(&mut order, grant, &tokens);
            spawn(&order, &log).map(|child| self.await_exit(work, child, None))
        });
        let pid = self.or_complain(work, &log, started);
        self.running.get_mut(&work).expect("it runs").pid = pid;
    }

    /// The leader of the process group; one that could not be started has ended.
    fn or_complain(
        &self,
        work: WorkId,
        log: &Path,
        started: Result<u32, NotStarted>,
    ) -> Option<u32> {
        let (code, why) = match started {
            Ok(pid) => return Some(pid),
            Err(not) => not,
        };
        outputs::complain(log, &format!("the step cannot be started: {why}"));
        let ended = Exit::Code(code).into();
        self.tell.send(News::Exited { work, ended }).expect("we listen ourselves");
        None
    }

    fn start_command(&self, start: &Start, log: &Path) -> Result<u32, NotStarted> {
        let grant = start.grant;
        let step = &self.schedule.step(grant.work).name;
        let output = outputs::path(&self.logs, grant, step);
        let written = |step: &str, key: &str| self.schedule.output(&self.logs, step, key);
        let order = self.leader.orders(&self.schedule, &written).attempt(grant);
        let mut order = order.map_err(|missing| (CANNOT_START, missing.to_string()))?;
        self.introduce(&mut order, grant, &start.tokens());
        order.env.extend(self.items.variables(grant.work, self.schedule.plan()));
        order.env.push((OUTPUT_VARIABLE.to_owned(), output.display().to_string()));
        if let Some(until) = self.schedule.until(grant.work) {
            order.env.push((DEADLINE_VARIABLE.to_owned(), until.to_string()));
        }
        let child = spawn(&order, log)?;
        Ok(self.await_exit(grant.work, child, Some((log.to_owned(), output))))
    }

    /// Tells a process who it is.
    fn introduce(&self, order: &mut Order, grant: Grant, tokens: &[Token]) {
        let about = [
            (RUN_VARIABLE, self.leader.run.id.clone()),
            ("WINDLASS_STEP", self.schedule.step(grant.work).name.clone()),
            ("WINDLASS_ATTEMPT", grant.attempt.to_string()),
            (FENCE_VARIABLE, fence(tokens)),
            (tree::MARKS, tree::marks_with(&self.leader.mark_of(grant))),
        ];
        order.env.extend(about.map(|(name, value)| (name.to_owned(), value)));
    }

    /// Waits for the end of a process, and looks at what it has handed on, if it may.
    fn await_exit(&self, work: WorkId, child: Child, output: Option<(PathBuf, PathBuf)>) -> u32 {
        let pid = child.id();
        let tell = self.tell.clone();
        thread::spawn(move || {
            let mut ended = await_end(child);
            if let Some((log, output)) = output.filter(|_| ended.exit.is_success())
                && let Err(error) = outputs::read(&output)
            {
                outputs::complain(&log, &format!("what it wrote to $WINDLASS_OUTPUT: {error}"));
                ended.exit = Exit::Code(1);
            }
            #[cfg(windlass_faults)]
            Point::AfterExit.reached();
            // Nobody listens any more if the run has failed meanwhile.
            let _ = tell.send(News::Exited { work, ended });
        });
        pid
    }
}

impl Start {
    fn tokens(&self) -> Vec<Token> {
        self.names.iter().map(|(_, token)| *token).collect()
    }
}

fn spawn(order: &Order, log: &Path) -> Result<Child, NotStarted> {
    #[cfg(windlass_faults)]
    Point::BeforeSpawn.reached();
    let child = attempt::start(order, log).map_err(|error| {
        let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { CANNOT_START };
        (code, error.to_string())
    })?;
    #[cfg(windlass_faults)]
    Point::AfterSpawn.reached();
    Ok(child)
}

/// Waits for the end of a process.
pub(super) fn await_end(mut child: Child) -> Ended {
    let pid = child.id();
    attempt::await_end(pid);
    // Whatever it left behind in its group ends with it. The group's number cannot be anybody
    // else's before its leader is reaped.
    signal_group(pid, Signal::KILL);
    child.wait().map_or(Exit::Code(CANNOT_START), Exit::from).into()
}

//! Starts the processes of a pass through a step, once the store knows about it.

use std::io;
use std::path::{Path, PathBuf};

use windlass_core::{Grant, Token, WorkId};
use windlass_workflow::Step;

use super::ending::{GRACE, LINGER};
use super::leader::{Start, terms};
use super::pass::{PAUSED, Running};
use super::{Coordinator, News, RunError};
use crate::attempt::{FENCE_VARIABLE, RUN_VARIABLE, fence, log_path};
use crate::command::{CommandSpec, ResolveError};
use crate::ended::{Ended, Exit};
use crate::log_file::LogFile;
use crate::outputs;
use crate::own_logs;
use crate::processes::{CANNOT_START, Job, Leave, NotStarted, Prepared, Traces};
use crate::pulse::is_late;
use crate::tree;

/// What a shell says of a command that cannot be found.
const NOT_FOUND: i32 = 127;
/// The variable that tells an attempt where to write what it hands on.
const OUTPUT_VARIABLE: &str = "WINDLASS_OUTPUT";
/// The variable that tells an attempt until when it has time, in seconds since 1970.
const DEADLINE_VARIABLE: &str = "WINDLASS_DEADLINE";

/// Why a process is not there, with the code that a shell would give.
pub(super) type Why = (i32, String);

impl Coordinator {
    /// Starts the command of an attempt that the store knows about. One that cannot be started has
    /// ended with 126 or 127, as a shell would say.
    pub(super) fn start(&mut self, start: Start) -> Result<(), RunError> {
        self.prepare(start).map_or(Ok(()), |prepared| self.begin(prepared))
    }

    /// Makes everything ready for that, as far as the command can be started at all.
    pub(super) fn prepare(&mut self, start: Start) -> Option<Prepared> {
        let grant = start.grant;
        let step = self.schedule.step(grant.work);
        if step.finally.is_some() {
            self.uncleaned.insert(grant.work);
        }
        self.items.take(grant.work, self.schedule.plan(), step);
        let log = LogFile::new(log_path(&self.logs, grant, &step.name), step.log_limit);
        let output = outputs::path(&self.logs, grant, &step.name);
        let order = match &start.broken {
            Some(unready) => Err(unready.clone()),
            None => self.command_order(grant, &output),
        };
        let tokens = start.tokens();
        self.running.insert(grant.work, Running::new(start, self.schedule.now()));
        self.prepare_process(grant, order, &tokens, Some(output), log)
    }

    /// Starts what follows a step in any case.
    pub(super) fn start_finally(&mut self, work: WorkId) -> Result<(), RunError> {
        let grant = self.latest(work);
        let step = self.schedule.step(work);
        let log = log_path(&self.logs, grant, &step.name).with_extension("finally.log");
        let log = LogFile::new(log, step.log_limit);
        // That there is one tells that there was a process.
        log.create().map_err(no_log)?;
        let command = step.finally.as_ref().expect("it has one");
        let written = |step: &str, key: &str| self.schedule.output(&self.logs, step, key);
        let order = self.leader.orders(&self.schedule, &written).finally(grant, command);
        let tokens = self.running[&work].start.tokens();
        let prepared = self.prepare_process(grant, order, &tokens, None, log);
        prepared.map_or(Ok(()), |prepared| self.begin(prepared))
    }

    /// Starts a process of a step for which everything is ready.
    pub(super) fn begin(&mut self, prepared: Prepared) -> Result<(), RunError> {
        let Some(prepared) = self.unless_name_lost(prepared)? else { return Ok(()) };
        if let Err(not) = self.start_with_room(prepared) {
            self.never_began(not.prepared.job(), not.prepared.log(), why_not(&not));
        }
        Ok(())
    }

    /// What may become of the processes that a step leaves running.
    fn leave(&self, work: WorkId) -> Leave {
        let Step { linger, grace, .. } = self.schedule.step(work);
        Leave { linger: linger.unwrap_or(LINGER), grace: grace.unwrap_or(GRACE) }
    }

    /// If so much time has passed since a start was decided that others may have its names by now, it
    /// has to have them still. One that has not has ended.
    pub(super) fn unless_name_lost(
        &mut self,
        prepared: Prepared,
    ) -> Result<Option<Prepared>, RunError> {
        let heartbeat_timeout = terms(self.schedule.plan()).heartbeat_timeout;
        if is_late(self.decided, heartbeat_timeout)
            && let Some(name) = self.lost_name(prepared.job())?
        {
            let why = format!("{name} was lost before, {PAUSED}");
            self.never_began(prepared.job(), prepared.log(), (CANNOT_START, why));
            return Ok(None);
        }
        Ok(Some(prepared))
    }

    fn command_order(&self, grant: Grant, output: &Path) -> Result<CommandSpec, ResolveError> {
        let written = |step: &str, key: &str| self.schedule.output(&self.logs, step, key);
        let mut order = self.leader.orders(&self.schedule, &written).attempt(grant)?;
        order.env.extend(self.items.variables(grant.work, self.schedule.plan()));
        order.env.push((OUTPUT_VARIABLE.to_owned(), output.display().to_string()));
        if let Some(until) = self.schedule.until(grant.work) {
            order.env.push((DEADLINE_VARIABLE.to_owned(), until.to_string()));
        }
        Ok(order)
    }

    /// Makes a process of a step ready; one that cannot be started has ended.
    fn prepare_process(
        &mut self,
        grant: Grant,
        order: Result<CommandSpec, ResolveError>,
        tokens: &[Token],
        output: Option<PathBuf>,
        log: LogFile,
    ) -> Option<Prepared> {
        let job = Job::Work(grant.work);
        let mut order = match order {
            Ok(order) => order,
            Err(unready) => {
                self.never_began(job, log.path(), (CANNOT_START, unready.to_string()));
                return None;
            }
        };
        let leave = self.leave(grant.work);
        let traces = Traces { mark: self.leader.mark_of(grant), output, leave };
        self.introduce(&mut order, grant, tokens, &traces.mark, log.path());
        Some(Prepared::new(job, order, traces, log))
    }

    /// A process that cannot be started has ended as a shell would say.
    pub(super) fn never_began(&mut self, job: Job, log: &Path, (code, why): Why) {
        let what = match job {
            Job::Work(_) => "the step",
            Job::Hook(_) => "it",
        };
        let why = format!("{what} cannot be started: {why}");
        outputs::complain(log, &why);
        let ended = Ended { flaw: Some(why), ..Exit::Code(code).into() };
        self.tell.send(News::Exited { job, ended }).expect("we listen ourselves");
    }

    /// Tells a process who it is.
    fn introduce(
        &self,
        order: &mut CommandSpec,
        grant: Grant,
        tokens: &[Token],
        mark: &str,
        log: &Path,
    ) {
        let about = [
            (RUN_VARIABLE, self.leader.run.id.clone()),
            ("WINDLASS_STEP", self.schedule.step(grant.work).name.clone()),
            ("WINDLASS_ATTEMPT", grant.attempt.to_string()),
            (FENCE_VARIABLE, fence(tokens)),
            (own_logs::LOG_VARIABLE, own_logs::with(log)),
            (tree::MARKS, tree::marks_with(&format!("{} {mark}", self.leader.mark()))),
        ];
        order.env.extend(about.map(|(name, value)| (name.to_owned(), value)));
    }
}

impl Start {
    fn tokens(&self) -> Vec<Token> {
        self.names.iter().map(|(_, token)| *token).collect()
    }
}

/// A run stops when a log cannot be created, such as on a full disk.
pub(super) fn no_log(source: io::Error) -> RunError {
    RunError::Io { what: "a log cannot be created", source }
}

/// A run stops when a log cannot be written.
pub(super) fn cannot_log(source: io::Error) -> RunError {
    RunError::Io { what: "a log cannot be written", source }
}

pub(super) fn why_not(NotStarted { prepared, error }: &NotStarted) -> Why {
    let CommandSpec { program, dir, .. } = prepared.order();
    if let Err(error) = dir.read_dir() {
        return (CANNOT_START, format!("its directory {}: {error}", dir.display()));
    }
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_START };
    (code, format!("{program}: {error}"))
}

//! Executes orders in this process.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use windlass_core::Timestamp;
use windlass_workflow::format_duration;

use super::checks::{Check, Checks};
use super::room::RoomQueue;
use super::timers::{Due, Timers};
use super::{
    Attempts, CheckEnd, Limits, LogSpec, News, Order, OrderId, OrderKey, OrderKind, Report,
    RunError, StopMode,
};
use crate::channel::{Receiver, Sender, channel};
use crate::clock::Clock;
use crate::command::CommandSpec;
use crate::ended::{Ended, Exit};
use crate::fence;
use crate::files;
use crate::log_file::LogFile;
use crate::outputs;
use crate::own_logs;
use crate::process_tag::{self, TAG_VARIABLE};
use crate::processes::{
    CANNOT_START, Job, JobSettings, LeftoverPolicy, NotStarted, Prepared, ProcessSettings,
    Processes, Woken,
};
use crate::signals::SignalWatch;

/// The exit code by which a shell reports a command that it cannot find.
const NOT_FOUND: i32 = 127;

/// The processes and checks of orders, as children of this process.
pub(crate) struct LocalAttempts<K: OrderKey = OrderId> {
    processes: Processes,
    prepared: Vec<Ready<K>>,
    /// Orders for whose processes the system has no room at the moment.
    room: RoomQueue<Box<ReadyProcess<K>>>,
    /// The orders whose processes run or wait for room.
    running: BTreeMap<Job, K>,
    /// The jobs of those orders.
    jobs: BTreeMap<K, Job>,
    /// The jobs whose processes were stopped for a while.
    halted: BTreeSet<Job>,
    /// The number of the last job.
    last_job: u64,
    timers: Timers,
    checks: Checks<K>,
    /// What the next wait returns besides what it waits for.
    reports: Vec<Report<K>>,
    news: Receiver<News<K>>,
    sender: Sender<News<K>>,
    clock: Clock,
    /// The tag that all processes carry beside those of their orders.
    tag: String,
    _signals: SignalWatch,
}

/// An order that can be started at once.
enum Ready<K> {
    Process(Box<ReadyProcess<K>>),
    Check(Check<K>),
}

struct ReadyProcess<K> {
    id: K,
    prepared: Prepared,
    limits: Limits,
    start_by: Option<Timestamp>,
}

impl<K: OrderKey> LocalAttempts<K> {
    /// Executes orders in processes with these settings.
    pub(crate) fn new(settings: ProcessSettings, clock: Clock) -> Result<Self, RunError> {
        let (tag, inherited) = (settings.tag.clone(), settings.inherited.clone());
        let made = channel().and_then(|(sender, news)| {
            let processes = Processes::new(settings, &news)?;
            Ok((sender, news, processes))
        });
        let (sender, news, processes) = made.map_err(cannot_wait)?;
        let signals: Sender<News<K>> = sender.clone();
        let signals = SignalWatch::start(move |signal| {
            // The run may have ended, and then there is no receiver.
            let _ = signals.send(News::Signal(signal));
        });
        let what = "signals cannot be watched";
        let _signals = signals.map_err(|source| RunError::Io { what, source })?;
        Ok(Self {
            processes,
            prepared: Vec::new(),
            room: RoomQueue::default(),
            running: BTreeMap::new(),
            jobs: BTreeMap::new(),
            halted: BTreeSet::new(),
            last_job: 0,
            timers: Timers::default(),
            checks: Checks::new(inherited),
            reports: Vec::new(),
            news,
            sender,
            clock,
            tag,
            _signals,
        })
    }

    /// Has a step whose log cannot be written wait for room on the disk, or fail alone, instead of ending all
    /// orders.
    pub(crate) fn isolate_logs(&mut self) {
        self.processes.isolate_logs();
    }

    fn start_process(&mut self, ready: Box<ReadyProcess<K>>) -> Result<(), RunError> {
        if self.is_late(&ready) {
            self.reports.push(Report::Late(ready.id));
            return Ok(());
        }
        if ready.id.kind() != OrderKind::Command {
            // The log of a `finally` or of a hook shows that its process was started.
            let log = LogFile::new(ready.prepared.log().to_owned(), 0);
            let what = "a log cannot be created";
            let created = self.processes.create_log(&log);
            created.map_err(|source| RunError::Io { what, source })?;
        }
        let job = ready.prepared.job();
        self.running.insert(job, ready.id);
        self.jobs.insert(ready.id, job);
        if let Some(time) = ready.limits.time {
            self.timers.limit(job, time, ready.limits.grace);
        }
        if !self.room.is_empty() {
            self.room.push(ready);
            return Ok(());
        }
        match self.launch(*ready) {
            Err((ready, error)) if files::is_no_room(&error) => {
                self.reports.push(Report::NoRoom(error.to_string()));
                self.room.begin(ready);
            }
            Err((ready, error)) => self.cannot_start(&ready, &error),
            Ok(()) => {}
        }
        Ok(())
    }

    fn launch(&mut self, ready: ReadyProcess<K>) -> Result<(), (Box<ReadyProcess<K>>, io::Error)> {
        let ReadyProcess { id, prepared, limits, start_by } = ready;
        let job = prepared.job();
        self.processes.start(prepared).map_err(|not| {
            let NotStarted { prepared, error } = *not;
            (Box::new(ReadyProcess { id, prepared, limits, start_by }), error)
        })?;
        if self.halted.contains(&job) {
            // It was stopped while it waited for room; what cannot be read of it goes on.
            let _ = self.processes.stop(job);
        }
        Ok(())
    }

    /// Starts the orders that wait for room, if a process may have given some back.
    fn start_waiting(&mut self, ended: bool) {
        if !self.room.is_due(ended) {
            return;
        }
        self.room.note_try();
        while let Some(first) = self.room.pop() {
            if self.is_late(&first) {
                self.forget(first.prepared.job());
                self.reports.push(Report::Late(first.id));
                continue;
            }
            match self.launch(*first) {
                Ok(()) => {}
                Err((first, error))
                    if files::is_no_room(&error)
                        && self.room.has_patience(self.processes.is_idle()) =>
                {
                    self.room.push_front(first);
                    break;
                }
                Err((first, error)) => self.cannot_start(&first, &error),
            }
        }
    }

    fn is_late(&self, ready: &ReadyProcess<K>) -> bool {
        ready.start_by.is_some_and(|by| self.clock.with_pauses() > by)
    }

    /// Ends an order that waits for room. Returns whether it was one.
    fn end_waiting(&mut self, job: Job) -> bool {
        let Some(ready) = self.room.remove(|ready| ready.prepared.job() == job) else {
            return false;
        };
        let why = "it was ended while it waited for room for another process";
        self.never_began(ready.id, Some(ready.prepared.log()), CANNOT_START, why);
        true
    }

    fn cannot_start(&mut self, ready: &ReadyProcess<K>, error: &io::Error) {
        if fence::has_refused(error) {
            self.forget(ready.prepared.job());
            let why = fence::REASON.to_owned();
            return self.reports.push(Report::Lost { id: ready.id, why });
        }
        let (code, why) = why_not(ready.prepared.order(), error);
        self.never_began(ready.id, Some(ready.prepared.log()), code, &why);
    }

    /// Reports an order that cannot be started as ended, with the code that a shell would give.
    fn never_began(&mut self, id: K, log: Option<&Path>, code: i32, why: &str) {
        let what = if matches!(id.kind(), OrderKind::Hook(_)) { "it" } else { "the step" };
        let why = format!("{what} cannot be started: {why}");
        if let Some(log) = log {
            outputs::complain(log, &why);
        }
        if let Some(job) = self.jobs.get(&id) {
            self.forget(*job);
        }
        let ended = Ended { flaw: Some(why), ..Exit::Code(code).into() };
        self.reports.push(Report::Ended { id, ended });
    }

    /// Returns the order of a job that runs no more.
    fn forget(&mut self, job: Job) -> Option<K> {
        self.timers.remove(job);
        self.halted.remove(&job);
        let id = self.running.remove(&job)?;
        self.jobs.remove(&id);
        Some(id)
    }

    fn ended(&mut self, job: Job, mut ended: Ended) -> Option<Report<K>> {
        if let Some(time) = self.timers.timed_out(job) {
            ended.flaw = Some(format!("timed out after {}", format_duration(time)));
        }
        self.forget(job).map(|id| Report::Ended { id, ended })
    }

    fn start_check(&mut self, check: Check<K>) {
        let id = check.id;
        if let Err(error) = self.checks.start(check, self.sender.clone()) {
            let end = CheckEnd::Failed(error.to_string());
            self.reports.push(Report::Checked { id, end });
        }
    }

    /// Ends the orders whose time is over.
    fn heed_timers(&mut self) -> Result<(), RunError> {
        for (job, due) in self.timers.take_due(Instant::now()) {
            match due {
                Due::TimedOut { grace } => {
                    self.end_waiting(job);
                    self.processes.ask_to_end(job, grace).map_err(cannot_end)?;
                }
                Due::Kill => self.kill(job)?,
            }
        }
        Ok(())
    }

    fn kill(&mut self, job: Job) -> Result<(), RunError> {
        if self.end_waiting(job) {
            return Ok(());
        }
        self.processes.kill(job).map_err(cannot_end)
    }
}

impl<K: OrderKey> Attempts<K> for LocalAttempts<K> {
    fn prepare(&mut self, order: Order<K>) {
        let Order { id, command, tag, log, output, limits, start_by } = order;
        let mut command = match command {
            Ok(command) => command,
            Err(unresolved) => {
                let log = log.as_ref().map(|log| log.path.as_path());
                return self.never_began(id, log, CANNOT_START, &unresolved);
            }
        };
        let tags = format!("{} {tag}", self.tag);
        if id.kind() == OrderKind::Check {
            let limit = limits.time.unwrap_or(Duration::MAX);
            return self.prepared.push(Ready::Check(Check { id, command, tags, limit }));
        }
        let log = log.expect("only a check has none");
        self.last_job += 1;
        let job = Job(self.last_job);
        introduce(&mut command, &log.path, &tags);
        let leftovers = LeftoverPolicy { linger: limits.linger, grace: limits.grace };
        let settings = JobSettings { tag, output, leftovers };
        let prepared = Prepared::new(job, command, settings, log_file(id.kind(), log));
        let ready = ReadyProcess { id, prepared, limits, start_by };
        self.prepared.push(Ready::Process(Box::new(ready)));
    }

    fn start_prepared(&mut self) -> Result<(), RunError> {
        for ready in std::mem::take(&mut self.prepared) {
            match ready {
                Ready::Process(ready) => self.start_process(ready)?,
                Ready::Check(check) => self.start_check(check),
            }
        }
        Ok(())
    }

    fn stop(&mut self, id: K, mode: StopMode) -> Result<(), RunError> {
        if id.kind() == OrderKind::Check {
            self.checks.stop(id);
            return Ok(());
        }
        let Some(&job) = self.jobs.get(&id) else { return Ok(()) };
        match mode {
            StopMode::Kill => self.kill(job),
            StopMode::Ask { grace } => {
                self.timers.remove(job);
                if self.end_waiting(job) {
                    return Ok(());
                }
                self.processes.ask_to_end(job, grace).map_err(cannot_end)
            }
            StopMode::Halt => {
                self.timers.set_limit(job, None);
                self.halted.insert(job);
                self.processes.stop(job).map_err(cannot_stop)
            }
            StopMode::Continue if self.halted.remove(&job) => {
                self.processes.resume(job).map_err(cannot_stop)
            }
            StopMode::Continue => Ok(()),
            StopMode::Finish { grace } => {
                self.timers.kill_after(job, grace);
                self.processes.ask_rest_to_end(job, grace).map_err(cannot_end)
            }
        }
    }

    fn set_limit(&mut self, id: K, left: Option<Duration>) {
        if let Some(&job) = self.jobs.get(&id) {
            self.timers.set_limit(job, left);
        }
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Vec<News<K>>, RunError> {
        let ready = (!self.reports.is_empty()).then_some(Duration::ZERO);
        let pauses = [timeout, self.room.until_try(), self.timers.until_due(), ready];
        let woken = self.processes.wait(pauses.into_iter().flatten().min()).map_err(cannot_wait)?;
        let Woken { over, news: has_news, wakeup, log_error, log_full } = woken;
        if let Some(source) = log_error {
            return Err(RunError::Io { what: "a log cannot be written", source });
        }
        if log_full {
            self.reports.push(Report::NoRoom("the disk of their logs is full".to_owned()));
        }
        let mut news = Vec::new();
        let ended = over.into_iter().filter_map(|(job, ended)| self.ended(job, ended));
        news.extend(ended.map(News::Report));
        if has_news {
            news.extend(self.news.take());
        }
        for one in &news {
            if let News::Report(Report::Checked { id, .. } | Report::Lost { id, .. }) = one {
                self.checks.note_end(*id);
            }
        }
        if wakeup {
            news.push(News::Wakeup);
        }
        self.start_waiting(!news.is_empty() || ready.is_some());
        self.heed_timers()?;
        news.extend(self.reports.drain(..).map(News::Report));
        Ok(news)
    }

    fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    fn watch(&mut self, source: BorrowedFd<'_>) -> io::Result<()> {
        self.processes.add_wakeup(&source)
    }

    fn finish(&mut self) -> Result<(), RunError> {
        self.checks.finish();
        self.processes.finish().map_err(cannot_end)
    }
}

/// Returns the log of an order. All calls of a hook add to one log.
fn log_file(kind: OrderKind, LogSpec { path, limit, growth }: LogSpec) -> LogFile {
    let log = match kind {
        OrderKind::Hook(call) => LogFile::of_call(path, limit, call),
        _ => LogFile::new(path, limit),
    };
    log.watched_by(growth)
}

/// Adds the variables by which a process finds its log and carries its tags. Both extend the variables of
/// this process.
fn introduce(command: &mut CommandSpec, log: &Path, tags: &str) {
    command.env.push((own_logs::LOG_VARIABLE.to_owned(), own_logs::with(log)));
    command.env.push((TAG_VARIABLE.to_owned(), process_tag::inherited_with(tags)));
}

/// Says why a command cannot be started, with the code that a shell would give.
fn why_not(command: &CommandSpec, error: &io::Error) -> (i32, String) {
    let CommandSpec { program, dir, .. } = command;
    let dir: &PathBuf = dir;
    if let Err(error) = dir.read_dir() {
        return (CANNOT_START, format!("its directory {}: {error}", dir.display()));
    }
    let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_START };
    (code, format!("{program}: {error}"))
}

fn cannot_wait(source: io::Error) -> RunError {
    RunError::Io { what: "processes cannot be waited for", source }
}

fn cannot_stop(source: io::Error) -> RunError {
    RunError::Io { what: "the processes of the run cannot be stopped", source }
}

fn cannot_end(source: io::Error) -> RunError {
    RunError::Io { what: "the processes of the run cannot be ended", source }
}

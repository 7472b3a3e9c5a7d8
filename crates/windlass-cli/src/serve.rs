//! `windlass serve`: schedules the submitted runs of a store, and keeps a worker running.
//!
//! The worker is a process in a session of its own, so that it and its steps survive this process. A worker
//! that an earlier `serve` has started is found by its lease. A thread starts the worker again if it ends.

use std::error::Error;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error as ThisError;
use windlass_server::service::{
    Asked, Scheduler, SchedulerEnd, SchedulerNews, asked_of, host_name, live_scheduler,
    live_worker, other_user,
};
use windlass_server::{Access, Inherited, Process, Store, user_name};

use crate::arguments::{Form, ServeArguments};
use crate::exit::Exit;
use crate::service::say;
use crate::state;
use crate::units;

/// The time without work after which a scheduler or worker that a verb has started ends.
const IDLE: &str = "10m";
/// The maximum time that a scheduler takes to start.
const START_TIME: Duration = Duration::from_secs(10);
/// The size of the scheduler's log from which a new one is started.
const LARGEST_LOG: u64 = 1 << 20;
/// The interval between two checks of a worker that another process has started.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The maximum delay before a worker is started again.
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

pub(crate) fn serve(
    state: Option<&Path>,
    arguments: &ServeArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let ServeArguments { no_worker, unit, service } = arguments;
    if let Some(unit) = unit {
        return units::print_units(state, *unit, service);
    }
    service.leave_session();
    let store = state::open(state)?;
    say(form, "store", &format!("store: {}", store.dir().display()));
    if !no_worker {
        let keeper = WorkerKeeper {
            inherited: Inherited::without_password_of(&store)?,
            store: store.try_clone()?,
            name: host_name(),
            slots: service.slots(),
            arguments: service.worker_arguments(),
            lease: service.lease,
            form,
        };
        thread::Builder::new().name("worker".to_owned()).spawn(move || keeper.keep())?;
    }
    let scheduler = Scheduler::new(store, service.lease)?;
    match scheduler.lead(service.idle, &mut |news| tell(news, form))? {
        SchedulerEnd::Signal(signal) => {
            say(form, "ends", &format!("ends on signal {signal}; steps that run go on"));
        }
        _ => say(form, "idle", "had no run to lead for long, and ends"),
    }
    Ok(Exit::Success)
}

/// Warns if what was submitted runs as another user, of a store that a group shares.
pub(crate) fn warn_of_other_user(store: &mut Store) -> Result<(), Box<dyn Error>> {
    if let Some(uid) = other_user(store)? {
        let user = user_name(uid);
        eprintln!(
            "warning: {user} has started the worker of this store, and steps run as the user of their worker"
        );
    }
    Ok(())
}

/// Starts `windlass serve` in the background, unless a scheduler is running.
pub(crate) fn start_in_background(store: &mut Store) -> Result<(), Box<dyn Error>> {
    if live_scheduler(store)?.is_some() {
        return Ok(());
    }
    let log = store.dir().join("serve.log");
    let inherited = Inherited::without_password_of(store)?;
    let mut serve =
        spawn(store.dir(), &inherited, &log).map_err(|source| CannotServe { source })?;
    let began = Instant::now();
    while live_scheduler(store)?.is_none() {
        let ended = serve.try_wait()?.is_some();
        if ended || began.elapsed() > START_TIME {
            return Err(NotServing { log }.into());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn spawn(state: &Path, inherited: &Inherited, log: &Path) -> io::Result<Child> {
    let is_large = fs::metadata(log).is_ok_and(|file| file.len() > LARGEST_LOG);
    if is_large {
        fs::rename(log, log.with_extension("log.1"))?;
    }
    let stderr = Access::open(log, File::options().append(true))?;
    let mut command = Command::new(std::env::current_exe()?);
    inherited.give_to(&mut command);
    command
        .arg("--state")
        .arg(state)
        .args(["serve", "--own-session", "--idle", IDLE])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
}

/// The process of a scheduler cannot be started.
#[derive(Debug, ThisError)]
#[error("the scheduler cannot be started: {source}")]
pub(crate) struct CannotServe {
    source: io::Error,
}

/// The scheduler that was started does not run.
#[derive(Debug, ThisError)]
#[error("the scheduler has not started; its log: {}", log.display())]
pub(crate) struct NotServing {
    log: PathBuf,
}

fn tell(news: &SchedulerNews, form: Form) {
    match news {
        SchedulerNews::StandingBy { leader } => {
            say(form, "standing_by", &format!("stands by: {leader} schedules the runs"));
        }
        SchedulerNews::Leading => say(form, "leading", "schedules the submitted runs"),
        SchedulerNews::Began { run, workflow } => {
            say(form, "began", &format!("leads run {run} of {workflow}"));
        }
        SchedulerNews::Ended { run, end } => {
            say(form, "ended", &format!("run {run} has ended: {}", end.outcome.word()));
        }
        SchedulerNews::Refused { run, why } => {
            say(form, "refused", &format!("run {run} cannot be led: {why}"));
        }
        SchedulerNews::WorkerLost { life, lost } => {
            let text = format!("worker {life} is dead; {lost} of its steps are tried again");
            say(form, "worker_lost", &text);
        }
        SchedulerNews::WorkerStuck { life, why } => {
            let text = format!("the steps of worker {life} cannot be ended, trying again: {why}");
            say(form, "worker_stuck", &text);
        }
        SchedulerNews::Trouble { why } => {
            say(form, "trouble", &format!("the store cannot be used, trying again: {why}"));
        }
        SchedulerNews::Recovered => say(form, "recovered", "the store can be used again"),
        other => say(form, "news", &format!("{other:?}")),
    }
}

/// Keeps a worker running.
struct WorkerKeeper {
    store: Store,
    inherited: Inherited,
    name: String,
    slots: u32,
    /// What it has besides slots, and how much of its logs is kept.
    arguments: Vec<String>,
    lease: Duration,
    form: Form,
}

impl WorkerKeeper {
    /// Starts the worker whenever none of its name is alive. Ends with this process.
    fn keep(mut self) {
        let mut backoff = LOOK_AGAIN;
        let mut drained = false;
        loop {
            match live_worker(&mut self.store, &self.name) {
                Ok(Some(worker)) => self.watch(&worker),
                Ok(None)
                    if matches!(asked_of(&mut self.store, &self.name), Ok(Some(Asked::Drain))) =>
                {
                    if !std::mem::replace(&mut drained, true) {
                        let name = &self.name;
                        let again = format!("to start it again: windlass workers uncordon {name}");
                        let text = format!("worker {name} was drained; {again}");
                        say(self.form, "worker_drained", &text);
                    }
                    thread::sleep(LOOK_AGAIN);
                }
                Ok(None) => {
                    drained = false;
                    let began = Instant::now();
                    match self.start().and_then(|mut child| child.wait()) {
                        Ok(status) => {
                            say(
                                self.form,
                                "worker_ended",
                                &format!("its worker has ended ({status})"),
                            );
                        }
                        Err(error) => {
                            let text = format!("the worker cannot be started: {error}");
                            say(self.form, "worker_failed", &text);
                        }
                    }
                    backoff = match began.elapsed() > LONGEST_BACKOFF {
                        true => LOOK_AGAIN,
                        false => (backoff * 2).min(LONGEST_BACKOFF),
                    };
                    thread::sleep(backoff);
                }
                // The scheduler reports that the store cannot be used.
                Err(_) => thread::sleep(LOOK_AGAIN),
            }
        }
    }

    /// Waits for the end of a worker that another process has started.
    fn watch(&self, worker: &Process) {
        let text = format!("worker {} is running already (process {})", self.name, worker.pid);
        say(self.form, "worker_found", &text);
        while !worker.is_gone() {
            thread::sleep(LOOK_AGAIN);
        }
    }

    fn start(&self) -> io::Result<Child> {
        let log = self.log()?;
        let program = std::env::current_exe()?;
        let lease = format!("{}ms", self.lease.as_millis());
        let mut command = Command::new(program);
        self.inherited.give_to(&mut command);
        let started = command
            .arg("--state")
            .arg(self.store.dir())
            .args(["worker", "--own-session", "--idle", IDLE, "--name", &self.name])
            .args(["--slots", &self.slots.to_string(), "--lease", &lease])
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::options().append(true).open(&log)?)
            .spawn()?;
        let text = format!(
            "started worker {} (process {}); its log: {}",
            self.name,
            started.id(),
            log.display()
        );
        say(self.form, "worker_started", &text);
        Ok(started)
    }

    fn log(&self) -> io::Result<PathBuf> {
        let dir = self.store.dir().join("workers").join(&self.name);
        Access::create_dir(&dir)?;
        let log = dir.join("log");
        Access::open(&log, File::options().append(true))?;
        Ok(log)
    }
}

//! `windlass worker`: executes the steps of submitted runs.

use std::error::Error;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;
use windlass_server::service::{
    Worker, WorkerEnd, WorkerError, WorkerNews, WorkerSettings, guard, host_name,
};
use windlass_server::{Store, StoreError};

use crate::arguments::{Form, WorkerArguments};
use crate::exit::Exit;
use crate::service::say;
use crate::state;

/// How long a worker waits before it tries again to begin.
const BEGIN_AGAIN: Duration = Duration::from_millis(500);

pub(crate) fn worker(
    state: Option<&Path>,
    arguments: &WorkerArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let WorkerArguments { name, guardian, service } = arguments;
    let name = name.clone().unwrap_or_else(host_name);
    if *guardian {
        guard(&state::dir(state)?, &name, service.lease)?;
        return Ok(Exit::Success);
    }
    service.leave_session();
    let store = state::open(state)?;
    let settings = WorkerSettings {
        guardian: guardian_arguments(store.dir(), &name, service.lease),
        name,
        slots: service.slots(),
        equipment: service.equipment(),
        lease: service.lease,
        idle: service.idle,
        kept_log: service.kept_log_bytes(),
    };
    let mut tell = |news: &WorkerNews| tell(&settings, news, form);
    let signals = EndingSignals::watch()?;
    let (mut first, mut is_waiting) = (Some(store), false);
    loop {
        let store = first.take().map_or_else(|| state::open(state), Ok);
        let worker = match begin(store, &settings, &mut tell) {
            // It has to go on by itself when the database is back.
            Err(error) if is_away(&*error) => {
                if !std::mem::replace(&mut is_waiting, true) {
                    tell(&WorkerNews::Trouble(error.to_string()));
                }
                thread::sleep(BEGIN_AGAIN);
                continue;
            }
            begun => begun?,
        };
        signals.leave_to_life();
        is_waiting = false;
        let end = worker.work(&mut tell)?;
        let (event, text) = match end {
            WorkerEnd::LifeOver if signals.end_process() => {
                ("ended", "sent no heartbeats for too long; its steps were ended, and it ends")
            }
            WorkerEnd::LifeOver => {
                let text =
                    "sent no heartbeats for too long; its steps were ended, and it begins again";
                say(form, "life_over", text);
                continue;
            }
            WorkerEnd::Killed => ("killed", "ended all steps, and ends"),
            WorkerEnd::Idle => ("idle", "had nothing to do, and ends"),
            _ => ("drained", "all steps have ended, and the worker ends"),
        };
        say(form, event, text);
        return Ok(Exit::Success);
    }
}

/// The signals that ask a worker to end. While no life of it heeds them, they end this process at once: it
/// executes nothing then, and may wait for a database that does not answer.
struct EndingSignals {
    end_process: Arc<AtomicBool>,
    have_come: Arc<AtomicBool>,
}

impl EndingSignals {
    fn watch() -> io::Result<Self> {
        let (end_process, have_come) = (Arc::new(AtomicBool::new(true)), Arc::default());
        for signal in [SIGINT, SIGQUIT, SIGTERM] {
            flag::register_conditional_default(signal, Arc::clone(&end_process))?;
            flag::register(signal, Arc::clone(&have_come))?;
        }
        Ok(Self { end_process, have_come })
    }

    /// Leaves the signals to a life that has begun.
    fn leave_to_life(&self) {
        // Both flags pair with their handlers, and order nothing else.
        self.end_process.store(false, Ordering::SeqCst);
    }

    /// Has signals end this process again. Returns whether one has come before.
    fn end_process(&self) -> bool {
        self.end_process.store(true, Ordering::SeqCst);
        self.have_come.load(Ordering::SeqCst)
    }
}

fn begin(
    store: Result<Store, Box<dyn Error>>,
    settings: &WorkerSettings,
    tell: &mut dyn FnMut(&WorkerNews),
) -> Result<Worker, Box<dyn Error>> {
    Ok(Worker::start(store?, settings.clone(), tell)?)
}

/// Returns whether a worker cannot begin only because the database cannot be used at the moment. A life whose
/// beginning was not answered is followed by another.
fn is_away(error: &(dyn Error + 'static)) -> bool {
    let of_worker = match error.downcast_ref() {
        Some(WorkerError::Store(error)) => error.is_away(),
        _ => false,
    };
    of_worker || error.downcast_ref().is_some_and(StoreError::is_away)
}

/// Returns the arguments with which this program guards a worker. The directory stands for the store, also
/// if that is in a database: the worker's own directory is there.
fn guardian_arguments(dir: &Path, name: &str, lease: Duration) -> Vec<OsString> {
    let lease = format!("{}ms", lease.as_millis());
    let worker = ["worker", "--guardian", "--name", name, "--lease", &lease];
    let worker = worker.map(OsString::from);
    [OsString::from("--state"), dir.into()].into_iter().chain(worker).collect()
}

fn tell(settings: &WorkerSettings, news: &WorkerNews, form: Form) {
    let WorkerSettings { name, slots, .. } = settings;
    match news {
        WorkerNews::Ready { life, lost } => {
            let lost = match lost {
                0 => String::new(),
                1 => "; 1 step of its last life was lost".to_owned(),
                lost => format!("; {lost} steps of its last life were lost"),
            };
            let text =
                format!("worker {name} takes steps, {slots} at once (life {}){lost}", life.token);
            say(form, "ready", &text);
        }
        WorkerNews::AwaitingName => {
            let text = format!(
                "waits until the lease of the last worker named {name} is over: that may live on \
                 another machine, or be of an earlier boot of this one"
            );
            say(form, "awaiting_name", &text);
        }
        WorkerNews::Draining => {
            say(
                form,
                "draining",
                "takes no new steps; send the signal again to end those that run",
            );
        }
        WorkerNews::Cordoned => {
            let again = format!("to let it take steps: windlass workers uncordon {name}");
            say(form, "cordoned", &format!("takes no new steps, and stays; {again}"));
        }
        WorkerNews::Uncordoned => say(form, "uncordoned", "takes steps again"),
        WorkerNews::Trouble(why) => {
            say(form, "trouble", &format!("the store cannot be used, trying again: {why}"));
        }
        WorkerNews::NoRoom(why) => {
            say(form, "no_room", &format!("there is no room, so steps wait: {why}"));
        }
        WorkerNews::Recovered => say(form, "recovered", "the store can be used again"),
        other => say(form, "news", &format!("{other:?}")),
    }
}

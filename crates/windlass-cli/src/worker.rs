//! `windlass worker`: executes the steps of submitted runs.

use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use windlass_server::service::{Worker, WorkerEnd, WorkerNews, WorkerSettings, guard, host_name};

use crate::arguments::{Form, WorkerArguments};
use crate::exit::Exit;
use crate::service::say;
use crate::state;

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
    let mut store = state::open(state)?;
    let settings = WorkerSettings {
        guardian: guardian_arguments(store.dir(), &name, service.lease),
        name,
        slots: service.slots(),
        equipment: service.equipment(),
        lease: service.lease,
        idle: service.idle,
    };
    let mut tell = |news: &WorkerNews| tell(&settings, news, form);
    loop {
        let worker = Worker::start(store, settings.clone(), &mut tell)?;
        let (event, text) = match worker.work(&mut tell)? {
            WorkerEnd::LifeOver => {
                let text =
                    "sent no heartbeats for too long; its steps were ended, and it begins again";
                say(form, "life_over", text);
                store = state::open(state)?;
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
        WorkerNews::Draining => {
            say(
                form,
                "draining",
                "takes no new steps; send the signal again to end those that run",
            );
        }
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

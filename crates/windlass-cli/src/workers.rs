//! `windlass workers`: lists the workers of a store, and has them take nothing new.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use windlass_server::service::{
    AboutWorker, Asked, SeenWorker, StoredWorker, ask_worker, workers as all_workers,
};

use crate::arguments::{Form, WorkersVerb};
use crate::exit::Exit;
use crate::output::{json, print};
use crate::state;
use crate::style::{Ink, Style};
use crate::table::{Cell, Table};
use crate::times::{Times, span};

pub(crate) fn workers(
    state: Option<&Path>,
    verb: Option<&WorkersVerb>,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let (names, asked) = match verb {
        None | Some(WorkersVerb::List) => return list(state, form),
        Some(WorkersVerb::Drain { names }) => (names, Some(Asked::Drain)),
        Some(WorkersVerb::Cordon { names }) => (names, Some(Asked::Cordon)),
        Some(WorkersVerb::Uncordon { names }) => (names, None),
    };
    let mut store = state::existing(state)?;
    for name in names {
        ask_worker(&mut store, name, asked)?;
    }
    let seen = all_workers(&mut store)?;
    for seen in seen.iter().filter(|seen| names.contains(&seen.worker.life.worker)) {
        tell(seen, asked, form);
    }
    Ok(Exit::Success)
}

/// Tells the user what a worker does now.
fn tell(seen: &SeenWorker, asked: Option<Asked>, form: Form) {
    let name = &seen.worker.life.worker;
    let word = match asked {
        Some(Asked::Drain) => "drain",
        Some(Asked::Cordon) => "cordon",
        None => "uncordon",
    };
    if form == Form::Json {
        let busy = seen.busy;
        print(&json("worker_asked", &AskedJson { name, asked: word, busy }));
        return;
    }
    let steps = match seen.busy {
        0 => "it executes none".to_owned(),
        1 => "1 step is left".to_owned(),
        busy => format!("{busy} steps are left"),
    };
    eprintln!(
        "{}",
        match (asked, seen.alive) {
            (None, true) => format!("worker {name} takes steps"),
            (None, false) => format!("worker {name} takes steps once it is started"),
            (Some(_), false) => format!("worker {name} is not running"),
            (Some(Asked::Cordon), true) => {
                format!("worker {name} takes no new steps, and stays; {steps}")
            }
            (Some(Asked::Drain), true) => {
                format!(
                    "worker {name} takes no new steps, and leaves when its steps have ended; {steps}"
                )
            }
        }
    );
}

/// Lists the workers of the store.
fn list(state: Option<&Path>, form: Form) -> Result<Exit, Box<dyn Error>> {
    let workers = all_workers(&mut state::look(state)?)?;
    if form == Form::Json {
        print(&workers.iter().map(line).collect::<String>());
        return Ok(Exit::Success);
    }
    let times = Times::now();
    let mut table =
        Table::new(["WORKER", "STATE", "STEPS", "MACHINE", "VERSION", "HEARTBEAT", "SINCE"]);
    for seen in &workers {
        let StoredWorker { life, slots, since_ms, .. } = &seen.worker;
        let heartbeat =
            seen.heartbeat_ms.map(|ago| format!("{} ago", span(Duration::from_millis(ago))));
        table.row([
            Cell::from(&life.worker),
            Cell::inked(seen.word(), (!seen.alive).then_some(Ink::Red)),
            Cell::from(format!("{}/{slots}", seen.busy)),
            Cell::from(&seen.about.machine),
            Cell::from(&seen.about.version),
            Cell::from(heartbeat.unwrap_or_default()),
            Cell::from(times.when(*since_ms)),
        ]);
    }
    match workers.is_empty() {
        true => eprintln!(
            "no worker has been started; start one with: windlass worker, or windlass serve"
        ),
        false => print(&table.render(&Style::of_stdout())),
    }
    Ok(Exit::Success)
}

fn line(seen: &SeenWorker) -> String {
    let StoredWorker { life, slots, .. } = &seen.worker;
    let AboutWorker { machine, version, pid, .. } = &seen.about;
    let (name, state, busy, heartbeat_ms) =
        (&life.worker, seen.word(), seen.busy, seen.heartbeat_ms);
    let slots = *slots;
    json(
        "worker",
        &WorkerJson { name, state, slots, busy, machine, version, pid: *pid, heartbeat_ms },
    )
}

#[derive(Serialize)]
struct WorkerJson<'a> {
    name: &'a str,
    state: &'static str,
    slots: u32,
    busy: usize,
    machine: &'a str,
    version: &'a str,
    pid: u32,
    /// How long ago its last heartbeat was.
    heartbeat_ms: Option<u64>,
}

#[derive(Serialize)]
struct AskedJson<'a> {
    name: &'a str,
    asked: &'static str,
    busy: usize,
}

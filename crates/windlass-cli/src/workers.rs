//! `windlass workers`: lists the workers of a store, and has them take nothing new.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::Number;
use windlass_server::service::{
    AboutWorker, Asked, Equipment, SeenWorker, StoredWorker, Supply, ask_worker,
    workers as all_workers,
};

use crate::arguments::{Form, WorkersVerb};
use crate::exit::Exit;
use crate::limits::{amount_text, number};
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
    let mut table = Table::new([
        "WORKER",
        "STATE",
        "STEPS",
        "MACHINE",
        "VERSION",
        "HEARTBEAT",
        "SINCE",
        "RESOURCES",
        "LABELS",
    ]);
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
            Cell::from(resources(&seen.equipment)),
            Cell::from(labels(&seen.equipment)),
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

/// Returns the resources of a worker, written as `--items` and `--resource` take them.
fn resources(equipment: &Equipment) -> String {
    let resource = |(name, supply): (&String, &Supply)| match supply {
        Supply::Items(items) => format!("{name}={}", items.join(",")),
        Supply::Steps(_) => format!("{name}={}", amount_text(supply.amount())),
    };
    equipment.resources.iter().map(resource).collect::<Vec<_>>().join(" ")
}

/// Returns the labels of a worker, written as `--label` takes them.
fn labels(equipment: &Equipment) -> String {
    let labels = equipment.labels.iter().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(" ")
}

fn line(seen: &SeenWorker) -> String {
    let StoredWorker { life, slots, .. } = &seen.worker;
    let AboutWorker { machine, version, pid, .. } = &seen.about;
    let resources = seen.equipment.resources.iter();
    let worker = WorkerJson {
        name: &life.worker,
        state: seen.word(),
        slots: *slots,
        busy: seen.busy,
        machine,
        version,
        pid: *pid,
        heartbeat_ms: seen.heartbeat_ms,
        resources: resources
            .map(|(name, supply)| (name.as_str(), SupplyJson::of(supply)))
            .collect(),
        labels: &seen.equipment.labels,
    };
    json("worker", &worker)
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
    /// By name.
    resources: BTreeMap<&'a str, SupplyJson<'a>>,
    labels: &'a BTreeMap<String, String>,
}

/// How much a worker has of a resource.
#[derive(Serialize)]
struct SupplyJson<'a> {
    amount: Number,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<&'a [String]>,
}

impl<'a> SupplyJson<'a> {
    fn of(supply: &'a Supply) -> Self {
        let items = match supply {
            Supply::Items(items) => Some(items.as_slice()),
            Supply::Steps(_) => None,
        };
        Self { amount: number(supply.amount()), items }
    }
}

#[derive(Serialize)]
struct AskedJson<'a> {
    name: &'a str,
    asked: &'static str,
    busy: usize,
}

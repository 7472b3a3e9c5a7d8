//! `windlass holders`: lists who holds locks and semaphores, and who waits for them.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::{self, Display};
use std::path::Path;

use serde::{Serialize, Serializer};
use windlass_server::{
    Amount, HoldState, HolderId, HolderLabel, HolderNames, Name, NameView, Process, StoredLease,
    StoredWaiter, Timestamp, command_line, other_host, user_name,
};

use crate::arguments::Form;
use crate::exit::Exit;
use crate::limits::{amount_text, number};
use crate::output::{json, print};
use crate::state;
use crate::style::plain;
use crate::times::{Times, span};

/// The kind of name that the leader of a run holds.
const RUN: &str = "run";

pub(crate) fn holders(
    state: Option<&Path>,
    name: Option<&str>,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::look(state)?;
    let dir = state::dir(state)?.display().to_string();
    let (mut views, now) = store.read(|transaction| {
        let views = transaction.leases().overview()?;
        Ok((views, transaction.now().at))
    })?;
    // `windlass workers` shows who serves the store.
    views.retain(|view| !matches!(view.name, Name::Scheduler | Name::Worker(_)));
    views.retain(|view| name.is_none_or(|name| view.name.text() == name));
    let names = HolderNames::among(&mut store, views.iter().flat_map(holders_of))?;
    let runs = views.iter().filter(|view| view.name.kind() == RUN).map(|view| view.name.text());
    // A run that this version cannot read is known by its id alone.
    let workflow = |run: &str| Some((run.to_owned(), store.run(run).ok()?.workflow));
    let workflows = runs.filter_map(workflow).collect();
    let list = List { names: &names, workflows, store: &dir, now };
    let rows = views.iter().flat_map(|view| list.rows(view));
    let text: String = rows.map(|row| row.line(form)).collect();
    print(&text);
    if form == Form::Text {
        match (text.is_empty(), name) {
            (false, _) => {}
            (true, None) => eprintln!("no locks or semaphores are held or waited for"),
            (true, Some(name)) => {
                eprintln!("{:?} is not held, and no process waits for it", plain(name));
            }
        }
        eprintln!("store: {}", plain(&dir));
    }
    Ok(Exit::Success)
}

fn holders_of(view: &NameView) -> impl Iterator<Item = &HolderId> {
    let held = view.leases.iter().map(|stored| &stored.lease.holder);
    held.chain(view.waiters.iter().map(|stored| &stored.waiter.holder))
}

/// What the rows have in common.
struct List<'a> {
    names: &'a HolderNames,
    /// The names of the workflows of runs.
    workflows: BTreeMap<String, String>,
    store: &'a str,
    now: Timestamp,
}

impl<'a> List<'a> {
    /// Returns the holders of a name, then its waiters.
    fn rows(&self, view: &'a NameView) -> Vec<Row<'a>> {
        let holders = view.leases.iter().map(|stored| self.holder(view, stored));
        holders.chain(view.waiters.iter().map(|stored| self.waiter(view, stored))).collect()
    }

    fn holder(&self, view: &'a NameView, stored: &'a StoredLease) -> Row<'a> {
        let StoredLease { lease, owner, .. } = stored;
        let process = ProcessJson::of(owner.process.as_ref(), owner.uid, owner.host.as_deref());
        Row {
            state: match stored.state(self.now) {
                HoldState::Gone => "gone",
                HoldState::Stale => "stale",
                _ => "held",
            },
            weight: Weight::of(&view.name, lease.weight),
            token: Some(lease.token.0),
            since: owner.since_ms,
            ..self.row(view, &lease.holder, process)
        }
    }

    fn waiter(&self, view: &'a NameView, stored: &'a StoredWaiter) -> Row<'a> {
        let mut needs = stored.waiter.needs.iter();
        let process = ProcessJson::of(stored.process.as_ref(), None, stored.host.as_deref());
        Row {
            state: if stored.is_gone() { "gone" } else { "waiting" },
            weight: Weight::of(
                &view.name,
                needs.find(|need| need.name == view.name).map_or(1, |need| need.weight),
            ),
            since: stored.since_ms,
            ..self.row(view, &stored.waiter.holder, process)
        }
    }

    fn row(&self, view: &'a NameView, holder: &'a HolderId, process: ProcessJson) -> Row<'a> {
        Row {
            name: NameJson {
                kind: view.name.kind(),
                name: view.name.text(),
                workflow: self.workflows.get(view.name.text()).cloned(),
                capacity: view.stored.capacity.map(|slots| Weight::of(&view.name, slots)),
            },
            holder: holder.as_str(),
            label: process.label(&self.names.name(holder)),
            step: self.names.step(holder),
            state: "",
            weight: Weight::Slots(1),
            token: None,
            since: 0,
            process,
            store: self.store,
        }
    }
}

/// Slots of a semaphore, or an amount of a limit.
#[derive(Clone, Copy, Serialize)]
#[serde(untagged)]
enum Weight {
    Slots(u64),
    Amount(#[serde(serialize_with = "as_number")] Amount),
}

impl Weight {
    fn of(name: &Name, weight: u64) -> Self {
        match name {
            Name::Limit(_) => Weight::Amount(Amount::from_steps(weight)),
            _ => Weight::Slots(weight),
        }
    }
}

impl Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Weight::Slots(slots) => slots.fmt(f),
            Weight::Amount(amount) => amount_text(*amount).fmt(f),
        }
    }
}

fn as_number<S: Serializer>(amount: &Amount, serializer: S) -> Result<S::Ok, S::Error> {
    number(*amount).serialize(serializer)
}

/// A name, and a process that holds it or waits for it.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    name: NameJson<'a>,
    holder: &'a str,
    /// The holder, as messages name it.
    #[serde(skip)]
    label: String,
    /// `RUN/STEP`, if the holder is a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    /// `held` or `waiting`; `gone` if the process has ended or the machine was rebooted, `stale` if the
    /// lease has expired.
    state: &'static str,
    weight: Weight,
    token: Option<u64>,
    /// Milliseconds since 1970.
    since: i64,
    #[serde(flatten)]
    process: ProcessJson,
    /// The directory of the store.
    store: &'a str,
}

#[derive(Serialize)]
struct NameJson<'a> {
    kind: &'static str,
    name: &'a str,
    /// The name of the workflow of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<String>,
    capacity: Option<Weight>,
}

#[derive(Serialize)]
struct ProcessJson {
    pid: Option<u32>,
    /// The command line, if it can be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    /// The user, by name or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// The name of the machine, in a store that several machines use.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
}

impl ProcessJson {
    fn of(process: Option<&Process>, uid: Option<u32>, host: Option<&str>) -> Self {
        Self {
            pid: process.map(|process| process.pid),
            command: process.and_then(command_line),
            user: uid.map(user_name),
            host: host.map(str::to_owned),
        }
    }

    /// Returns what messages call a holder with this process.
    fn label(&self, name: &str) -> String {
        let (command, host) = (self.command.as_deref(), other_host(self.host.as_deref()));
        HolderLabel { name, pid: self.pid, command, host: host.as_deref() }.to_string()
    }
}

impl Row<'_> {
    fn line(&self, form: Form) -> String {
        match form {
            Form::Json => json("holder", self),
            Form::Text => self.text() + "\n",
        }
    }

    fn text(&self) -> String {
        let Row { name, label, weight, .. } = self;
        let age = span(Times::now().since(self.since));
        let problem = self.problem();
        if name.kind == RUN {
            let host = other_host(self.process.host.as_deref());
            let host = host.map(|host| format!(" on {}", plain(&host))).unwrap_or_default();
            let leader = self.process.pid.map(|pid| format!("process {pid}{host}"));
            let leader = leader.as_ref().unwrap_or(label);
            let workflow = name.workflow.as_deref().map(|name| format!(" ({})", plain(name)));
            let (run, workflow) = (plain(name.name), workflow.unwrap_or_default());
            return format!("run {run}{workflow}: led by {leader} for {age}{problem}");
        }
        let slots = name.capacity.map(|capacity| format!("{weight} of {capacity} "));
        let slots = slots.unwrap_or_default();
        let token = self.token.map(|token| format!(", token {token}")).unwrap_or_default();
        let verb = if self.token.is_some() { "held" } else { "wanted" };
        let (kind, name) = (name.kind, plain(name.name));
        format!("{kind} {name:?}: {slots}{verb} by {label} for {age}{token}{problem}")
    }

    /// Returns what is wrong with the holder, if something is.
    fn problem(&self) -> &'static str {
        match self.state {
            "gone" => "; its process has ended",
            "stale" => "; stale: its heartbeats have stopped",
            _ => "",
        }
    }
}

//! `windlass holders`: what is held by whom, and which processes wait for it.

use std::error::Error;
use std::path::Path;

use serde::Serialize;
use windlass_server::{
    HoldState, HolderId, HolderLabel, HolderNames, Name, NameView, Process, StoredLease,
    StoredWaiter, Timestamp, command_line, user_name,
};

use crate::arguments::Form;
use crate::exit::Exit;
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
    let mut text = String::new();
    for (mut row, process) in views.iter().flat_map(|view| rows(view, now)) {
        let holder = HolderId::new(row.holder);
        row.store = &dir;
        if row.kind == RUN {
            // A run that this version cannot read is known by its id alone.
            row.workflow = store.run(row.name).ok().map(|run| run.workflow);
        }
        row.step = names.step(&holder);
        row.command = process.and_then(command_line);
        text += &match form {
            Form::Json => json(&row),
            Form::Text => {
                let name = names.name(&holder);
                let holder =
                    HolderLabel { name: &name, pid: row.pid, command: row.command.as_deref() };
                row.text(&holder) + "\n"
            }
        };
    }
    print(&text);
    if form == Form::Text {
        match (text.is_empty(), name) {
            (false, _) => {}
            (true, None) => eprintln!("nothing is held, and no process waits"),
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

/// A name, and a process that holds it or waits for it.
#[derive(Clone, Serialize)]
struct Row<'a> {
    schema: u32,
    event: &'static str,
    kind: &'static str,
    name: &'a str,
    /// The name of the workflow of a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow: Option<String>,
    capacity: Option<u32>,
    holder: &'a str,
    /// The step that it is, as `RUN/STEP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    /// `held` or `waiting`; `gone` if its process has ended or the machine was booted since, `stale` if
    /// its lease is over.
    state: &'static str,
    weight: u32,
    token: Option<u64>,
    /// Milliseconds since 1970.
    since: i64,
    pid: Option<u32>,
    /// The command line of the process, if it can be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    /// The user, by name or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// Where all of this was found.
    store: &'a str,
}

fn rows(view: &NameView, now: Timestamp) -> Vec<(Row<'_>, Option<&Process>)> {
    let leases = view.leases.iter();
    let leases = leases.map(|lease| (of_lease(view, lease, now), lease.owner.process.as_ref()));
    let waiters = view.waiters.iter();
    let waiters = waiters.map(|waiter| (of_waiter(view, waiter), waiter.process.as_ref()));
    leases.chain(waiters).collect()
}

fn of_lease<'a>(view: &'a NameView, stored: &'a StoredLease, now: Timestamp) -> Row<'a> {
    let StoredLease { lease, owner, .. } = stored;
    let state = match stored.state(now) {
        HoldState::Gone => "gone",
        HoldState::Stale => "stale",
        _ => "held",
    };
    let user = owner.uid.map(user_name);
    let pid = owner.process.as_ref().map(|process| process.pid);
    let token = Some(lease.token.0);
    let (weight, since) = (lease.weight, owner.since_ms);
    row(view, Row { state, weight, token, since, pid, user, ..Row::of(lease.holder.as_str()) })
}

fn of_waiter<'a>(view: &'a NameView, stored: &'a StoredWaiter) -> Row<'a> {
    let mut needs = stored.waiter.needs.iter();
    let weight = needs.find(|need| need.name == view.name).map_or(1, |need| need.weight);
    let pid = stored.process.as_ref().map(|process| process.pid);
    let (state, since) = (if stored.is_gone() { "gone" } else { "waiting" }, stored.since_ms);
    row(view, Row { state, weight, since, pid, ..Row::of(stored.waiter.holder.as_str()) })
}

fn row<'a>(view: &'a NameView, row: Row<'a>) -> Row<'a> {
    Row { kind: view.name.kind(), name: view.name.text(), capacity: view.stored.capacity, ..row }
}

impl<'a> Row<'a> {
    fn of(holder: &'a str) -> Self {
        Self {
            schema: 1,
            event: "holder",
            kind: "",
            name: "",
            workflow: None,
            capacity: None,
            holder,
            step: None,
            state: "",
            weight: 1,
            token: None,
            since: 0,
            pid: None,
            command: None,
            user: None,
            store: "",
        }
    }

    fn text(&self, holder: &HolderLabel<'_>) -> String {
        let Row { kind, name, weight, .. } = self;
        let for_how_long = span(Times::now().since(self.since));
        if *kind == RUN {
            let leader = self.pid.map_or(holder.to_string(), |pid| format!("process {pid}"));
            let workflow = self.workflow.as_deref().map(|name| format!(" ({})", plain(name)));
            let (run, workflow, more) = (plain(name), workflow.unwrap_or_default(), self.more());
            return format!("run {run}{workflow}: led by {leader} for {for_how_long}{more}");
        }
        let slots = self.capacity.map(|capacity| format!("{weight} of {capacity} "));
        let slots = slots.unwrap_or_default();
        let token = self.token.map(|token| format!(", token {token}")).unwrap_or_default();
        let what = if self.token.is_some() { "held" } else { "wanted" };
        let more = self.more();
        let name = plain(name);
        format!("{kind} {name:?}: {slots}{what} by {holder} for {for_how_long}{token}{more}")
    }

    /// Returns what is wrong with the holder, if something is.
    fn more(&self) -> &'static str {
        match self.state {
            "gone" => "; its process has ended",
            "stale" => "; stale: its heartbeats have stopped",
            _ => "",
        }
    }
}

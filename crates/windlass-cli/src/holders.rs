//! `windlass holders`: who holds what, and who waits for it.

use std::error::Error;
use std::path::Path;

use serde::Serialize;
use windlass_server::{
    HoldState, HolderId, NameView, People, StoredLease, StoredWaiter, Timestamp, user_name,
};

use crate::arguments::Form;
use crate::exit::Exit;
use crate::output::{json, print};
use crate::state;
use crate::style::plain;
use crate::times::{Times, span};

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
    views.retain(|view| name.is_none_or(|name| view.name.text() == name));
    let people = People::among(&mut store, views.iter().flat_map(holders_of))?;
    let mut text = String::new();
    for mut row in views.iter().flat_map(|view| rows(view, now)) {
        let holder = HolderId::new(row.holder);
        row.store = &dir;
        row.step = people.step(&holder);
        text += &match form {
            Form::Text => row.text(&people.name(&holder)) + "\n",
            Form::Json => json(&row),
        };
    }
    print(&text);
    if form == Form::Text {
        match (text.is_empty(), name) {
            (false, _) => {}
            (true, None) => eprintln!("nothing is held, and no process waits"),
            (true, Some(name)) => eprintln!("{name:?} is not held, and no process waits for it"),
        }
        eprintln!("store: {}", plain(&dir));
    }
    Ok(Exit::Success)
}

fn holders_of(view: &NameView) -> impl Iterator<Item = &HolderId> {
    let held = view.leases.iter().map(|stored| &stored.lease.holder);
    held.chain(view.waiters.iter().map(|stored| &stored.waiter.holder))
}

/// One who holds or waits.
#[derive(Clone, Serialize)]
struct Row<'a> {
    schema: u32,
    event: &'static str,
    kind: &'static str,
    name: &'a str,
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
    /// The user, by name or number.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// Where all of this was found.
    store: &'a str,
}

fn rows(view: &NameView, now: Timestamp) -> Vec<Row<'_>> {
    let leases = view.leases.iter().map(|lease| of_lease(view, lease, now));
    leases.chain(view.waiters.iter().map(|waiter| of_waiter(view, waiter))).collect()
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
            capacity: None,
            holder,
            step: None,
            state: "",
            weight: 1,
            token: None,
            since: 0,
            pid: None,
            user: None,
            store: "",
        }
    }

    fn text(&self, holder: &str) -> String {
        let Row { kind, name, weight, .. } = self;
        let holder = plain(holder);
        let of = self.capacity.map(|capacity| format!(" {weight} of {capacity}"));
        let token = self.token.map(|token| format!(", token {token}")).unwrap_or_default();
        let for_how_long = span(Times::now().since(self.since));
        let of = of.unwrap_or_default();
        let what = if self.token.is_some() { "held" } else { "waiting" };
        let more = match self.state {
            "gone" => "; its process is gone",
            "stale" => "; stale: its heartbeats have stopped",
            _ => "",
        };
        format!("{kind} {name:?}: {what}{of} by {holder} for {for_how_long}{token}{more}")
    }
}

//! `windlass limits`: sets, lists and removes the limits that all runs and commands of a store share.

use std::error::Error;
use std::path::Path;

use serde::Serialize;
use serde_json::Number;
use windlass_server::{
    Amount, HolderId, HolderLabel, HolderNames, LimitError, LimitItems, LimitKind, Name, NameView,
    Process, StoreError, StoreOpener, command_line, other_host,
};
use windlass_workflow::format_size;

use crate::arguments::{Form, LimitsArguments, LimitsVerb, SetArguments};
use crate::exit::Exit;
use crate::holder::called;
use crate::lock::usage;
use crate::output::{json, print};
use crate::state;
use crate::style::plain;
use crate::times::{Times, span};

pub(crate) fn limits(
    state: Option<&Path>,
    arguments: &LimitsArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    match &arguments.verb {
        None | Some(LimitsVerb::List) => list(state, form),
        Some(LimitsVerb::Set(settings)) => set(state, settings, form),
        Some(LimitsVerb::Remove { names }) => remove(state, names, form),
    }
}

/// Returns an amount of a limit, as a size if it looks like one.
pub(crate) fn amount_text(amount: Amount) -> String {
    const LEAST_SIZE: u64 = 1 << 20;
    match amount.steps() / Amount::ONE.steps() {
        0..LEAST_SIZE => amount.to_string(),
        _ => format_size(amount),
    }
}

fn set(state: Option<&Path>, settings: &SetArguments, form: Form) -> Result<Exit, Box<dyn Error>> {
    let limits = match settings.limits() {
        Ok(limits) => limits,
        Err(why) => return Ok(usage(&why)),
    };
    let mut store = state::open(state)?;
    let impossible = store.transact(|transaction| {
        let set =
            limits.iter().map(|(name, kind)| Ok((name, transaction.limits().set(name, kind)?)));
        set.collect::<Result<Vec<_>, _>>()
    });
    let impossible = impossible.map_err(|error| with_label(&store.opener(), error))?;
    for (name, holders) in impossible {
        for holder in holders {
            let by = called(&store.opener(), &holder);
            eprintln!(
                "windlass: {by} waits for more of limit {name:?} than that, and cannot get it"
            );
        }
    }
    for (name, kind) in &limits {
        let shown = LimitJson::of(name, kind);
        print(&match form {
            Form::Json => json("limit", &shown),
            Form::Text => format!("{}\n", shown.head()),
        });
    }
    Ok(Exit::Success)
}

fn remove(state: Option<&Path>, names: &[String], form: Form) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::open(state)?;
    let removed = store.transact(|transaction| {
        names.iter().try_for_each(|name| transaction.limits().remove(name))
    });
    removed.map_err(|error| with_label(&store.opener(), error))?;
    if form == Form::Text {
        names.iter().for_each(|name| print(&format!("limit {name:?} removed\n")));
    }
    Ok(Exit::Success)
}

/// Calls the user of a limit in an error by the name that other messages use.
fn with_label(store: &StoreOpener, error: StoreError) -> StoreError {
    let label = |by: &HolderId| HolderId::new(called(store, by));
    match error {
        StoreError::Limit(LimitError::InUse { name, by }) => {
            LimitError::InUse { name, by: label(&by) }.into()
        }
        StoreError::Limit(LimitError::KindInUse { name, by }) => {
            LimitError::KindInUse { name, by: label(&by) }.into()
        }
        error => error,
    }
}

fn list(state: Option<&Path>, form: Form) -> Result<Exit, Box<dyn Error>> {
    let mut store = state::look(state)?;
    let (limits, mut views) = store
        .read(|transaction| Ok((transaction.limits().all()?, transaction.leases().overview()?)))?;
    views.retain(|view| matches!(view.name, Name::Limit(_)));
    let held = views.iter().flat_map(|view| &view.leases).map(|stored| &stored.lease.holder);
    let wanted = views.iter().flat_map(|view| &view.waiters).map(|stored| &stored.waiter.holder);
    let names = HolderNames::among(&mut store, held.chain(wanted))?;
    let mut text = String::new();
    for (name, kind) in &limits {
        let mut shown = LimitJson::of(name, kind);
        if let Some(view) = views.iter().find(|view| view.name.text() == name) {
            shown.add_users(&names, view);
        }
        text += &match form {
            Form::Json => json("limit", &shown),
            Form::Text => shown.text(),
        };
    }
    print(&text);
    if form == Form::Text && limits.is_empty() {
        eprintln!("the store has no limits; set one with: windlass limits set gpu=2");
    }
    Ok(Exit::Success)
}

/// A limit, with who uses it and who waits for it.
#[derive(Serialize)]
struct LimitJson<'a> {
    name: &'a str,
    amount: Number,
    in_use: Number,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<&'a [String]>,
    /// The variable in which a holder finds its items.
    #[serde(skip_serializing_if = "Option::is_none")]
    env: Option<&'a str>,
    holders: Vec<UserJson>,
    waiters: Vec<UserJson>,
    #[serde(skip)]
    exact: Exact,
}

/// The amounts of a limit, as messages show them.
#[derive(Clone, Copy)]
struct Exact {
    amount: Amount,
    in_use: Amount,
}

/// A holder of a limit, or a waiter for it.
#[derive(Serialize)]
struct UserJson {
    holder: String,
    /// `RUN/STEP`, if the holder is a step.
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<String>,
    amount: Number,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    items: Vec<String>,
    /// Milliseconds since 1970.
    since: i64,
    pid: Option<u32>,
    #[serde(skip)]
    label: String,
    #[serde(skip)]
    exact: Amount,
}

impl<'a> LimitJson<'a> {
    fn of(name: &'a str, kind: &'a LimitKind) -> Self {
        let (items, env) = match kind {
            LimitKind::Items(LimitItems { names, variable_name }) => {
                (Some(names.as_slice()), Some(variable_name.as_str()))
            }
            LimitKind::Amount(_) => (None, None),
        };
        let exact = Exact { amount: kind.amount(), in_use: Amount::ZERO };
        let (amount, holders, waiters) = (number(exact.amount), Vec::new(), Vec::new());
        Self { name, amount, in_use: Number::from(0), items, env, holders, waiters, exact }
    }

    fn add_users(&mut self, names: &HolderNames, view: &NameView) {
        let user = |holder: &HolderId, weight, of: (Option<&Process>, Option<&str>), since| {
            let (process, host) = of;
            let (name, exact) = (names.name(holder), Amount::from_steps(weight));
            let (pid, command) =
                (process.map(|process| process.pid), process.and_then(command_line));
            let (command, host) = (command.as_deref(), other_host(host));
            let label =
                HolderLabel { name: &name, pid, command, host: host.as_deref() }.to_string();
            let (holder, step) = (holder.to_string(), names.step(holder));
            UserJson {
                holder,
                step,
                amount: number(exact),
                items: Vec::new(),
                since,
                pid,
                label,
                exact,
            }
        };
        for stored in &view.leases {
            let (lease, owner) = (&stored.lease, &stored.owner);
            let of = (owner.process.as_ref(), owner.host.as_deref());
            let by = user(&lease.holder, lease.weight, of, owner.since_ms);
            self.holders.push(UserJson { items: stored.items.clone(), ..by });
        }
        for stored in &view.waiters {
            let waiter = &stored.waiter;
            let need = waiter.needs.iter().find(|need| need.name == view.name);
            let weight = need.map_or(0, |need| need.weight);
            let of = (stored.process.as_ref(), stored.host.as_deref());
            let by = user(&waiter.holder, weight, of, stored.since_ms);
            self.waiters.push(by);
        }
        let steps =
            self.holders.iter().fold(0, |sum: u64, by| sum.saturating_add(by.exact.steps()));
        self.exact.in_use = Amount::from_steps(steps);
        self.in_use = number(self.exact.in_use);
    }

    /// Returns the line that names the limit.
    fn head(&self) -> String {
        let items = self.items.map(|items| format!(" (items {})", plain(&items.join(", "))));
        let (name, amount) = (plain(self.name), amount_text(self.exact.amount));
        format!("limit {name:?}: {amount}{}", items.unwrap_or_default())
    }

    fn text(&self) -> String {
        let mut text = format!("{}, {} in use\n", self.head(), amount_text(self.exact.in_use));
        for (verb, users) in [("held", &self.holders), ("wanted", &self.waiters)] {
            for by in users {
                text += &format!("  {}\n", by.text(verb));
            }
        }
        text
    }
}

impl UserJson {
    fn text(&self, verb: &str) -> String {
        let age = span(Times::now().since(self.since));
        let items = match self.items.as_slice() {
            [] => String::new(),
            [item] => format!(" (item {})", plain(item)),
            items => format!(" (items {})", plain(&items.join(", "))),
        };
        format!("{}{items} {verb} by {} for {age}", amount_text(self.exact), self.label)
    }
}

/// Returns an amount as a number of JSON.
#[expect(clippy::cast_precision_loss, reason = "JSON has no exact numbers of that size")]
pub(crate) fn number(amount: Amount) -> Number {
    let (steps, one) = (amount.steps(), Amount::ONE.steps());
    match steps.is_multiple_of(one) {
        true => Number::from(steps / one),
        false => Number::from_f64(steps as f64 / one as f64).expect("it is finite"),
    }
}

//! How leases, waiters and names are stored in rows: the words and numbers for core's types.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass_core::{HolderId, Name, Presence, Remains, Timestamp, Waiter};

use crate::lease::StoredWaiter;

pub(crate) fn presence_word(presence: Presence) -> &'static str {
    match presence {
        Presence::Presumed => "presumed",
        Presence::Stale => "stale",
        Presence::Gone => "gone",
    }
}

pub(crate) fn presence_of(word: &str) -> Presence {
    match word {
        "presumed" => Presence::Presumed,
        "stale" => Presence::Stale,
        _ => Presence::Gone,
    }
}

pub(crate) fn remains_word(remains: Remains) -> &'static str {
    match remains {
        Remains::None => "none",
        Remains::Possible => "possible",
    }
}

pub(crate) fn remains_of(word: &str) -> Remains {
    if word == "none" { Remains::None } else { Remains::Possible }
}

pub(crate) fn name_of(kind: &str, name: String) -> Name {
    match kind {
        "run" => Name::Run(name),
        "scheduler" => Name::Scheduler,
        "worker" => Name::Worker(name),
        "semaphore" => Name::Semaphore(name),
        "limit" => Name::Limit(name),
        _ => Name::Lock(name),
    }
}

/// Returns the stored form of items, of which none contains a comma.
pub(crate) fn items_text(items: &[String]) -> String {
    items.join(",")
}

pub(crate) fn items_of(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

/// Returns a span in the stored form, at most the 292 years that fit.
pub(crate) fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

pub(crate) fn nanos_at(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns the stored form of a waiter's priority, of which the smallest comes first.
pub(crate) fn rank(waiter: &Waiter) -> i64 {
    !waiter.priority
}

/// A waiter with one of its names, and whether that name has refused it.
pub(crate) type WaiterRow = (StoredWaiter, bool);

/// Joins the rows of each holder into one waiter.
pub(crate) fn joined(rows: Vec<WaiterRow>) -> Vec<StoredWaiter> {
    let mut waiters: BTreeMap<HolderId, StoredWaiter> = BTreeMap::new();
    for (row, refused) in rows {
        let need = row.waiter.needs[0].clone();
        let known = waiters.contains_key(&row.waiter.holder);
        let stored = waiters.entry(row.waiter.holder.clone()).or_insert(row);
        if refused {
            stored.waiter.refused.insert(need.name.clone());
        }
        if known {
            stored.waiter.needs.push(need);
        }
    }
    waiters.into_values().collect()
}

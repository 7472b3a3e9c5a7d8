//! How leases and names are stored in rows: the words and numbers for core's types.

use std::time::Duration;

use rusqlite::Row;
use windlass_core::{HolderId, Lease, LeaseTerms, Name, Presence, Remains, Timestamp, Token};

use crate::lease::{Owner, ProcessGroup, ProcessTree, StoredLease};
use crate::process::Process;

/// The columns of a lease, in the order in which [`lease`] reads them.
pub(super) const LEASE: &str = "kind, name, holder, token, weight, since_ns, heartbeat_ns, \
    timeout_ns, max_hold_ns, presence, remains, since_ms, boot, pid, started, namespace, mark, \
    group_leader, group_started, group_session, uid, items";

pub(super) fn lease(row: &Row<'_>) -> rusqlite::Result<StoredLease> {
    let terms = LeaseTerms {
        heartbeat_timeout: Duration::from_nanos(row.get(7)?),
        max_hold: row.get::<_, Option<u64>>(8)?.map(Duration::from_nanos),
    };
    let (holder, token) = (HolderId::new(row.get::<_, String>(2)?), Token(row.get(3)?));
    let mut lease = Lease::new(holder, token, terms, Timestamp::from_nanos(row.get(5)?));
    lease.weight = row.get(4)?;
    lease.last_heartbeat = Timestamp::from_nanos(row.get(6)?);
    lease.presence = presence_of(&row.get::<_, String>(9)?);
    lease.remains =
        if row.get::<_, String>(10)? == "none" { Remains::None } else { Remains::Possible };
    let owner = Owner {
        since_ms: row.get(11)?,
        boot: row.get(12)?,
        process: process(row, 12)?,
        tree: tree(row)?,
        uid: row.get(20)?,
    };
    let items = row.get::<_, Option<String>>(21)?.map(|items| items_of(&items));
    let (name, items) =
        (name_of(&row.get::<_, String>(0)?, row.get(1)?), items.unwrap_or_default());
    Ok(StoredLease { name, lease, owner, items })
}

/// Reads a process from column `boot` and the three after it.
pub(super) fn process(row: &Row<'_>, boot: usize) -> rusqlite::Result<Option<Process>> {
    let Some(pid) = row.get(boot + 1)? else { return Ok(None) };
    let (started, namespace) = (row.get(boot + 2)?, row.get(boot + 3)?);
    Ok(Some(Process { pid, started, boot: row.get(boot)?, namespace }))
}

fn tree(row: &Row<'_>) -> rusqlite::Result<Option<ProcessTree>> {
    let Some(tag) = row.get(16)? else { return Ok(None) };
    let group = match row.get(17)? {
        Some(leader) => Some(ProcessGroup { leader, started: row.get(18)?, session: row.get(19)? }),
        None => None,
    };
    Ok(Some(ProcessTree { tag, group }))
}

pub(super) fn presence_word(presence: Presence) -> &'static str {
    match presence {
        Presence::Presumed => "presumed",
        Presence::Stale => "stale",
        Presence::Gone => "gone",
    }
}

fn presence_of(word: &str) -> Presence {
    match word {
        "presumed" => Presence::Presumed,
        "stale" => Presence::Stale,
        _ => Presence::Gone,
    }
}

pub(super) fn remains_word(remains: Remains) -> &'static str {
    match remains {
        Remains::None => "none",
        Remains::Possible => "possible",
    }
}

pub(super) fn name_of(kind: &str, name: String) -> Name {
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
pub(super) fn items_text(items: &[String]) -> String {
    items.join(",")
}

pub(super) fn items_of(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

/// Returns a span in the stored form, at most the 292 years that fit.
pub(super) fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

pub(super) fn nanos_at(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanos()).unwrap_or(i64::MAX)
}

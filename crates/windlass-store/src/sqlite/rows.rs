//! How leases are read from rows.

use std::time::Duration;

use rusqlite::Row;
use windlass_core::{HolderId, Lease, LeaseTerms, Timestamp, Token};

use crate::lease::{Owner, ProcessGroup, ProcessTree, StoredLease};
use crate::process::Process;
use crate::words::{items_of, name_of, presence_of, remains_of};

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
    lease.remains = remains_of(&row.get::<_, String>(10)?);
    let owner = Owner {
        since_ms: row.get(11)?,
        frame: row.get(12)?,
        host: None,
        process: process(row, 12)?,
        tree: tree(row)?,
        uid: row.get(20)?,
    };
    let items = row.get::<_, Option<String>>(21)?.map(|items| items_of(&items));
    let (name, items) =
        (name_of(&row.get::<_, String>(0)?, row.get(1)?), items.unwrap_or_default());
    Ok(StoredLease { name, lease, owner, items, doubted: false })
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

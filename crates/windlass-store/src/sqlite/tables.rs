//! Names, leases, waiters, events and requests, in SQL.

use std::cell::Cell;
use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use windlass_core::{CoordinationStats, HolderId, Name, Need, Timestamp, Token, Waiter};

use super::rows::{LEASE, lease, process};
use super::writer_lock::WriterLock;
use crate::error::StoreError;
use crate::lease::{LimitItems, StoredLease, StoredName, StoredWaiter};
use crate::process::Process;
use crate::tables::{EventTable, LeaseChanges, LeaseTables, Meta, RequestTable};
use crate::transaction::{Event, Request};
use crate::words::{
    WaiterRow, items_of, items_text, joined, name_of, nanos, nanos_at, presence_word, rank,
    remains_word,
};

/// The columns of a waiter and one of its names, in the order in which [`waiter`] reads them.
const WAITER: &str = "t.holder, t.arrival, t.priority, t.rung_ns, t.since_ms, t.bell, t.boot, \
    t.pid, t.started, t.namespace, n.kind, n.name, n.weight, n.refused";

pub(super) struct SqliteTables<'a> {
    pub(super) sqlite: &'a Connection,
    /// The writers' lock, if this process holds it.
    lock: Option<&'a WriterLock>,
    /// How many marks of waiters in the lock file were seen.
    marks: Cell<u64>,
}

impl<'a> SqliteTables<'a> {
    /// Returns the tables for a reader.
    pub(super) fn new(sqlite: &'a Connection) -> Self {
        Self { sqlite, lock: None, marks: Cell::new(0) }
    }

    /// Returns the tables for the writer that holds `lock`.
    pub(super) fn for_writer(sqlite: &'a Connection, lock: &'a WriterLock) -> Self {
        Self { sqlite, lock: Some(lock), marks: Cell::new(0) }
    }

    /// Returns how many marks of waiters the transaction has seen and heeded.
    pub(super) fn marks(&self) -> u64 {
        self.marks.get()
    }

    pub(super) fn execute(&self, sql: &str, values: impl Params) -> Result<usize, StoreError> {
        Ok(self.sqlite.prepare_cached(sql)?.execute(values)?)
    }

    pub(super) fn all<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.sqlite.prepare_cached(sql)?;
        Ok(statement.query_map(values, read)?.collect::<Result<_, _>>()?)
    }

    pub(super) fn one<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.sqlite.prepare_cached(sql)?.query_row(values, read).optional()?)
    }
}

impl LeaseTables for SqliteTables<'_> {
    fn meta(&self) -> Result<Meta, StoreError> {
        let query = "SELECT boot, epoch FROM meta";
        let read = |row: &Row<'_>| Ok(Meta { era: row.get(0)?, eras: row.get(1)? });
        Ok(self.sqlite.prepare_cached(query)?.query_row([], read)?)
    }

    fn has_stalled(&self) -> Result<bool, StoreError> {
        let Some(lock) = self.lock else { return Ok(false) };
        self.marks.set(lock.marks()?);
        Ok(self.marks.get() > 0)
    }

    fn refresh_all(&self, frame: &str, at: Timestamp) -> Result<(), StoreError> {
        let update = "UPDATE lease SET heartbeat_ns = max(heartbeat_ns, ?2)
            WHERE boot = ?1 AND presence = 'presumed'";
        self.execute(update, params![frame, nanos_at(at)])?;
        Ok(())
    }

    fn name(&self, name: &Name) -> Result<Option<StoredName>, StoreError> {
        let query = "SELECT capacity, token, acquired, released, denied, reclaimed, stale, arrivals
            FROM name WHERE kind = ?1 AND name = ?2";
        self.one(query, [name.kind(), name.text()], |row| {
            let stats = CoordinationStats {
                acquired: row.get(2)?,
                released: row.get(3)?,
                denied: row.get(4)?,
                reclaimed: row.get(5)?,
                stale: row.get(6)?,
            };
            let (capacity, token, arrivals) = (row.get(0)?, Token(row.get(1)?), row.get(7)?);
            Ok(StoredName { capacity, token, arrivals, stats })
        })
    }

    fn leases(&self, name: Option<&Name>) -> Result<Vec<StoredLease>, StoreError> {
        match name {
            Some(name) => {
                let query = format!("SELECT {LEASE} FROM lease WHERE kind = ?1 AND name = ?2");
                self.all(&query, [name.kind(), name.text()], lease)
            }
            None => self.all(&format!("SELECT {LEASE} FROM lease"), [], lease),
        }
    }

    fn leases_of_workers(&self) -> Result<Vec<StoredLease>, StoreError> {
        self.all(&format!("SELECT {LEASE} FROM lease WHERE kind = 'worker'"), [], lease)
    }

    fn leases_of_process(&self, process: &Process) -> Result<Vec<StoredLease>, StoreError> {
        let Process { pid, started, boot, namespace } = process;
        let query = format!(
            "SELECT {LEASE} FROM lease
             WHERE pid = ?1 AND started = ?2 AND boot = ?3 AND namespace = ?4"
        );
        self.all(&query, params![pid, started, boot, namespace], lease)
    }

    fn is_held_as(&self, name: &Name, token: Token) -> Result<bool, StoreError> {
        let query = "SELECT 1 FROM lease WHERE kind = +?1 AND name = +?2 AND token = ?3";
        let found = self.one(query, params![name.kind(), name.text(), token.0], |_| Ok(()))?;
        Ok(found.is_some())
    }

    fn waiters(&self, name: Option<&Name>) -> Result<Vec<StoredWaiter>, StoreError> {
        let order = "ORDER BY t.holder, n.place";
        let rows = match name {
            Some(name) => {
                let query = format!(
                    "SELECT {WAITER} FROM ticket_name w JOIN ticket t USING (holder)
                     JOIN ticket_name n USING (holder) WHERE w.kind = ?1 AND w.name = ?2 {order}"
                );
                self.all(&query, [name.kind(), name.text()], waiter)?
            }
            None => {
                let query = format!(
                    "SELECT {WAITER} FROM ticket t JOIN ticket_name n USING (holder) {order}"
                );
                self.all(&query, [], waiter)?
            }
        };
        Ok(joined(rows))
    }

    fn waiter(&self, holder: &HolderId) -> Result<Option<StoredWaiter>, StoreError> {
        let query = format!(
            "SELECT {WAITER} FROM ticket t JOIN ticket_name n USING (holder)
             WHERE t.holder = ?1 ORDER BY n.place"
        );
        Ok(joined(self.all(&query, [holder.as_str()], waiter)?).pop())
    }

    fn queue_head(
        &self,
        name: &Name,
        enough: u64,
        counts: &dyn Fn(&Waiter) -> bool,
    ) -> Result<Vec<StoredWaiter>, StoreError> {
        // The index that finds the names of a waiter has them in their order.
        let query = format!(
            "SELECT {WAITER}, q.weight FROM ticket_name q INDEXED BY queue
             CROSS JOIN ticket t ON t.holder = q.holder
             CROSS JOIN ticket_name n INDEXED BY ticket_name_by_holder ON n.holder = q.holder
             WHERE q.kind = ?1 AND q.name = ?2 AND q.refused = 1 ORDER BY q.rank, q.arrival"
        );
        let mut statement = self.sqlite.prepare_cached(&query)?;
        let mut rows = statement.query([name.kind(), name.text()])?;
        let (mut head, mut sum) = (Vec::new(), 0_u64);
        let (mut last, mut is_counted) = (None, false);
        while let Some(row) = rows.next()? {
            let found = waiter(row)?;
            let of = &found.0.waiter;
            if last.as_ref() != Some(&of.holder) {
                if sum >= enough {
                    break;
                }
                (last, is_counted) = (Some(of.holder.clone()), counts(of));
                sum = sum.saturating_add(if is_counted { row.get(14)? } else { 0 });
            }
            if is_counted {
                head.push(found);
            }
        }
        let mut head = joined(head);
        head.sort_by_key(|stored| (rank(&stored.waiter), stored.waiter.arrival));
        Ok(head)
    }

    fn ahead(&self, name: &Name, waiter: &Waiter, limit: usize) -> Result<usize, StoreError> {
        let query = "SELECT count(*) FROM (SELECT 1 FROM ticket_name INDEXED BY queue
            WHERE kind = ?1 AND name = ?2 AND refused = 1 AND (rank, arrival) < (?3, ?4) LIMIT ?5)";
        let mut statement = self.sqlite.prepare_cached(query)?;
        let (rank, arrival) = (rank(waiter), waiter.arrival);
        let values = params![name.kind(), name.text(), rank, arrival, limit];
        Ok(statement.query_row(values, |row| row.get(0))?)
    }

    fn limits(&self) -> Result<Vec<(Name, StoredName)>, StoreError> {
        let query = "SELECT name FROM name WHERE kind = 'limit' AND capacity IS NOT NULL";
        let names = self.all(query, [], |row| Ok(Name::Limit(row.get(0)?)))?;
        let stored = |name: Name| Ok(self.name(&name)?.map(|stored| (name, stored)));
        names.into_iter().filter_map(|name| stored(name).transpose()).collect()
    }

    fn limit_items(&self, limit: &str) -> Result<Option<LimitItems>, StoreError> {
        let query = "SELECT items, variable FROM limit_items WHERE name = ?1";
        self.one(query, [limit], |row| {
            let names = items_of(&row.get::<_, String>(0)?);
            Ok(LimitItems { names, variable_name: row.get(1)? })
        })
    }

    fn put_limit_items(&self, limit: &str, items: Option<&LimitItems>) -> Result<(), StoreError> {
        match items {
            Some(LimitItems { names, variable_name }) => {
                let upsert = "INSERT OR REPLACE INTO limit_items (name, items, variable)
                    VALUES (?1, ?2, ?3)";
                self.execute(upsert, params![limit, items_text(names), variable_name])?
            }
            None => self.execute("DELETE FROM limit_items WHERE name = ?1", [limit])?,
        };
        Ok(())
    }

    fn save(&self, changes: &LeaseChanges) -> Result<(), StoreError> {
        changes.era.iter().try_for_each(|meta| self.begin_boot(meta))?;
        changes.names.iter().try_for_each(|(name, stored)| self.put_name(name, stored))?;
        let mut ended = changes.ended_leases.iter();
        ended.try_for_each(|(name, holder)| self.delete_lease(name, holder))?;
        changes.leases.iter().try_for_each(|lease| self.put_lease(lease))?;
        changes.left_waiters.iter().try_for_each(|holder| self.delete_waiter(holder))?;
        changes.waiters.iter().try_for_each(|waiter| self.put_waiter(waiter))
    }
}

impl EventTable for SqliteTables<'_> {
    fn append_event(&self, name: &str, at_ms: i64) -> Result<u64, StoreError> {
        self.execute("INSERT INTO event (name, at_ms) VALUES (?1, ?2)", params![name, at_ms])?;
        Ok(self.sqlite.last_insert_rowid().unsigned_abs())
    }

    fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        let query =
            "SELECT number, name, at_ms FROM event WHERE number > ?1 ORDER BY number LIMIT ?2";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let after = i64::try_from(after).unwrap_or(i64::MAX);
        self.all(query, params![after, limit], |row| {
            Ok(Event { number: row.get(0)?, name: row.get(1)?, at_ms: row.get(2)? })
        })
    }

    fn last_event(&self) -> Result<u64, StoreError> {
        let query = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0)";
        Ok(self.sqlite.prepare_cached(query)?.query_row([], |row| row.get(0))?)
    }

    fn delete_events(&self, before_ms: i64) -> Result<usize, StoreError> {
        self.execute("DELETE FROM event WHERE at_ms < ?1", [before_ms])
    }
}

impl RequestTable for SqliteTables<'_> {
    fn append_request(&self, target: &str, text: &str, at_ms: i64) -> Result<u64, StoreError> {
        let insert = "INSERT INTO request (target, text, at_ms) VALUES (?1, ?2, ?3)";
        self.execute(insert, params![target, text, at_ms])?;
        Ok(self.sqlite.last_insert_rowid().unsigned_abs())
    }

    fn requests(&self, target: &str) -> Result<Vec<Request>, StoreError> {
        let query = "SELECT number, target, text FROM request WHERE target = ?1 ORDER BY number";
        self.all(query, [target], |row| {
            Ok(Request { number: row.get(0)?, target: row.get(1)?, text: row.get(2)? })
        })
    }

    fn all_requests(&self) -> Result<Vec<Request>, StoreError> {
        let query = "SELECT number, target, text FROM request ORDER BY number";
        self.all(query, [], |row| {
            Ok(Request { number: row.get(0)?, target: row.get(1)?, text: row.get(2)? })
        })
    }

    fn take_request(&self, number: u64) -> Result<bool, StoreError> {
        Ok(self.execute("DELETE FROM request WHERE number = ?1", [number])? > 0)
    }
}

impl SqliteTables<'_> {
    fn begin_boot(&self, meta: &Meta) -> Result<(), StoreError> {
        self.execute("UPDATE meta SET boot = ?1, epoch = ?2", params![meta.era, meta.eras])?;
        self.execute("DELETE FROM ticket WHERE boot <> ?1", [&meta.era])?;
        Ok(())
    }

    fn put_name(&self, name: &Name, stored: &StoredName) -> Result<(), StoreError> {
        let upsert = "INSERT OR REPLACE INTO name
            (kind, name, capacity, token, acquired, released, denied, reclaimed, stale, arrivals)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        let StoredName { capacity, token, arrivals, stats } = stored;
        let CoordinationStats { acquired, released, denied, reclaimed, stale } = stats;
        let values = params![
            name.kind(),
            name.text(),
            capacity,
            token.0,
            acquired,
            released,
            denied,
            reclaimed,
            stale,
            arrivals
        ];
        self.execute(upsert, values)?;
        Ok(())
    }

    fn put_lease(&self, stored: &StoredLease) -> Result<(), StoreError> {
        let upsert = format!(
            "INSERT OR REPLACE INTO lease ({LEASE}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,
             ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)"
        );
        let StoredLease { name, lease, owner, items, .. } = stored;
        let process = owner.process.as_ref();
        let tree = owner.tree.as_ref();
        let group = tree.and_then(|tree| tree.group.as_ref());
        let values = params![
            name.kind(),
            name.text(),
            lease.holder.as_str(),
            lease.token.0,
            lease.weight,
            nanos_at(lease.since),
            nanos_at(lease.last_heartbeat),
            nanos(lease.terms.heartbeat_timeout),
            lease.terms.max_hold.map(nanos),
            presence_word(lease.presence),
            remains_word(lease.remains),
            owner.since_ms,
            owner.frame,
            process.map(|process| process.pid),
            process.map(|process| process.started),
            process.map(|process| &process.namespace),
            tree.map(|tree| &tree.tag),
            group.map(|group| group.leader),
            group.map(|group| group.started),
            group.map(|group| group.session),
            owner.uid,
            (!items.is_empty()).then(|| items_text(items)),
        ];
        self.execute(&upsert, values)?;
        Ok(())
    }

    fn delete_lease(&self, name: &Name, holder: &HolderId) -> Result<(), StoreError> {
        let delete = "DELETE FROM lease WHERE kind = ?1 AND name = ?2 AND holder = ?3";
        self.execute(delete, [name.kind(), name.text(), holder.as_str()])?;
        Ok(())
    }

    fn put_waiter(&self, stored: &StoredWaiter) -> Result<(), StoreError> {
        let upsert = "INSERT INTO ticket
            (holder, arrival, priority, rung_ns, since_ms, bell, boot, pid, started, namespace)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
            ON CONFLICT DO UPDATE SET arrival = ?2, priority = ?3, rung_ns = ?4, bell = ?6,
            boot = ?7, pid = ?8, started = ?9, namespace = ?10";
        let StoredWaiter { waiter, frame, process, wakeup, since_ms, .. } = stored;
        let process = process.as_ref();
        let holder = waiter.holder.as_str();
        let values = params![
            holder,
            waiter.arrival,
            waiter.priority,
            waiter.notified_at.map(nanos_at),
            since_ms,
            wakeup,
            frame,
            process.map(|process| process.pid),
            process.map(|process| process.started),
            process.map(|process| &process.namespace),
        ];
        self.execute(upsert, values)?;
        // It may have waited for other names before.
        self.execute("DELETE FROM ticket_name WHERE holder = ?1", [holder])?;
        let insert = "INSERT INTO ticket_name
            (kind, name, holder, place, weight, refused, rank, arrival)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let (rank, arrival) = (rank(waiter), waiter.arrival);
        for (place, Need { name, weight }) in waiter.needs.iter().enumerate() {
            let refused = waiter.refused.contains(name);
            let (kind, name) = (name.kind(), name.text());
            let values = params![kind, name, holder, place, weight, refused, rank, arrival];
            self.execute(insert, values)?;
        }
        Ok(())
    }

    fn delete_waiter(&self, holder: &HolderId) -> Result<(), StoreError> {
        self.execute("DELETE FROM ticket WHERE holder = ?1", [holder.as_str()])?;
        Ok(())
    }
}

fn waiter(row: &Row<'_>) -> rusqlite::Result<WaiterRow> {
    let name = name_of(&row.get::<_, String>(10)?, row.get(11)?);
    let waiter = Waiter {
        holder: HolderId::new(row.get::<_, String>(0)?),
        arrival: row.get(1)?,
        priority: row.get(2)?,
        notified_at: row.get::<_, Option<u64>>(3)?.map(Timestamp::from_nanos),
        needs: vec![Need { name, weight: row.get(12)? }],
        refused: BTreeSet::new(),
    };
    let (since_ms, wakeup, frame) = (row.get(4)?, row.get(5)?, row.get(6)?);
    let (host, process) = (None, process(row, 6)?);
    let stored = StoredWaiter { waiter, frame, host, process, wakeup, since_ms };
    Ok((stored, row.get(13)?))
}

//! Names, leases, waiters, events and requests, in the SQL of PostgreSQL.

use std::collections::BTreeSet;
use std::time::Duration;

use windlass_core::{
    CoordinationStats, HolderId, Lease, LeaseTerms, Name, Need, Timestamp, Token, Waiter,
};

use super::begin::Begun;
use super::session::{Columns, Session, Values, int, int_or_none};
use crate::clock::ServerTime;
use crate::error::StoreError;
use crate::lease::{
    LimitItems, Owner, ProcessGroup, ProcessTree, StoredLease, StoredName, StoredWaiter,
};
use crate::process::Process;
use crate::tables::{
    EventTable, LeaseChanges, LeaseQuery, LeaseSnapshot, LeaseTables, Meta, QueuePart,
    RequestTable, load_rows,
};
use crate::transaction::{Event, Request};
use crate::words::{
    WaiterRow, items_of, items_text, joined, name_of, nanos, nanos_at, presence_of, presence_word,
    rank, remains_of, remains_word,
};

/// The columns of a lease, in the order in which [`lease`] reads them.
const LEASE: &str = "kind, name, holder, token, weight, since_ns, heartbeat_ns, timeout_ns, \
    max_hold_ns, presence, remains, since_ms, frame, boot, pid, started, namespace, tag, \
    group_leader, group_started, group_session, uid, items, host, doubted";
/// The columns of a waiter and one of its names, in the order in which [`waiter`] reads them.
const WAITER: &str = "t.holder, t.arrival, t.priority, t.notified_ns, t.since_ms, t.wakeup, t.frame, \
    t.boot, t.pid, t.started, t.namespace, t.host, n.kind, n.name, n.weight, n.refused";
/// What is known of one name.
const NAME: &str = "SELECT capacity, token, acquired, released, denied, reclaimed, stale, arrivals
    FROM name WHERE kind = $1 AND name = $2";
/// What is known of the store.
pub(super) const META: &str = "SELECT era, eras FROM meta";
/// The requests to one target, and all.
pub(super) const REQUESTS: &str =
    "SELECT number, target, text FROM request WHERE target = $1 ORDER BY number";
pub(super) const ALL_REQUESTS: &str = "SELECT number, target, text FROM request ORDER BY number";
/// How many waiters are read at once, at first.
const PAGE: usize = 16;
/// The rank, the arrival and the holder before all waiters.
const BEFORE_ALL: (i64, i64, &str) = (i64::MIN, i64::MIN, "");

/// The tables as one transaction sees them.
pub(super) struct PostgresTables<'a> {
    pub(super) session: &'a Session,
    /// What the transaction has learned when it began; none for one that only reads.
    begun: Option<&'a Begun>,
}

impl<'a> PostgresTables<'a> {
    pub(super) fn writing(session: &'a Session, begun: &'a Begun) -> Self {
        Self { session, begun: Some(begun) }
    }

    pub(super) fn reading(session: &'a Session) -> Self {
        Self { session, begun: None }
    }

    /// Raises a counter of the store and returns its new value.
    pub(super) fn next(&self, counter: &str) -> Result<u64, StoreError> {
        let update = format!("UPDATE meta SET {counter} = {counter} + 1 RETURNING {counter}");
        let raised = self.session.one(&update, &[], |row| row.int(0))?;
        Ok(raised.expect("a store has one row of counters"))
    }
}

impl LeaseTables for PostgresTables<'_> {
    fn meta(&self) -> Result<Meta, StoreError> {
        if let Some(begun) = self.begun {
            return Ok(begun.meta.borrow().clone());
        }
        let meta = self
            .session
            .one(META, &[], |row| Ok(Meta { era: row.value(0)?, eras: row.int(1)? }))?;
        Ok(meta.expect("a store has one row of counters"))
    }

    fn has_stalled(&self) -> Result<bool, StoreError> {
        Ok(self.begun.is_some_and(|begun| begun.has_stalled))
    }

    fn server_time(&self) -> Option<ServerTime> {
        self.begun.map(|begun| begun.time.clone())
    }

    fn begin_era(&self, meta: &Meta, floor: u64) -> Result<(), StoreError> {
        let update = "UPDATE meta SET era = $1, eras = $2, token = greatest(token, $3),
            event = greatest(event, $3), request = greatest(request, $3)";
        self.session.execute(update, &[&meta.era, &int(meta.eras), &int(floor)])?;
        self.note_meta(meta);
        Ok(())
    }

    fn refresh_all(&self, frame: &str, at: Timestamp) -> Result<(), StoreError> {
        let update = "UPDATE lease SET heartbeat_ns = greatest(heartbeat_ns, $2)
            WHERE frame = $1 AND presence = 'presumed'";
        self.session.execute(update, &[&frame, &nanos_at(at)])
    }

    fn name(&self, name: &Name) -> Result<Option<StoredName>, StoreError> {
        self.session.one(NAME, &[&name.kind(), &name.text()], |row| {
            let stats = CoordinationStats {
                acquired: row.int(2)?,
                released: row.int(3)?,
                denied: row.int(4)?,
                reclaimed: row.int(5)?,
                stale: row.int(6)?,
            };
            let (capacity, token) = (row.int_or_none(0)?, Token(row.int(1)?));
            Ok(StoredName { capacity, token, arrivals: row.int(7)?, stats })
        })
    }

    fn leases(&self, name: Option<&Name>) -> Result<Vec<StoredLease>, StoreError> {
        match name {
            Some(name) => self.session.all(&leases_on_name(), &[&name.kind(), &name.text()], lease),
            None => self.session.all(&format!("SELECT {LEASE} FROM lease"), &[], lease),
        }
    }

    fn leases_of_workers(&self) -> Result<Vec<StoredLease>, StoreError> {
        self.session.all(&leases_of_workers(), &[], lease)
    }

    fn leases_of_process(&self, process: &Process) -> Result<Vec<StoredLease>, StoreError> {
        let Process { pid, started, boot, namespace } = process;
        let query = format!(
            "SELECT {LEASE} FROM lease
             WHERE pid = $1 AND started = $2 AND boot = $3 AND namespace = $4"
        );
        self.session.all(&query, &[&int(*pid), &int(*started), boot, namespace], lease)
    }

    fn is_held_as(&self, name: &Name, token: Token) -> Result<bool, StoreError> {
        let query = "SELECT 1 FROM lease WHERE kind = $1 AND name = $2 AND token = $3";
        let values = [name.kind(), name.text()];
        let found =
            self.session.one(query, &[&values[0], &values[1], &int(token.0)], |_| Ok(()))?;
        Ok(found.is_some())
    }

    fn waiters(&self, name: Option<&Name>) -> Result<Vec<StoredWaiter>, StoreError> {
        let rows = match name {
            Some(name) => {
                let values: Values<'_> = &[&name.kind(), &name.text()];
                self.session.all(&waiters_for_name(), values, waiter)?
            }
            None => {
                let query = format!(
                    "SELECT {WAITER} FROM waiter t JOIN waiter_name n USING (holder)
                     ORDER BY t.holder, n.place"
                );
                self.session.all(&query, &[], waiter)?
            }
        };
        Ok(joined(rows))
    }

    fn waiter(&self, holder: &HolderId) -> Result<Option<StoredWaiter>, StoreError> {
        let rows = self.session.all(&waiter_of_holder(), &[&holder.as_str()], waiter)?;
        Ok(joined(rows).pop())
    }

    fn queue_head(
        &self,
        name: &Name,
        enough: u64,
        counts: &dyn Fn(&Waiter) -> bool,
    ) -> Result<Vec<StoredWaiter>, StoreError> {
        let (mut head, mut sum, mut page) = (Vec::new(), 0_u64, PAGE);
        let (rank_before, arrival_before, holder_before) = BEFORE_ALL;
        let mut last = (rank_before, arrival_before, holder_before.to_owned());
        loop {
            let query = queue_page(page);
            let (rank_after, arrival_after, holder_after) = &last;
            let values: Values<'_> =
                &[&name.kind(), &name.text(), rank_after, arrival_after, holder_after];
            let rows = self.session.all(&query, values, |row| Ok((waiter(row)?, row.int(16)?)))?;
            let mut holders: Vec<(Vec<WaiterRow>, u64)> = Vec::new();
            for (row, weight) in rows {
                match holders.last_mut() {
                    Some((rows, _)) if rows[0].0.waiter.holder == row.0.waiter.holder => {
                        rows.push(row);
                    }
                    _ => holders.push((vec![row], weight)),
                }
            }
            let found = holders.len();
            for (rows, weight) in holders {
                if sum >= enough {
                    return Ok(head);
                }
                let of = &rows[0].0.waiter;
                last = (rank(of), int(of.arrival), of.holder.as_str().to_owned());
                if counts(of) {
                    sum = sum.saturating_add(weight);
                    head.extend(joined(rows));
                }
            }
            if found < page || sum >= enough {
                return Ok(head);
            }
            page *= 4;
        }
    }

    fn ahead(&self, name: &Name, waiter: &Waiter, limit: usize) -> Result<usize, StoreError> {
        let query = "SELECT count(*) FROM (SELECT 1 FROM waiter_name WHERE kind = $1 AND name = $2
            AND refused AND (rank, arrival) < ($3, $4) LIMIT $5) AS before";
        let (kind, text) = (name.kind(), name.text());
        let (rank, arrival) = (rank(waiter), int(waiter.arrival));
        let values: Values<'_> = &[&kind, &text, &rank, &arrival, &int(limit)];
        Ok(self.session.one(query, values, |row| row.int(0))?.unwrap_or(0))
    }

    fn load(&self, query: &LeaseQuery<'_>) -> Result<LeaseSnapshot, StoreError> {
        for holder in query.holders {
            self.session.look_ahead(&waiter_of_holder(), &[&holder.as_str()])?;
        }
        for name in query.names {
            let (kind, text) = (name.kind(), name.text());
            let of_name: Values<'_> = &[&kind, &text];
            self.session.look_ahead(NAME, of_name)?;
            self.session.look_ahead(&leases_on_name(), of_name)?;
            match query.queues {
                QueuePart::Head => {
                    let (rank, arrival, holder) = BEFORE_ALL;
                    let values: Values<'_> = &[&kind, &text, &rank, &arrival, &holder];
                    self.session.look_ahead(&queue_page(PAGE), values)?;
                }
                QueuePart::Whole => self.session.look_ahead(&waiters_for_name(), of_name)?,
            }
        }
        let snapshot = load_rows(self, query);
        self.session.forget_ahead();
        snapshot
    }

    fn limits(&self) -> Result<Vec<(Name, StoredName)>, StoreError> {
        let query =
            "SELECT name FROM name WHERE kind = 'limit' AND capacity IS NOT NULL ORDER BY name";
        let names = self.session.all(query, &[], |row| Ok(Name::Limit(row.value(0)?)))?;
        let stored = |name: Name| Ok(self.name(&name)?.map(|stored| (name, stored)));
        names.into_iter().filter_map(|name| stored(name).transpose()).collect()
    }

    fn limit_items(&self, limit: &str) -> Result<Option<LimitItems>, StoreError> {
        let query = "SELECT items, variable FROM limit_items WHERE name = $1";
        self.session.one(query, &[&limit], |row| {
            Ok(LimitItems { names: items_of(row.value(0)?), variable_name: row.value(1)? })
        })
    }

    fn put_limit_items(&self, limit: &str, items: Option<&LimitItems>) -> Result<(), StoreError> {
        match items {
            Some(LimitItems { names, variable_name }) => {
                let upsert = "INSERT INTO limit_items (name, items, variable) VALUES ($1, $2, $3)
                    ON CONFLICT (name) DO UPDATE SET items = $2, variable = $3";
                self.session.execute(upsert, &[&limit, &items_text(names), variable_name])
            }
            None => self.session.execute("DELETE FROM limit_items WHERE name = $1", &[&limit]),
        }
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

impl EventTable for PostgresTables<'_> {
    fn append_event(&self, name: &str, at_ms: i64) -> Result<u64, StoreError> {
        let number = self.next("event")?;
        let insert = "INSERT INTO event (number, name, at_ms) VALUES ($1, $2, $3)";
        self.session.execute(insert, &[&int(number), &name, &at_ms])?;
        Ok(number)
    }

    fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        let query =
            "SELECT number, name, at_ms FROM event WHERE number > $1 ORDER BY number LIMIT $2";
        self.session.all(query, &[&int(after), &int(limit)], |row| {
            Ok(Event { number: row.int(0)?, name: row.value(1)?, at_ms: row.value(2)? })
        })
    }

    fn last_event(&self) -> Result<u64, StoreError> {
        let last = self.session.one("SELECT event FROM meta", &[], |row| row.int(0))?;
        Ok(last.unwrap_or(0))
    }

    fn delete_events(&self, before_ms: i64) -> Result<usize, StoreError> {
        let deleted = self.session.change("DELETE FROM event WHERE at_ms < $1", &[&before_ms])?;
        Ok(usize::try_from(deleted).unwrap_or(usize::MAX))
    }
}

impl RequestTable for PostgresTables<'_> {
    fn append_request(&self, target: &str, text: &str, at_ms: i64) -> Result<u64, StoreError> {
        let number = self.next("request")?;
        let insert = "INSERT INTO request (number, target, text, at_ms) VALUES ($1, $2, $3, $4)";
        self.session.execute(insert, &[&int(number), &target, &text, &at_ms])?;
        Ok(number)
    }

    fn requests(&self, target: &str) -> Result<Vec<Request>, StoreError> {
        self.session.all(REQUESTS, &[&target], request)
    }

    fn all_requests(&self) -> Result<Vec<Request>, StoreError> {
        self.session.all(ALL_REQUESTS, &[], request)
    }

    fn take_request(&self, number: u64) -> Result<bool, StoreError> {
        Ok(self.session.change("DELETE FROM request WHERE number = $1", &[&int(number)])? > 0)
    }
}

impl PostgresTables<'_> {
    fn begin_boot(&self, meta: &Meta) -> Result<(), StoreError> {
        let update = "UPDATE meta SET era = $1, eras = $2";
        self.session.execute(update, &[&meta.era, &int(meta.eras)])?;
        self.session.execute("DELETE FROM waiter WHERE frame <> $1", &[&meta.era])?;
        self.note_meta(meta);
        Ok(())
    }

    fn note_meta(&self, meta: &Meta) {
        self.begun.iter().for_each(|begun| *begun.meta.borrow_mut() = meta.clone());
    }

    fn put_name(&self, name: &Name, stored: &StoredName) -> Result<(), StoreError> {
        let upsert = "INSERT INTO name
            (kind, name, capacity, token, acquired, released, denied, reclaimed, stale, arrivals)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
            ON CONFLICT (kind, name) DO UPDATE SET capacity = $3, token = $4, acquired = $5,
            released = $6, denied = $7, reclaimed = $8, stale = $9, arrivals = $10";
        let StoredName { capacity, token, arrivals, stats } = stored;
        let CoordinationStats { acquired, released, denied, reclaimed, stale } = stats;
        self.session.execute(
            upsert,
            &[
                &name.kind(),
                &name.text(),
                &int_or_none(*capacity),
                &int(token.0),
                &int(*acquired),
                &int(*released),
                &int(*denied),
                &int(*reclaimed),
                &int(*stale),
                &int(*arrivals),
            ],
        )
    }

    fn put_lease(&self, stored: &StoredLease) -> Result<(), StoreError> {
        let upsert = format!(
            "INSERT INTO lease ({LEASE}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
             $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)
             ON CONFLICT (kind, name, holder) DO UPDATE SET token = $4, weight = $5, since_ns = $6,
             heartbeat_ns = $7, timeout_ns = $8, max_hold_ns = $9, presence = $10, remains = $11,
             since_ms = $12, frame = $13, boot = $14, pid = $15, started = $16, namespace = $17,
             tag = $18, group_leader = $19, group_started = $20, group_session = $21, uid = $22,
             items = $23, host = $24, doubted = $25"
        );
        let StoredLease { name, lease, owner, items, doubted } = stored;
        let process = owner.process.as_ref();
        let tree = owner.tree.as_ref();
        let group = tree.and_then(|tree| tree.group.as_ref());
        self.session.execute(
            &upsert,
            &[
                &name.kind(),
                &name.text(),
                &lease.holder.as_str(),
                &int(lease.token.0),
                &int(lease.weight),
                &nanos_at(lease.since),
                &nanos_at(lease.last_heartbeat),
                &nanos(lease.terms.heartbeat_timeout),
                &lease.terms.max_hold.map(nanos),
                &presence_word(lease.presence),
                &remains_word(lease.remains),
                &owner.since_ms,
                &owner.frame,
                &process.map(|process| &process.boot),
                &int_or_none(process.map(|process| process.pid)),
                &int_or_none(process.map(|process| process.started)),
                &process.map(|process| &process.namespace),
                &tree.map(|tree| &tree.tag),
                &int_or_none(group.map(|group| group.leader)),
                &int_or_none(group.map(|group| group.started)),
                &int_or_none(group.map(|group| group.session)),
                &int_or_none(owner.uid),
                &(!items.is_empty()).then(|| items_text(items)),
                &owner.host,
                doubted,
            ],
        )
    }

    fn delete_lease(&self, name: &Name, holder: &HolderId) -> Result<(), StoreError> {
        let delete = "DELETE FROM lease WHERE kind = $1 AND name = $2 AND holder = $3";
        self.session.execute(delete, &[&name.kind(), &name.text(), &holder.as_str()])
    }

    fn put_waiter(&self, stored: &StoredWaiter) -> Result<(), StoreError> {
        let upsert = "INSERT INTO waiter
            (holder, arrival, priority, notified_ns, since_ms, wakeup, frame, boot, pid, started,
            namespace, host)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
            ON CONFLICT (holder) DO UPDATE SET arrival = $2, priority = $3, notified_ns = $4,
            wakeup = $6, frame = $7, boot = $8, pid = $9, started = $10, namespace = $11,
            host = $12";
        let StoredWaiter { waiter, frame, host, process, wakeup, since_ms } = stored;
        let process = process.as_ref();
        let holder = waiter.holder.as_str();
        self.session.execute(
            upsert,
            &[
                &holder,
                &int(waiter.arrival),
                &waiter.priority,
                &waiter.notified_at.map(nanos_at),
                since_ms,
                wakeup,
                frame,
                &process.map(|process| &process.boot),
                &int_or_none(process.map(|process| process.pid)),
                &int_or_none(process.map(|process| process.started)),
                &process.map(|process| &process.namespace),
                host,
            ],
        )?;
        // It may have waited for other names before.
        self.session.execute("DELETE FROM waiter_name WHERE holder = $1", &[&holder])?;
        let insert = "INSERT INTO waiter_name
            (kind, name, holder, place, weight, refused, rank, arrival)
            VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
        for (place, Need { name, weight }) in waiter.needs.iter().enumerate() {
            let refused = waiter.refused.contains(name);
            let (kind, name) = (name.kind(), name.text());
            let order = (rank(waiter), int(waiter.arrival));
            let (place, weight) = (int(place), int(*weight));
            self.session.execute(
                insert,
                &[&kind, &name, &holder, &place, &weight, &refused, &order.0, &order.1],
            )?;
        }
        Ok(())
    }

    fn delete_waiter(&self, holder: &HolderId) -> Result<(), StoreError> {
        self.session.execute("DELETE FROM waiter WHERE holder = $1", &[&holder.as_str()])
    }
}

/// Returns the query for the leases on one name.
pub(super) fn leases_on_name() -> String {
    format!("SELECT {LEASE} FROM lease WHERE kind = $1 AND name = $2")
}

/// Returns the query for the leases on the names of workers.
pub(super) fn leases_of_workers() -> String {
    format!("SELECT {LEASE} FROM lease WHERE kind = 'worker'")
}

/// Returns the query for the place of one holder in the queues.
fn waiter_of_holder() -> String {
    format!(
        "SELECT {WAITER} FROM waiter t JOIN waiter_name n USING (holder)
         WHERE t.holder = $1 ORDER BY n.place"
    )
}

/// Returns the query for the waiters for one name.
fn waiters_for_name() -> String {
    format!(
        "SELECT {WAITER} FROM waiter_name w JOIN waiter t USING (holder)
         JOIN waiter_name n USING (holder) WHERE w.kind = $1 AND w.name = $2
         ORDER BY t.holder, n.place"
    )
}

/// Returns the query for the first `page` waiters that a name has refused, after a rank, an arrival and a
/// holder. A limit that is a parameter would be planned for any value.
fn queue_page(page: usize) -> String {
    format!(
        "WITH q AS (SELECT holder, rank, arrival, weight FROM waiter_name
         WHERE kind = $1 AND name = $2 AND refused AND (rank, arrival, holder) > ($3, $4, $5)
         ORDER BY rank, arrival, holder LIMIT {page})
         SELECT {WAITER}, q.weight FROM q JOIN waiter t USING (holder)
         JOIN waiter_name n USING (holder)
         ORDER BY q.rank, q.arrival, q.holder, n.place"
    )
}

fn request(row: &Columns<'_>) -> Result<Request, StoreError> {
    Ok(Request { number: row.int(0)?, target: row.value(1)?, text: row.value(2)? })
}

fn lease(row: &Columns<'_>) -> Result<StoredLease, StoreError> {
    let terms = LeaseTerms {
        heartbeat_timeout: Duration::from_nanos(row.int(7)?),
        max_hold: row.int_or_none(8)?.map(Duration::from_nanos),
    };
    let (holder, token) = (HolderId::new(row.value::<String>(2)?), Token(row.int(3)?));
    let mut lease = Lease::new(holder, token, terms, Timestamp::from_nanos(row.int(5)?));
    lease.weight = row.int(4)?;
    lease.last_heartbeat = Timestamp::from_nanos(row.int(6)?);
    lease.presence = presence_of(row.value(9)?);
    lease.remains = remains_of(row.value(10)?);
    let owner = Owner {
        since_ms: row.value(11)?,
        frame: row.value(12)?,
        process: process(row, 13)?,
        tree: tree(row)?,
        uid: row.int_or_none(21)?,
        host: row.value(23)?,
    };
    let items = row.value::<Option<&str>>(22)?.map(items_of).unwrap_or_default();
    let (name, doubted) = (name_of(row.value(0)?, row.value(1)?), row.value(24)?);
    Ok(StoredLease { name, lease, owner, items, doubted })
}

/// Reads a process from column `boot` and the three after it.
fn process(row: &Columns<'_>, boot: usize) -> Result<Option<Process>, StoreError> {
    let Some(pid) = row.int_or_none(boot + 1)? else { return Ok(None) };
    let (started, namespace) = (row.int(boot + 2)?, row.value(boot + 3)?);
    Ok(Some(Process { pid, started, boot: row.value(boot)?, namespace }))
}

fn tree(row: &Columns<'_>) -> Result<Option<ProcessTree>, StoreError> {
    let Some(tag) = row.value(17)? else { return Ok(None) };
    let group = match row.int_or_none(18)? {
        Some(leader) => Some(ProcessGroup { leader, started: row.int(19)?, session: row.int(20)? }),
        None => None,
    };
    Ok(Some(ProcessTree { tag, group }))
}

fn waiter(row: &Columns<'_>) -> Result<WaiterRow, StoreError> {
    let name = name_of(row.value(12)?, row.value(13)?);
    let waiter = Waiter {
        holder: HolderId::new(row.value::<String>(0)?),
        arrival: row.int(1)?,
        priority: row.value(2)?,
        notified_at: row.int_or_none(3)?.map(Timestamp::from_nanos),
        needs: vec![Need { name, weight: row.int(14)? }],
        refused: BTreeSet::new(),
    };
    let (since_ms, wakeup, frame) = (row.value(4)?, row.value(5)?, row.value(6)?);
    let (process, host) = (process(row, 7)?, row.value(11)?);
    let stored = StoredWaiter { waiter, frame, host, process, wakeup, since_ms };
    Ok((stored, row.value(15)?))
}

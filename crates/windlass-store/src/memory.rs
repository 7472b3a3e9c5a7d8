//! A backend in memory, for tests and for programs that coordinate only their own threads.
//!
//! A transaction works on a copy of the tables, which takes their place at the commit.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::{HolderId, Name, Presence, Timestamp, Waiter};

use crate::backend::{Backend, Durability, Opener, ReadBody, TransactionBody};
use crate::error::StoreError;
use crate::lease::{LimitItems, StoredLease, StoredName, StoredWaiter};
use crate::pipes::Pipes;
use crate::process::Process;
use crate::tables::{EventTable, LeaseChanges, LeaseTables, Meta, RequestTable};
use crate::transaction::{Event, Request};
use crate::wakeup::{Topic, Wakeup};
use crate::writer_wait::OnWait;

mod orders;
mod queues;
mod runs;

use self::orders::Orders;
use self::queues::Queues;
use self::runs::Runs;

/// A store that lasts as long as the process. Clones share it.
#[derive(Clone, Default)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    tables: Mutex<MemoryTables>,
    wakeups: Pipes,
}

#[derive(Clone, Default)]
struct MemoryTables {
    meta: Meta,
    names: BTreeMap<Name, StoredName>,
    leases: BTreeMap<(Name, HolderId), StoredLease>,
    waiters: BTreeMap<HolderId, StoredWaiter>,
    limit_items: BTreeMap<String, LimitItems>,
    events: BTreeMap<u64, Event>,
    last_event: u64,
    requests: BTreeMap<u64, Request>,
    last_request: u64,
    runs: Runs,
    orders: Orders,
    queues: Queues,
}

impl Memory {
    /// Creates a store that gives every first run the same id, so that a simulation can be repeated. The
    /// processes of steps are found by the id of their run, so real steps need other ids.
    #[must_use]
    pub fn repeatable() -> Self {
        let memory = Self::default();
        lock(&memory.shared.tables).runs.last = Some(0);
        memory
    }
}

impl Backend for Memory {
    fn transact(
        &mut self,
        _: Durability,
        _: OnWait<'_>,
        body: TransactionBody<'_>,
    ) -> Result<(), StoreError> {
        let mut tables = lock(&self.shared.tables);
        let transaction = MemoryTransaction(Mutex::new(tables.clone()));
        let notices = body(&transaction)?;
        *tables = transaction.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        drop(tables);
        self.shared.wakeups.send(&notices);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read(&mut self, body: ReadBody<'_>) -> Result<(), StoreError> {
        let tables = lock(&self.shared.tables).clone();
        body(&MemoryTransaction(Mutex::new(tables)))
    }

    fn opener(&self) -> Opener {
        let shared = self.clone();
        Box::new(move || Ok(Box::new(shared.clone())))
    }

    fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError> {
        self.shared.wakeups.register(topic)
    }
}

/// The copy of the tables that one transaction works on.
struct MemoryTransaction(Mutex<MemoryTables>);

impl MemoryTransaction {
    fn tables(&self) -> MutexGuard<'_, MemoryTables> {
        lock(&self.0)
    }
}

impl MemoryTransaction {
    /// Returns the waiters that `name` has refused, in order.
    fn queue(&self, name: &Name) -> Vec<StoredWaiter> {
        let tables = self.tables();
        let refused = tables.waiters.values().filter(|stored| stored.waiter.refused.contains(name));
        let mut waiters: Vec<_> = refused.cloned().collect();
        waiters.sort_by_key(|stored| rank(&stored.waiter));
        waiters
    }
}

impl LeaseTables for MemoryTransaction {
    fn meta(&self) -> Result<Meta, StoreError> {
        Ok(self.tables().meta.clone())
    }

    fn begin_era(&self, meta: &Meta, floor: u64) -> Result<(), StoreError> {
        let mut tables = self.tables();
        tables.meta = meta.clone();
        tables.last_event = tables.last_event.max(floor);
        tables.last_request = tables.last_request.max(floor);
        tables.orders.raise(floor);
        Ok(())
    }

    fn name(&self, name: &Name) -> Result<Option<StoredName>, StoreError> {
        Ok(self.tables().names.get(name).copied())
    }

    fn leases(&self, name: Option<&Name>) -> Result<Vec<StoredLease>, StoreError> {
        let tables = self.tables();
        let leases = tables.leases.values();
        Ok(leases.filter(|lease| name.is_none_or(|name| lease.name == *name)).cloned().collect())
    }

    fn leases_of_workers(&self) -> Result<Vec<StoredLease>, StoreError> {
        let tables = self.tables();
        let of_worker = |stored: &&StoredLease| matches!(stored.name, Name::Worker(_));
        Ok(tables.leases.values().filter(of_worker).cloned().collect())
    }

    fn leases_of_process(&self, process: &Process) -> Result<Vec<StoredLease>, StoreError> {
        let tables = self.tables();
        let of_process = |stored: &&StoredLease| stored.owner.process.as_ref() == Some(process);
        Ok(tables.leases.values().filter(of_process).cloned().collect())
    }

    fn refresh_all(&self, frame: &str, at: Timestamp) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let leases = tables.leases.values_mut().filter(|stored| stored.owner.frame == frame);
        let presumed = leases.filter(|stored| stored.lease.presence == Presence::Presumed);
        presumed.for_each(|stored| stored.lease.refresh(at));
        Ok(())
    }

    fn waiters(&self, name: Option<&Name>) -> Result<Vec<StoredWaiter>, StoreError> {
        let wants = |stored: &&StoredWaiter| {
            name.is_none_or(|name| stored.waiter.needs.iter().any(|need| need.name == *name))
        };
        Ok(self.tables().waiters.values().filter(wants).cloned().collect())
    }

    fn waiter(&self, holder: &HolderId) -> Result<Option<StoredWaiter>, StoreError> {
        Ok(self.tables().waiters.get(holder).cloned())
    }

    fn queue_head(
        &self,
        name: &Name,
        enough: u64,
        counts: &dyn Fn(&Waiter) -> bool,
    ) -> Result<Vec<StoredWaiter>, StoreError> {
        let (mut head, mut sum) = (Vec::new(), 0_u64);
        for stored in self.queue(name) {
            if sum >= enough {
                break;
            }
            if counts(&stored.waiter) {
                let need = stored.waiter.needs.iter().find(|need| need.name == *name);
                sum = sum.saturating_add(need.map_or(0, |need| need.weight));
                head.push(stored);
            }
        }
        Ok(head)
    }

    fn ahead(&self, name: &Name, waiter: &Waiter, limit: usize) -> Result<usize, StoreError> {
        let earlier = self.queue(name).into_iter().filter(|s| rank(&s.waiter) < rank(waiter));
        Ok(earlier.take(limit).count())
    }

    fn limits(&self) -> Result<Vec<(Name, StoredName)>, StoreError> {
        let tables = self.tables();
        let limits = tables
            .names
            .iter()
            .filter(|(name, stored)| matches!(name, Name::Limit(_)) && stored.capacity.is_some());
        Ok(limits.map(|(name, stored)| (name.clone(), *stored)).collect())
    }

    fn limit_items(&self, limit: &str) -> Result<Option<LimitItems>, StoreError> {
        Ok(self.tables().limit_items.get(limit).cloned())
    }

    fn put_limit_items(&self, limit: &str, items: Option<&LimitItems>) -> Result<(), StoreError> {
        let known = &mut self.tables().limit_items;
        match items {
            Some(items) => drop(known.insert(limit.to_owned(), items.clone())),
            None => drop(known.remove(limit)),
        }
        Ok(())
    }

    fn save(&self, changes: &LeaseChanges) -> Result<(), StoreError> {
        let mut tables = self.tables();
        if let Some(meta) = &changes.era {
            tables.meta = meta.clone();
            tables.waiters.retain(|_, stored| stored.frame == meta.era);
        }
        tables.names.extend(changes.names.iter().cloned());
        for ended in &changes.ended_leases {
            tables.leases.remove(ended);
        }
        for stored in &changes.leases {
            let key = (stored.name.clone(), stored.lease.holder.clone());
            tables.leases.insert(key, stored.clone());
        }
        for holder in &changes.left_waiters {
            tables.waiters.remove(holder);
        }
        for stored in &changes.waiters {
            tables.waiters.insert(stored.waiter.holder.clone(), stored.clone());
        }
        Ok(())
    }
}

impl EventTable for MemoryTransaction {
    fn append_event(&self, name: &str, at_ms: i64) -> Result<u64, StoreError> {
        let mut tables = self.tables();
        tables.last_event += 1;
        let number = tables.last_event;
        tables.events.insert(number, Event { number, name: name.to_owned(), at_ms });
        Ok(number)
    }

    fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        let later = (Bound::Excluded(after), Bound::Unbounded);
        Ok(self.tables().events.range(later).take(limit).map(|(_, event)| event.clone()).collect())
    }

    fn last_event(&self) -> Result<u64, StoreError> {
        Ok(self.tables().last_event)
    }

    fn delete_events(&self, before_ms: i64) -> Result<usize, StoreError> {
        let events = &mut self.tables().events;
        let before = events.len();
        events.retain(|_, event| event.at_ms >= before_ms);
        Ok(before - events.len())
    }
}

impl RequestTable for MemoryTransaction {
    fn append_request(&self, target: &str, text: &str, _: i64) -> Result<u64, StoreError> {
        let mut tables = self.tables();
        tables.last_request += 1;
        let number = tables.last_request;
        let (target, text) = (target.to_owned(), text.to_owned());
        tables.requests.insert(number, Request { number, target, text });
        Ok(number)
    }

    fn requests(&self, target: &str) -> Result<Vec<Request>, StoreError> {
        let tables = self.tables();
        Ok(tables.requests.values().filter(|request| request.target == target).cloned().collect())
    }

    fn all_requests(&self) -> Result<Vec<Request>, StoreError> {
        Ok(self.tables().requests.values().cloned().collect())
    }

    fn take_request(&self, number: u64) -> Result<bool, StoreError> {
        Ok(self.tables().requests.remove(&number).is_some())
    }
}

/// Returns the place of a waiter in its queues: the smallest comes first.
fn rank(waiter: &Waiter) -> (Reverse<i64>, u64) {
    (Reverse(waiter.priority), waiter.arrival)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A transaction that panicked has changed nothing that is shared.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! A backend that forgets: for tests, and for programs that coordinate only their own threads.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{ErrorKind, PipeWriter, Write, pipe};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::ioctl_fionbio;
use windlass_core::{HolderId, Name, Ticket};

use crate::backend::{Act, Backend, Durability, Opener};
use crate::error::StoreError;
use crate::tables::{Event, Meta, Request, StoredLease, StoredName, StoredWaiter, Tables};
use crate::wakeup::{Topic, Wakeup, unique};

mod runs;

use self::runs::Runs;

/// What is remembered for as long as the process lives. Clones share it.
#[derive(Clone, Default)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    tables: Mutex<MemoryTables>,
    wakeups: Mutex<BTreeMap<(Topic, String), PipeWriter>>,
}

#[derive(Clone, Default)]
struct MemoryTables {
    meta: Option<Meta>,
    names: BTreeMap<Name, StoredName>,
    leases: BTreeMap<(Name, HolderId), StoredLease>,
    waiters: BTreeMap<HolderId, StoredWaiter>,
    events: BTreeMap<u64, Event>,
    emitted: u64,
    requests: BTreeMap<u64, Request>,
    requested: u64,
    runs: Runs,
}

impl Backend for Memory {
    fn transact(&mut self, _: Durability, act: Act<'_>) -> Result<(), StoreError> {
        let mut tables = lock(&self.shared.tables);
        let draft = MemoryTransaction(Mutex::new(tables.clone()));
        act(&draft)?;
        *tables = draft.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn read(&mut self, act: Act<'_>) -> Result<(), StoreError> {
        let tables = lock(&self.shared.tables).clone();
        act(&MemoryTransaction(Mutex::new(tables)))
    }

    fn opener(&self) -> Opener {
        let shared = self.clone();
        Box::new(move || Ok(Box::new(shared.clone())))
    }

    fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError> {
        let name = unique()?;
        let pipe = pipe().map_err(|source| StoreError::Io { path: "a pipe".into(), source });
        let (reader, writer) = pipe?;
        let set = ioctl_fionbio(&reader, true).and_then(|()| ioctl_fionbio(&writer, true));
        set.map_err(|error| StoreError::Io { path: "a pipe".into(), source: error.into() })?;
        lock(&self.shared.wakeups).insert((topic.clone(), name.clone()), writer);
        Ok(Wakeup::new(name, reader.into()))
    }

    fn notify(&self, topic: &Topic, wakeup: &str) {
        let mut wakeups = lock(&self.shared.wakeups);
        let key = (topic.clone(), wakeup.to_owned());
        if wakeups.get_mut(&key).is_some_and(|writer| !notify(writer)) {
            wakeups.remove(&key);
        }
    }

    fn notify_all(&self, topic: &Topic) {
        let mut wakeups = lock(&self.shared.wakeups);
        wakeups.retain(|(of, _), writer| of != topic || notify(writer));
    }

    fn interrupt_when(&mut self, _: Box<dyn Fn() -> bool + Send>) {
        // Nobody is ever waited for.
    }
}

/// The tables as one transaction sees them.
struct MemoryTransaction(Mutex<MemoryTables>);

impl MemoryTransaction {
    fn tables(&self) -> MutexGuard<'_, MemoryTables> {
        lock(&self.0)
    }
}

impl Tables for MemoryTransaction {
    fn meta(&self) -> Result<Meta, StoreError> {
        let none = Meta { boot: String::new(), epoch: 0, arrivals: 0 };
        Ok(self.tables().meta.clone().unwrap_or(none))
    }

    fn put_meta(&self, meta: &Meta) -> Result<(), StoreError> {
        self.tables().meta = Some(meta.clone());
        Ok(())
    }

    fn name(&self, name: &Name) -> Result<Option<StoredName>, StoreError> {
        Ok(self.tables().names.get(name).copied())
    }

    fn put_name(&self, name: &Name, stored: &StoredName) -> Result<(), StoreError> {
        self.tables().names.insert(name.clone(), *stored);
        Ok(())
    }

    fn leases(&self, name: Option<&Name>) -> Result<Vec<StoredLease>, StoreError> {
        let tables = self.tables();
        let leases = tables.leases.values();
        Ok(leases.filter(|lease| name.is_none_or(|name| lease.name == *name)).cloned().collect())
    }

    fn put_lease(&self, lease: &StoredLease) -> Result<(), StoreError> {
        let key = (lease.name.clone(), lease.lease.holder.clone());
        self.tables().leases.insert(key, lease.clone());
        Ok(())
    }

    fn delete_lease(&self, name: &Name, holder: &HolderId) -> Result<(), StoreError> {
        self.tables().leases.remove(&(name.clone(), holder.clone()));
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

    fn ahead(&self, name: &Name, priority: i64, arrival: u64) -> Result<usize, StoreError> {
        let place = (Reverse(priority), arrival);
        let earlier = |stored: &&StoredWaiter| {
            let Ticket { priority, arrival, .. } = stored.waiter;
            (Reverse(priority), arrival) < place
        };
        Ok(self.waiters(Some(name))?.iter().filter(earlier).count())
    }

    fn waits_for(&self, holder: &HolderId) -> Result<Vec<Name>, StoreError> {
        let tables = self.tables();
        let needs = tables.waiters.get(holder).map(|stored| stored.waiter.needs.iter());
        Ok(needs.into_iter().flatten().map(|need| need.name.clone()).collect())
    }

    fn put_waiter(&self, waiter: &StoredWaiter) -> Result<(), StoreError> {
        self.tables().waiters.insert(waiter.waiter.holder.clone(), waiter.clone());
        Ok(())
    }

    fn delete_waiter(&self, holder: &HolderId) -> Result<(), StoreError> {
        self.tables().waiters.remove(holder);
        Ok(())
    }

    fn append_event(&self, name: &str, at_ms: i64) -> Result<u64, StoreError> {
        let mut tables = self.tables();
        tables.emitted += 1;
        let number = tables.emitted;
        tables.events.insert(number, Event { number, name: name.to_owned(), at_ms });
        Ok(number)
    }

    fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        let later = (Bound::Excluded(after), Bound::Unbounded);
        Ok(self.tables().events.range(later).take(limit).map(|(_, event)| event.clone()).collect())
    }

    fn last_event(&self) -> Result<u64, StoreError> {
        Ok(self.tables().emitted)
    }

    fn delete_events(&self, before_ms: i64) -> Result<usize, StoreError> {
        let events = &mut self.tables().events;
        let before = events.len();
        events.retain(|_, event| event.at_ms >= before_ms);
        Ok(before - events.len())
    }

    fn put_request(&self, target: &str, text: &str, _: i64) -> Result<u64, StoreError> {
        let mut tables = self.tables();
        tables.requested += 1;
        let number = tables.requested;
        let (target, text) = (target.to_owned(), text.to_owned());
        tables.requests.insert(number, Request { number, target, text });
        Ok(number)
    }

    fn requests(&self, target: &str) -> Result<Vec<Request>, StoreError> {
        let tables = self.tables();
        Ok(tables.requests.values().filter(|request| request.target == target).cloned().collect())
    }

    fn take_request(&self, number: u64) -> Result<bool, StoreError> {
        Ok(self.tables().requests.remove(&number).is_some())
    }
}

/// Rings a wakeup. False if nobody listens any more; a full one has been rung often enough.
fn notify(wakeup: &mut PipeWriter) -> bool {
    !matches!(wakeup.write(&[1]), Err(error) if error.kind() != ErrorKind::WouldBlock)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A transaction that panicked has changed nothing that is shared.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! A backend that forgets: for tests, and for programs that coordinate only their own threads.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{ErrorKind, PipeWriter, Write, pipe};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::ioctl_fionbio;
use windlass_core::{HolderId, Name, Ticket};

use crate::backend::{Act, Backend, Durability, Opener};
use crate::bell::{Bell, Topic, unique};
use crate::error::StoreError;
use crate::records::{Event, Meta, Records, Request, StoredLease, StoredName, StoredTicket};

mod runs;

use self::runs::Runs;

/// What is remembered for as long as the process lives. Clones share it.
#[derive(Clone, Default)]
pub struct Memory {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    tables: Mutex<Tables>,
    bells: Mutex<BTreeMap<(Topic, String), PipeWriter>>,
}

#[derive(Clone, Default)]
struct Tables {
    meta: Option<Meta>,
    names: BTreeMap<Name, StoredName>,
    leases: BTreeMap<(Name, HolderId), StoredLease>,
    tickets: BTreeMap<HolderId, StoredTicket>,
    events: BTreeMap<u64, Event>,
    emitted: u64,
    requests: BTreeMap<u64, Request>,
    requested: u64,
    runs: Runs,
}

impl Backend for Memory {
    fn transact(&mut self, _: Durability, act: Act<'_>) -> Result<(), StoreError> {
        let mut tables = lock(&self.shared.tables);
        let draft = Draft(Mutex::new(tables.clone()));
        act(&draft)?;
        *tables = draft.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn look(&mut self, act: Act<'_>) -> Result<(), StoreError> {
        let tables = lock(&self.shared.tables).clone();
        act(&Draft(Mutex::new(tables)))
    }

    fn opener(&self) -> Opener {
        let shared = self.clone();
        Box::new(move || Ok(Box::new(shared.clone())))
    }

    fn hang(&self, topic: &Topic) -> Result<Bell, StoreError> {
        let name = unique()?;
        let pipe = pipe().map_err(|source| StoreError::Io { path: "a pipe".into(), source });
        let (reader, writer) = pipe?;
        let set = ioctl_fionbio(&reader, true).and_then(|()| ioctl_fionbio(&writer, true));
        set.map_err(|error| StoreError::Io { path: "a pipe".into(), source: error.into() })?;
        lock(&self.shared.bells).insert((topic.clone(), name.clone()), writer);
        Ok(Bell::new(name, reader.into()))
    }

    fn ring(&self, topic: &Topic, bell: &str) {
        let mut bells = lock(&self.shared.bells);
        let key = (topic.clone(), bell.to_owned());
        if bells.get_mut(&key).is_some_and(|writer| !rang(writer)) {
            bells.remove(&key);
        }
    }

    fn ring_all(&self, topic: &Topic) {
        let mut bells = lock(&self.shared.bells);
        bells.retain(|(of, _), writer| of != topic || rang(writer));
    }

    fn interrupt_when(&mut self, _: Box<dyn Fn() -> bool + Send>) {
        // Nobody is ever waited for.
    }
}

/// The tables as one transaction sees them.
struct Draft(Mutex<Tables>);

impl Draft {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.0)
    }
}

impl Records for Draft {
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

    fn tickets(&self, name: Option<&Name>) -> Result<Vec<StoredTicket>, StoreError> {
        let wants = |stored: &&StoredTicket| {
            name.is_none_or(|name| stored.ticket.needs.iter().any(|need| need.name == *name))
        };
        Ok(self.tables().tickets.values().filter(wants).cloned().collect())
    }

    fn ticket(&self, holder: &HolderId) -> Result<Option<StoredTicket>, StoreError> {
        Ok(self.tables().tickets.get(holder).cloned())
    }

    fn ahead(&self, name: &Name, priority: i64, arrival: u64) -> Result<usize, StoreError> {
        let place = (Reverse(priority), arrival);
        let earlier = |stored: &&StoredTicket| {
            let Ticket { priority, arrival, .. } = stored.ticket;
            (Reverse(priority), arrival) < place
        };
        Ok(self.tickets(Some(name))?.iter().filter(earlier).count())
    }

    fn waits_for(&self, holder: &HolderId) -> Result<Vec<Name>, StoreError> {
        let tables = self.tables();
        let needs = tables.tickets.get(holder).map(|stored| stored.ticket.needs.iter());
        Ok(needs.into_iter().flatten().map(|need| need.name.clone()).collect())
    }

    fn put_ticket(&self, ticket: &StoredTicket) -> Result<(), StoreError> {
        self.tables().tickets.insert(ticket.ticket.holder.clone(), ticket.clone());
        Ok(())
    }

    fn delete_ticket(&self, holder: &HolderId) -> Result<(), StoreError> {
        self.tables().tickets.remove(holder);
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

/// Rings a bell. False if nobody listens any more; a full one has been rung often enough.
fn rang(bell: &mut PipeWriter) -> bool {
    !matches!(bell.write(&[1]), Err(error) if error.kind() != ErrorKind::WouldBlock)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A transaction that panicked has changed nothing that is shared.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

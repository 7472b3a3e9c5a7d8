//! How many rows each operation on names reads and writes.

use std::cell::Cell;
use std::collections::BTreeMap;

use windlass_core::Timestamp;

use super::*;
use crate::backend::{Backend, Durability};
use crate::clock::ManualClock;
use crate::error::StoreError;
use crate::lease::LimitItems;
use crate::memory::Memory;
use crate::sqlite::{Network, Sqlite};
use crate::tables::Meta;

/// Tables that count the rows which pass through them.
struct Counted<'a> {
    tables: &'a dyn LeaseTables,
    rows: Cell<usize>,
}

impl Counted<'_> {
    fn all<T>(&self, rows: Vec<T>) -> Vec<T> {
        self.rows.update(|sum| sum + rows.len());
        rows
    }

    fn one<T>(&self, row: T) -> T {
        self.rows.update(|sum| sum + 1);
        row
    }
}

impl LeaseTables for Counted<'_> {
    fn meta(&self) -> Result<Meta, StoreError> {
        self.tables.meta().map(|meta| self.one(meta))
    }

    fn refresh_all(&self, boot: &str, at: Timestamp) -> Result<(), StoreError> {
        self.tables.refresh_all(boot, at)
    }

    fn name(&self, name: &Name) -> Result<Option<StoredName>, StoreError> {
        self.tables.name(name).map(|stored| self.one(stored))
    }

    fn leases(&self, name: Option<&Name>) -> Result<Vec<StoredLease>, StoreError> {
        self.tables.leases(name).map(|leases| self.all(leases))
    }

    fn leases_of_workers(&self) -> Result<Vec<StoredLease>, StoreError> {
        self.tables.leases_of_workers().map(|leases| self.all(leases))
    }

    fn leases_of_process(&self, process: &Process) -> Result<Vec<StoredLease>, StoreError> {
        self.tables.leases_of_process(process).map(|leases| self.all(leases))
    }

    fn waiters(&self, name: Option<&Name>) -> Result<Vec<StoredWaiter>, StoreError> {
        self.tables.waiters(name).map(|waiters| self.all(waiters))
    }

    fn queue_head(
        &self,
        name: &Name,
        enough: u64,
        counts: &dyn Fn(&Waiter) -> bool,
    ) -> Result<Vec<StoredWaiter>, StoreError> {
        self.tables.queue_head(name, enough, &|waiter| self.one(counts(waiter)))
    }

    fn waiter(&self, holder: &HolderId) -> Result<Option<StoredWaiter>, StoreError> {
        self.tables.waiter(holder).map(|waiter| self.one(waiter))
    }

    fn ahead(&self, name: &Name, waiter: &Waiter, limit: usize) -> Result<usize, StoreError> {
        let ahead = self.tables.ahead(name, waiter, limit)?;
        self.rows.update(|sum| sum + ahead);
        Ok(ahead)
    }

    fn limits(&self) -> Result<Vec<(Name, StoredName)>, StoreError> {
        self.tables.limits().map(|limits| self.all(limits))
    }

    fn limit_items(&self, limit: &str) -> Result<Option<LimitItems>, StoreError> {
        self.tables.limit_items(limit).map(|items| self.one(items))
    }

    fn put_limit_items(&self, limit: &str, items: Option<&LimitItems>) -> Result<(), StoreError> {
        self.tables.put_limit_items(limit, items).map(|()| self.one(()))
    }

    fn save(&self, changes: &LeaseChanges) -> Result<(), StoreError> {
        let LeaseChanges { era, names, ended_leases, leases, left_waiters, waiters } = changes;
        let rows = usize::from(era.is_some()) + names.len() + ended_leases.len() + leases.len();
        self.rows.update(|sum| sum + rows + left_waiters.len() + waiters.len());
        self.tables.save(changes)
    }
}

/// Returns the rows that each operation touches on a name with this capacity and so many waiters.
fn rows(
    backend: &mut dyn Backend,
    name: &Name,
    capacity: u32,
    waiters: u32,
) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    let mut body = |tables: &dyn crate::tables::Tables| {
        let (clock, notices) = (ManualClock::default(), Notices::default());
        let now = clock.now();
        let counted = Counted { tables, rows: Cell::new(0) };
        let leases = Leases::new(&counted, &clock, &now, &notices);
        let needs = [Need::one(name.clone())];
        let holder = |number: u32| HolderId::new(format!("{number:06}"));
        let mut tokens = BTreeMap::new();
        if let Name::Semaphore(name) = name {
            leases.declare(name, capacity)?;
        }
        let mut join = |number: u32| {
            let holder = holder(number);
            if let Claimed::Held(holds) = leases.claim(&Claim::new(&holder, &needs))? {
                tokens.insert(number, holds[0].token);
            }
            Ok::<_, StoreError>(())
        };
        (0..capacity + waiters).try_for_each(&mut join)?;
        let mut count = |what, act: &mut dyn FnMut() -> Result<(), StoreError>| {
            counted.rows.set(0);
            act()?;
            counts.insert(what, counted.rows.get());
            Ok::<_, StoreError>(())
        };
        count("join", &mut || join(capacity + waiters))?;
        let first = HolderId::new("000000");
        count("heartbeat", &mut || leases.heartbeat(name, &first, tokens[&0]).map(drop))?;
        count("release", &mut || leases.release(name, &first, tokens[&0]).map(drop))?;
        let next = holder(capacity);
        count("refusal", &mut || leases.refusal(&Claim::new(&next, &needs)).map(drop))?;
        count("claim", &mut || {
            let claimed = leases.claim(&Claim::new(&next, &needs))?;
            assert!(matches!(claimed, Claimed::Held(_)), "{claimed:?}");
            Ok(())
        })?;
        count("leave", &mut || leases.leave_queue(&holder(capacity + 1)))?;
        count("declare", &mut || match name {
            Name::Semaphore(name) => leases.declare(name, capacity),
            _ => Ok(()),
        })?;
        Ok(Vec::new())
    };
    let mut on_wait = |_: &dyn crate::WriterWait| unreachable!("nobody else writes");
    backend.transact(Durability::Process, &mut on_wait, &mut body).expect("the store works");
    counts
}

#[test]
fn no_operation_on_a_name_depends_on_the_length_of_its_queue() {
    let dir = tempfile::tempdir().expect("a directory");
    let sqlite =
        |name: &str| Sqlite::open(&dir.path().join(name), Network::Refuse).expect("it opens");
    let semaphore = || Name::Semaphore("s".to_owned());
    for (name, capacity) in [(Name::Lock("x".to_owned()), 1), (semaphore(), 1), (semaphore(), 8)] {
        let at = |kind: &str, waiters: u32| format!("{kind}-{}-{capacity}-{waiters}", name.kind());
        let few = rows(&mut sqlite(&at("sqlite", 200)), &name, capacity, 200);
        let many = rows(&mut sqlite(&at("sqlite", 1000)), &name, capacity, 1000);
        assert_eq!(few, many, "{name} of {capacity}");
        assert_eq!(rows(&mut Memory::default(), &name, capacity, 200), few, "in memory");
        for (what, rows) in few {
            // Joining counts up to 128 waiters ahead.
            let most = 8 + 3 * capacity as usize + if what == "join" { COUNTED_AHEAD } else { 0 };
            assert!(rows <= most, "{what} on {name} of {capacity}: {rows} rows");
        }
    }
}

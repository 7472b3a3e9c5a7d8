//! Random histories of claims, releases and departures: every waiter that can have its names was called.
//!
//! A store loads only the heads of the queues that an operation is about. If that were too little, a waiter
//! whose turn has come would not be told, and would wait until it looks by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use windlass_store::{
    Backend, Claim, Claimed, HolderId, ManualClock, Memory, Name, Need, Network, Sqlite, Store,
    StoreError, StoredWaiter, Token, Waiter,
};

const CAPACITY: u32 = 3;

/// A generator of numbers that follow from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

struct History {
    store: Store,
    random: Random,
    held: BTreeMap<(HolderId, Name), Token>,
}

impl History {
    fn new(backend: Box<dyn Backend>, seed: u64) -> Self {
        let clock = Arc::new(ManualClock::default());
        let mut store = Store::new(backend, clock, &std::env::temp_dir());
        let declare = |store: &mut Store, name| {
            store.transact(|t| t.leases().declare(name, CAPACITY)).expect("it is new");
        };
        declare(&mut store, "3");
        declare(&mut store, "4");
        Self { store, random: Random(seed), held: BTreeMap::new() }
    }

    /// Names 0 to 2 are locks, 3 and 4 semaphores.
    fn needs(&mut self) -> Vec<Need> {
        let mut needs = BTreeMap::new();
        for _ in 0..=self.random.below(3) {
            let number = self.random.below(5);
            let weight = 1 + self.random.below(u64::from(CAPACITY));
            needs.insert(number, weight);
        }
        let need = |(number, weight): (u64, u64)| match number {
            0..3 => Need::one(Name::Lock(number.to_string())),
            _ => Need { name: Name::Semaphore(number.to_string()), weight },
        };
        needs.into_iter().map(need).collect()
    }

    fn step(&mut self) {
        let holder = HolderId::new(self.random.below(8).to_string());
        match self.random.below(8) {
            0..5 if !self.held.keys().any(|(of, _)| *of == holder) => {
                let (needs, priority) = (self.needs(), self.random.below(2) as i64);
                self.claim(&holder, &needs, priority);
            }
            0..7 => {
                let one = self.held.keys().find(|(of, _)| *of == holder).cloned();
                if let Some(one) = one {
                    self.release(&one);
                }
            }
            _ => {
                self.store.transact(|t| t.leases().leave_queue(&holder)).expect("the store works");
            }
        }
    }

    fn claim(&mut self, holder: &HolderId, needs: &[Need], priority: i64) {
        let claim = Claim { priority, ..Claim::new(holder, needs) };
        let claimed = self.store.transact(|t| t.leases().claim(&claim));
        if let Claimed::Held(holds) = claimed.expect("the claim is valid") {
            let holds = holds.into_iter().map(|hold| ((holder.clone(), hold.name), hold.token));
            self.held.extend(holds);
        }
    }

    fn release(&mut self, held: &(HolderId, Name)) {
        let token = self.held.remove(held).expect("it is held");
        let released = self.store.transact(|t| t.leases().release(&held.1, &held.0, token));
        assert!(released.expect("the store works").is_yes());
    }

    fn waiters(&mut self) -> Vec<StoredWaiter> {
        let mut waiters = BTreeMap::new();
        for view in self.store.overview().expect("the store works") {
            let capacity = view.stored.capacity.unwrap_or(1);
            let held: u64 = view.leases.iter().map(|stored| stored.lease.weight).sum();
            assert!(held <= capacity, "{}: {held} of {capacity}", view.name);
            let all = view.waiters.into_iter();
            waiters.extend(all.map(|stored| (stored.waiter.holder.clone(), stored)));
        }
        waiters.into_values().collect()
    }

    /// Fails if a waiter could have its names and was not told, although no waiter that was told before
    /// needs one of them, too.
    fn check(&mut self) {
        let all = self.waiters().into_iter().map(|stored| stored.waiter);
        let (called, waiting): (Vec<_>, Vec<_>) = all.partition(|one| one.notified_at.is_some());
        let called = called.into_iter().flat_map(|waiter| waiter.needs);
        let called: BTreeSet<Name> = called.map(|need| need.name).collect();
        let is_free =
            |waiter: &&Waiter| waiter.needs.iter().all(|need| !called.contains(&need.name));
        for waiter in waiting.iter().filter(is_free) {
            let Waiter { holder, needs, priority, .. } = waiter;
            let claim = Claim { priority: *priority, ..Claim::new(holder, needs) };
            let mut refused = None;
            let undone = self.store.transact(|transaction| {
                refused = transaction.leases().refusal(&claim)?;
                Err::<(), _>(StoreError::Interrupted)
            });
            assert!(matches!(undone, Err(StoreError::Interrupted)), "{undone:?}");
            assert!(refused.is_some(), "it can go on and was not called: {waiter:?}");
        }
    }

    /// Has every holder release what it has and every called waiter claim, until no holder waits.
    fn drain(&mut self) {
        for _ in 0..100 {
            let waiters = self.waiters();
            if waiters.is_empty() && self.held.is_empty() {
                return;
            }
            for StoredWaiter { waiter, .. } in waiters {
                if waiter.notified_at.is_some() {
                    self.claim(&waiter.holder, &waiter.needs, waiter.priority);
                }
            }
            if let Some(one) = self.held.keys().next().cloned() {
                self.release(&one);
            }
            self.check();
        }
        panic!("they wait for ever: {:?}", self.waiters());
    }
}

fn check(backend: impl Fn(u64) -> Box<dyn Backend>, histories: u64) {
    for seed in 1..=histories {
        println!("seed {seed}");
        let mut history = History::new(backend(seed), seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _ in 0..40 {
            history.step();
            history.check();
        }
        history.drain();
    }
}

#[test]
fn each_waiter_that_can_go_on_was_called_in_memory() {
    check(|_| Box::new(Memory::default()), 100);
}

#[test]
fn each_waiter_that_can_go_on_was_called_in_sqlite() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = |seed: u64| Sqlite::open(&dir.path().join(seed.to_string()), Network::Refuse);
    check(|seed| Box::new(open(seed).expect("it can be made")), 10);
}

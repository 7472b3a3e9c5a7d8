//! An end that a worker reports at the moment at which it is found dead.

use std::sync::Arc;

use windlass_core::{HolderId, Need};
use windlass_store::{
    Claim, Claimed, Frame, LeaseTerms, ManualClock, Memory, NewOrder, Store, StoredWorker,
    WorkerState,
};

use super::*;

const LEASE: Duration = Duration::from_millis(20);
const END: &str = "as it ended";

/// A worker of another machine that is silent, and the order that it executes.
struct Silent {
    store: Store,
    life: Life,
    token: u64,
    dead: DeadLife,
}

impl Silent {
    fn new() -> Self {
        let clock = ManualClock::of(Frame::of_database("7", "1"));
        let (memory, dir) = (Box::new(Memory::default()), std::env::temp_dir());
        let mut store = Store::new(memory, Arc::new(clock.clone()), &dir);
        let mut process = Process::current().expect("this is Linux");
        (process.boot, process.started) = ("that of another machine".to_owned(), 1);
        let (name, holder) = ("one".to_owned(), HolderId::new("worker one"));
        let needs = [Need::one(Name::Worker(name.clone()))];
        let terms = LeaseTerms { heartbeat_timeout: LEASE, ..LeaseTerms::default() };
        let claim = Claim { process: Some(&process), terms, ..Claim::new(&holder, &needs) };
        let (life, token) = store
            .transact(|transaction| {
                let Claimed::Held(holds) = transaction.leases().claim(&claim)? else {
                    panic!("it is free");
                };
                let life = Life { worker: name.clone(), token: holds[0].token };
                let (offer, about, state) = (String::new(), "{}".to_owned(), WorkerState::Up);
                let worker =
                    StoredWorker { life: life.clone(), slots: 1, offer, state, since_ms: 0, about };
                transaction.orders().put_worker(&worker)?;
                let (key, text) = ("command 1 1".to_owned(), "an order".to_owned());
                let order = NewOrder { key, life: life.clone(), text };
                Ok((life, transaction.orders().write("r", &[order])?[0]))
            })
            .expect("the store works");
        clock.advance(LEASE * 2);
        let mut watch = LifeWatch::default();
        let dead = loop {
            // A whole lease has to pass by the clock of the one who watches.
            let dead = store.read(|transaction| watch.look(transaction)).expect("the store works");
            if let Some(dead) = dead.into_iter().next() {
                break dead;
            }
        };
        Self { store, life, token, dead }
    }

    /// Has the worker report the end of its order. Returns whether the store has taken the report.
    fn report(&mut self) -> bool {
        let reports = [(self.token, END.to_owned())];
        let taken = self.store.transact(|tx| tx.orders().report(&self.life, &reports));
        taken.expect("the store works")
    }

    /// Has the scheduler end the life in the store.
    fn end_life(&mut self) {
        let ended = self.store.transact(|transaction| transaction.orders().end_life(&self.life));
        assert!(ended.expect("the store works"), "it is silent");
    }

    /// Has the scheduler give the life up. Returns what was reported of its order.
    fn give_up(mut self) -> String {
        let remains = self.dead.end(self.store.dir()).expect("nothing is to be ended");
        let remains = remains.expect("it is on another machine");
        let reports = self.store.transact(|transaction| {
            remains.give_up(transaction)?.expect("no one else has");
            transaction.orders().take()
        });
        let reports = reports.expect("the store works");
        assert_eq!(reports.iter().map(|report| report.token).collect::<Vec<_>>(), [self.token]);
        reports[0].text.clone()
    }
}

#[test]
fn an_end_that_is_reported_before_its_silent_worker_is_found_dead_counts() {
    let mut silent = Silent::new();
    assert!(silent.report(), "its life is not over");
    silent.end_life();
    assert_eq!(silent.give_up(), END);
}

#[test]
fn an_end_that_is_reported_after_its_silent_worker_was_found_dead_is_refused() {
    let mut silent = Silent::new();
    silent.end_life();
    assert!(!silent.report(), "its life is over");
    let text = silent.give_up();
    assert!(text.contains("lost"), "{text}");
}

#[test]
fn an_end_that_is_reported_after_its_silent_worker_was_given_up_changes_nothing() {
    let mut silent = Silent::new();
    silent.end_life();
    let (life, token) = (silent.life.clone(), silent.token);
    let mut store = silent.store.try_clone().expect("it is in memory");
    assert!(silent.give_up().contains("lost"));
    let reported = store.transact(|tx| tx.orders().report(&life, &[(token, END.to_owned())]));
    assert!(!reported.expect("the store works"), "its life is over");
    let left = store.read(|transaction| transaction.orders().reports());
    assert_eq!(left.expect("the store works"), []);
}

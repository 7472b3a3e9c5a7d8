//! How often transactions ask the server: in a network, each question takes a round trip.

use windlass_core::{HolderId, LeaseTerms, Name, Need, Token};
use windlass_sim::postgres::Server;

use super::*;
use crate::clock::DatabaseClock;
use crate::order::Life;
use crate::process::Process;
use crate::tables::{Look, Tables};
use crate::transaction::{Claim, Claimed, Transaction};

/// A store whose questions are counted.
struct Counted {
    backend: Postgres,
    clock: DatabaseClock,
}

impl Counted {
    fn new(server: &Server) -> Self {
        let backend = Postgres::create(&server.new_store()).expect("it can be made");
        let clock = DatabaseClock::start(backend.first_time().clone());
        Self { backend, clock }
    }

    fn asked(&self) -> usize {
        self.backend.session.as_ref().map_or(0, Session::asked)
    }

    /// Runs a transaction. Returns its result, and how often it has asked the server.
    fn transact<T>(
        &mut self,
        act: impl Fn(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> (T, usize) {
        let (before, mut result) = (self.asked(), None);
        let Self { backend, clock } = self;
        let mut on_wait = |_: &dyn crate::WriterWait| unreachable!("there is no other writer");
        let done = backend.transact(Durability::Full, &mut on_wait, &mut |tables| {
            let transaction = Transaction::new(tables, clock);
            transaction.settle()?;
            result = Some(act(&transaction)?);
            Ok(transaction.into_notices())
        });
        done.expect("the store works");
        (result.expect("it was committed"), self.asked() - before)
    }

    fn claim(&mut self, holder: &HolderId, process: &Process) -> (Option<Token>, usize) {
        let needs = [Need::one(Name::Lock("x".to_owned()))];
        let terms = LeaseTerms::default();
        let (claimed, asked) = self.transact(|transaction| {
            let claim = Claim { process: Some(process), terms, ..Claim::new(holder, &needs) };
            transaction.leases().claim(&claim)
        });
        match claimed {
            Claimed::Held(holds) => (Some(holds[0].token), asked),
            Claimed::Refused(_) => (None, asked),
        }
    }
}

#[test]
fn a_claim_a_heartbeat_and_a_release_ask_the_server_three_times_each() {
    let Some(server) = Server::shared() else { return };
    let mut store = Counted::new(server);
    let process = Process::current().expect("this is Linux");
    let first = HolderId::new("first");
    let name = Name::Lock("x".to_owned());
    let mut seen = Vec::new();
    // Statements are prepared at first.
    for _ in 0..2 {
        let (token, of_claim) = store.claim(&first, &process);
        let token = token.expect("the lock is free");
        let (_, of_heartbeat) =
            store.transact(|transaction| transaction.leases().heartbeat_process(&process));
        let (_, of_release) =
            store.transact(|transaction| transaction.leases().release(&name, &first, token));
        seen = vec![of_claim, of_heartbeat, of_release];
    }
    assert_eq!(seen, [3, 3, 3]);
}

#[test]
fn a_transaction_that_is_too_late_for_its_commit_is_repeated() {
    let Some(server) = Server::shared() else { return };
    let mut store = Counted::new(server);
    store.backend.haste.attempt = Some(Duration::from_secs(2));
    let (mut calls, mut on_wait) =
        (0, |_: &dyn crate::WriterWait| ControlFlow::Continue(Duration::ZERO));
    let done = store.backend.transact(Durability::Full, &mut on_wait, &mut |tables| {
        calls += 1;
        tables.append_event("a", 0)?;
        if calls == 1 {
            thread::sleep(Duration::from_secs(2));
        }
        Ok(Vec::new())
    });
    done.expect("the second call is in time");
    let mut events = 0;
    let read = store.backend.read(&mut |tables| tables.last_event().map(|last| events = last));
    read.expect("the store works");
    assert_eq!((calls, events), (2, 1));
}

#[test]
fn a_look_of_a_scheduler_and_one_of_a_worker_ask_the_server_twice_each() {
    let Some(server) = Server::shared() else { return };
    let mut store = Counted::new(server);
    let life = Life { worker: "w".to_owned(), token: Token(1) };
    let of_worker = Look::OfWorker { life: &life, after: 7, target: "worker w" };
    let mut read = |act: &dyn Fn(&dyn Tables) -> Result<(), StoreError>| {
        let before = store.asked();
        store.backend.read(&mut |tables| act(tables)).expect("the store works");
        store.asked() - before
    };
    let mut seen = (0, 0);
    // Statements are prepared at first.
    for _ in 0..2 {
        let of_scheduler = read(&|tables| {
            tables.expect(Look::OfScheduler)?;
            assert!(tables.leases(Some(&Name::Scheduler))?.is_empty());
            assert!(tables.workers()?.is_empty() && tables.leases_of_workers()?.is_empty());
            assert!(!tables.has_reports()? && tables.served_runs()?.is_empty());
            assert!(tables.all_requests()?.is_empty() && tables.queues()?.is_empty());
            Ok(())
        });
        let of_worker = read(&|tables| {
            tables.expect(of_worker)?;
            assert!(tables.requests("worker w")?.is_empty());
            assert!(
                tables.orders_of_life(&life, 7)?.is_empty() && tables.wishes(&life)?.is_empty()
            );
            tables.meta().map(drop)
        });
        seen = (of_scheduler, of_worker);
    }
    assert_eq!(seen, (2, 2));
}

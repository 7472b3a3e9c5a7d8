//! Stores in a database, whose holders may be on any machine and whose database may be replaced by another.

use std::sync::Arc;
use std::time::Duration;

use windlass_sim::postgres::Server;
use windlass_store::{
    Answer, Backend, Claim, Claimed, Frame, Hold, HolderId, LeaseTerms, Life, ManualClock, Memory,
    Name, Need, Postgres, Process, RunRecord, Store, StoreError, StoredWorker, Token, WorkerState,
};

const TIMEOUT: Duration = Duration::from_secs(10);

struct Bench {
    store: Store,
    clock: ManualClock,
}

impl Bench {
    fn over(backend: Box<dyn Backend>) -> Self {
        let clock = ManualClock::of(Frame::of_database("7", "1"));
        let store = Store::new(backend, Arc::new(clock.clone()), &std::env::temp_dir());
        Self { store, clock }
    }

    fn claim(&mut self, holder: &str, name: &Name) -> Option<Hold> {
        self.claim_by(holder, name, None)
    }

    fn claim_by(&mut self, holder: &str, name: &Name, process: Option<&Process>) -> Option<Hold> {
        let (holder, needs) = (HolderId::new(holder), [Need::one(name.clone())]);
        let terms = LeaseTerms { heartbeat_timeout: TIMEOUT, max_hold: None };
        let claim = Claim { terms, process, ..Claim::new(&holder, &needs) };
        match self.store.transact(|tx| tx.leases().claim(&claim)).expect("the store works") {
            Claimed::Held(holds) => holds.into_iter().next(),
            Claimed::Refused(_) => None,
        }
    }

    fn beat(&mut self, holder: &str, hold: &Hold) -> Answer {
        let holder = HolderId::new(holder);
        let beat = self.store.transact(|tx| tx.leases().heartbeat(&hold.name, &holder, hold.token));
        beat.expect("the store works")
    }

    fn miss_heartbeats(&self) {
        self.clock.advance(TIMEOUT + Duration::from_millis(1));
    }

    fn fail_over(&self) {
        self.clock.change_frame(Frame::of_database("7", "2"));
    }
}

/// Runs a test over each backend that several machines can use, or that stands for one.
fn over_each(test: impl Fn(Bench)) {
    test(Bench::over(Box::new(Memory::default())));
    if let Some(server) = Server::shared() {
        test(Bench::over(Box::new(Postgres::create(&server.new_store()).expect("it can be made"))));
    }
}

fn lock() -> Name {
    Name::Lock("x".to_owned())
}

/// Returns a process that has ended, if it was one of this machine.
fn elsewhere() -> Process {
    let mut process = Process::current().expect("this is Linux");
    (process.boot, process.started) = ("that of another machine".to_owned(), 1);
    process
}

#[test]
fn a_holder_that_misses_heartbeats_is_doubted_before_another_gets_its_name() {
    over_each(|mut bench| {
        let held = bench.claim("a", &lock()).expect("it is free");
        bench.miss_heartbeats();
        assert_eq!(bench.claim("b", &lock()), None, "the clock of the server may have jumped");
        bench.clock.advance(TIMEOUT / 2);
        assert_eq!(bench.beat("a", &held), Answer::Refreshed);
        bench.miss_heartbeats();
        assert_eq!(bench.claim("b", &lock()), None, "it was heard of since it was doubted");
        bench.miss_heartbeats();
        let next = bench.claim("b", &lock()).expect("it was silent for two leases");
        assert!(next.token > held.token);
        assert_eq!(bench.beat("a", &held), Answer::NotOwner);
    });
}

#[test]
fn a_late_heartbeat_counts_until_the_lease_was_found_stale() {
    over_each(|mut bench| {
        let held = bench.claim("a", &lock()).expect("it is free");
        for _ in 0..3 {
            bench.miss_heartbeats();
            bench.miss_heartbeats();
            assert_eq!(bench.beat("a", &held), Answer::Refreshed);
        }
        bench.miss_heartbeats();
        assert_eq!(bench.claim("b", &lock()), None);
        bench.miss_heartbeats();
        assert_eq!(bench.beat("a", &held), Answer::Refreshed, "no one has looked since");
    });
}

#[test]
fn a_process_of_another_machine_is_never_seen_to_be_gone() {
    over_each(|mut bench| {
        bench.claim_by("a", &lock(), Some(&elsewhere())).expect("it is free");
        assert_eq!(bench.claim("b", &lock()), None);
        let views = bench.store.overview().expect("the store works");
        let owner = &views[0].leases[0].owner;
        assert!(!owner.is_gone() && owner.host.is_some(), "{owner:?}");
        assert_eq!(owner.process, Some(elsewhere()));
    });
}

#[test]
fn a_process_of_this_machine_that_has_ended_loses_its_names_at_once() {
    over_each(|mut bench| {
        let mut gone = Process::current().expect("this is Linux");
        gone.started += 1;
        bench.claim_by("a", &lock(), Some(&gone)).expect("it is free");
        bench.claim("b", &lock()).expect("its holder has ended");
    });
}

#[test]
fn a_fail_over_raises_tokens_and_keeps_holders() {
    over_each(|mut bench| {
        let held = bench.claim("a", &lock()).expect("it is free");
        bench.miss_heartbeats();
        bench.fail_over();
        assert_eq!(bench.claim("b", &lock()), None, "a could send no heartbeats meanwhile");
        assert_eq!(bench.beat("a", &held), Answer::Refreshed);
        let other = bench.claim("b", &Name::Lock("y".to_owned())).expect("it is free");
        assert!(other.token > Token(1 << 40), "{}", other.token);
    });
}

#[test]
fn a_fail_over_ends_the_lead_of_runs() {
    over_each(|mut bench| {
        let run = bench.store.transact(|tx| {
            let id = tx.runs().new_id()?;
            let record = RunRecord { id: id.clone(), dir: "/".into(), ..RunRecord::default() };
            tx.runs().insert(&record)?;
            Ok(id)
        });
        let run = run.expect("the store works");
        let name = Name::Run(run.clone());
        let lead = bench.claim("a", &name).expect("no one leads it");
        let append =
            |store: &mut Store, epoch| store.transact(|tx| tx.facts().append(&run, epoch, &[]));
        append(&mut bench.store, lead.token).expect("it leads");
        bench.fail_over();
        let refused = append(&mut bench.store, lead.token).expect_err("facts may be missing");
        assert!(matches!(refused, StoreError::StaleEpoch { .. }), "{refused}");
        let next = bench.claim("a", &name).expect("it may lead again, after it has read the run");
        append(&mut bench.store, next.token).expect("it leads");
    });
}

#[test]
fn after_a_fail_over_no_one_schedules_until_orders_of_the_past_have_ended() {
    over_each(|mut bench| {
        let worker = Name::Worker("w".to_owned());
        let life = bench.claim("w", &worker).expect("it is free").token;
        let worker = StoredWorker {
            life: Life { worker: "w".to_owned(), token: life },
            slots: 1,
            offer: String::new(),
            state: WorkerState::Up,
            since_ms: 0,
            about: "{}".to_owned(),
        };
        bench.store.transact(|tx| tx.orders().put_worker(&worker)).expect("the store works");
        let lead = bench.claim("s", &Name::Scheduler).expect("no one leads");
        bench.fail_over();
        assert_eq!(bench.claim("s", &Name::Scheduler), None);
        bench.clock.advance(TIMEOUT);
        assert_eq!(bench.claim("s", &Name::Scheduler), None);
        bench.clock.advance(Duration::from_millis(1));
        let next = bench.claim("s", &Name::Scheduler).expect("a lease of the worker is over");
        assert!(next.token > lead.token);
        let is_alive = bench.store.read(|tx| tx.orders().is_alive(&worker.life));
        assert!(is_alive.expect("the store works"), "what it executes goes on");
    });
}

#[test]
fn numbers_of_the_lost_past_are_never_given_again() {
    over_each(|mut bench| {
        let emit = |store: &mut Store| store.transact(|tx| tx.events().emit("a"));
        emit(&mut bench.store).expect("the store works");
        let before = bench.store.last_event().expect("the store works");
        bench.fail_over();
        emit(&mut bench.store).expect("the store works");
        let after = bench.store.last_event().expect("the store works");
        assert!(before == 1 && after > 1 << 40, "{before} {after}");
    });
}

#[test]
fn the_holders_of_a_database_hold_nothing_in_a_copy_of_it() {
    over_each(|mut bench| {
        let held = bench.claim("a", &lock()).expect("it is free");
        bench.clock.change_frame(Frame::of_database("8", "1"));
        let next = bench.claim("b", &lock()).expect("a uses the original");
        assert!(next.token > held.token);
    });
}

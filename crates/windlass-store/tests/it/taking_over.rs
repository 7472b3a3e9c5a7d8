//! A lead that is taken over while its holder is in the middle of a transaction.

use std::ops::ControlFlow::Continue;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use windlass_sim::postgres::Server;
use windlass_store::{
    Backend, Claim, Claimed, Durability, HolderId, LeaseTerms, ManualClock, Name, Need, Network,
    Postgres, Sqlite, Store, StoreError, Token, Transaction, WriterWait,
};

const LEASE: Duration = Duration::from_secs(10);

/// How the transaction ends in whose middle the lead is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Commits,
    Aborts,
}

/// Claims the lead. Returns its token, and the events that are there in the same transaction.
fn lead(transaction: &Transaction<'_>, holder: &str) -> Result<(Token, Vec<String>), StoreError> {
    let (holder, needs) = (HolderId::new(holder), [Need::one(Name::Scheduler)]);
    let terms = LeaseTerms { heartbeat_timeout: LEASE, ..LeaseTerms::default() };
    match transaction.leases().claim(&Claim { terms, ..Claim::new(&holder, &needs) })? {
        Claimed::Held(holds) => Ok((holds[0].token, events(transaction)?)),
        Claimed::Refused(refused) => panic!("it is free: {refused:?}"),
    }
}

fn events(transaction: &Transaction<'_>) -> Result<Vec<String>, StoreError> {
    Ok(transaction.events().after(0, 10)?.into_iter().map(|event| event.name).collect())
}

fn leads(transaction: &Transaction<'_>, epoch: Token) -> Result<bool, StoreError> {
    Ok(transaction.leases().on(&Name::Scheduler)?.iter().any(|held| held.lease.token == epoch))
}

/// Writes something, if the lead is still the own one; waits in the middle. Returns whether it was.
fn append(
    store: &mut Store,
    epoch: Token,
    in_the_middle: &mut dyn FnMut() -> Result<(), StoreError>,
) -> Result<bool, StoreError> {
    store.transact(|transaction| {
        if !leads(transaction, epoch)? {
            return Ok(false);
        }
        transaction.events().emit("append")?;
        in_the_middle()?;
        Ok(true)
    })
}

fn check(open: &(dyn Fn() -> Box<dyn Backend> + Sync), end: End) {
    let (clock, dir) = (ManualClock::default(), std::env::temp_dir());
    let open = || Store::new(open(), Arc::new(clock.clone()), &dir);
    let mut first = open();
    let (epoch, _) = first.transact(|tx| lead(tx, "first")).expect("the store works");
    let (is_inside, inside) = channel();
    let (go_on, gone_on) = channel();
    thread::scope(|scope| {
        let appends = scope.spawn(move || {
            let appended = append(&mut first, epoch, &mut || {
                is_inside.send(()).expect("it waits");
                gone_on.recv().expect("it is told");
                match end {
                    End::Commits => Ok(()),
                    End::Aborts => Err(StoreError::Interrupted),
                }
            });
            (appended, first)
        });
        inside.recv().expect("it begins");
        clock.advance(LEASE * 2);
        // Only the wait for the first one's turn has that end.
        let mut on_wait = |_: &dyn WriterWait| {
            let _ = go_on.send(());
            Continue(Duration::from_millis(10))
        };
        let mut second = open();
        let taken = second.transact_while(Durability::Full, &mut on_wait, |tx| lead(tx, "second"));
        let (token, seen) = taken.expect("the store works");
        assert!(token > epoch, "{token} follows {epoch}");
        let (appended, mut first) = appends.join().expect("it does not panic");
        let (expected, kept): (_, &[&str]) = match end {
            End::Commits => (Some(true), &["append"]),
            End::Aborts => (None, &[]),
        };
        assert_eq!(
            (appended.ok(), seen),
            (expected, kept.iter().map(|e| (*e).to_owned()).collect())
        );
        let again = append(&mut first, epoch, &mut || Ok(()));
        assert!(!again.expect("the store works"), "a lead that was taken over appends nothing");
        let left = second.read(events).expect("the store works");
        assert_eq!(left, kept, "nothing was added since");
    });
}

#[test]
fn a_lead_is_taken_over_after_an_append_in_flight_which_the_next_leader_reads() {
    for end in [End::Commits, End::Aborts] {
        let dir = tempfile::tempdir().expect("a directory");
        check(&|| Box::new(Sqlite::open(dir.path(), Network::Refuse).expect("it opens")), end);
        if let Some(server) = Server::shared() {
            let url = server.new_store();
            check(&|| Box::new(Postgres::create(&url).expect("it can be made")), end);
        }
    }
}

//! Stores that behave as one in a network may: they repeat transactions, and lose the replies of commits.
//!
//! Wraps any backend of `windlass-store`. What happens to a transaction follows from a seed. Every call of the
//! tables is counted, because in a network each takes a round trip.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass_core::Random;
use windlass_store::{
    Backend, Durability, OnWait, Opener, ReadBody, StoreError, Tables, Topic, TransactionBody,
    Wakeup,
};

use self::watched::Watched;

mod watched;

/// Within how many calls of the tables a transaction is aborted, if not at its commit.
const ABORTED_WITHIN: u64 = 40;

/// How often something happens to a transaction: once in so many times, or never.
#[derive(Clone, Copy, Debug, Default)]
pub struct Odds {
    /// It is aborted somewhere, and repeated.
    pub abort: Option<u64>,
    /// The reply of its commit is lost; the store may have it or not.
    pub lose: Option<u64>,
}

/// What is lost with the reply of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing else: the store has what was written.
    Reply,
    /// Everything that was written.
    Commit,
}

/// A backend whose transactions are aborted and repeated, or not answered.
pub struct Faulty {
    backend: Box<dyn Backend>,
    faults: Faults,
}

/// What happens to the transactions of a store; clones share it.
#[derive(Clone)]
pub struct Faults(Arc<Mutex<State>>);

struct State {
    random: Random,
    odds: Odds,
    /// What becomes of the next try, if that is known.
    next: Option<Fate>,
    seen: Seen,
}

/// What has happened to transactions so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// How many transactions were committed.
    pub commits: usize,
    /// How many were aborted and repeated.
    pub aborts: usize,
    /// How many replies of commits were lost.
    pub losses: usize,
    /// How often each call of the tables was made.
    pub calls: BTreeMap<&'static str, usize>,
}

impl Seen {
    /// Returns how many calls were made since `before`.
    #[must_use]
    pub fn calls_since(&self, before: &Self) -> usize {
        self.all_calls() - before.all_calls()
    }

    fn all_calls(&self) -> usize {
        self.calls.values().sum()
    }
}

/// What becomes of one try of a transaction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Commit,
    /// Aborted before this call of the tables, or at the commit if there are fewer.
    Abort(u64),
    /// The store has it, and the caller does not know.
    LoseReply,
    /// The store does not have it, and the caller does not know.
    LoseAll,
}

impl Faults {
    /// Creates faults that follow from a seed.
    #[must_use]
    pub fn new(seed: u64, odds: Odds) -> Self {
        let (random, seen) = (Random::new(seed), Seen::default());
        Self(Arc::new(Mutex::new(State { random, odds, next: None, seen })))
    }

    /// Aborts the next transaction before the call of the tables that has this number, from 0, and repeats
    /// it.
    pub fn abort_next(&self, call: u64) {
        self.state().next = Some(Fate::Abort(call));
    }

    /// Changes how often something happens.
    pub fn set(&self, odds: Odds) {
        self.state().odds = odds;
    }

    /// Loses the reply of the next commit.
    pub fn lose_next(&self, loss: Loss) {
        self.state().next = Some(match loss {
            Loss::Reply => Fate::LoseReply,
            Loss::Commit => Fate::LoseAll,
        });
    }

    /// Returns what has happened so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.state().seen.clone()
    }

    /// Wraps a backend. Its clones have the same faults.
    #[must_use]
    pub fn over(&self, backend: Box<dyn Backend>) -> Faulty {
        Faulty { backend, faults: self.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fate(&self) -> Fate {
        let State { random, odds, next, .. } = &mut *self.state();
        if let Some(fate) = next.take() {
            return fate;
        }
        let mut happens = |odds: Option<u64>| odds.is_some_and(|odds| random.one_in(odds));
        match (happens(odds.abort), happens(odds.lose)) {
            (true, _) => Fate::Abort(random.within(0..ABORTED_WITHIN)),
            (false, true) if random.one_in(2) => Fate::LoseReply,
            (false, true) => Fate::LoseAll,
            (false, false) => Fate::Commit,
        }
    }

    fn count(&self, call: &'static str) {
        *self.state().seen.calls.entry(call).or_default() += 1;
    }
}

impl Faulty {
    /// Runs a transaction once. Returns whether it was aborted, with the result.
    fn try_once(
        &mut self,
        fate: Fate,
        durability: Durability,
        on_wait: OnWait<'_>,
        body: TransactionBody<'_>,
    ) -> (bool, Result<(), StoreError>) {
        let Self { backend, faults } = self;
        let aborted = Cell::new(false);
        let left = Cell::new(match fate {
            Fate::Abort(calls) => calls,
            _ => u64::MAX,
        });
        let abort = || {
            aborted.set(true);
            unanswered("it was aborted")
        };
        let on_call = |call: &'static str| {
            faults.count(call);
            match left.replace(left.get().saturating_sub(1)) {
                0 => Err(abort()),
                _ => Ok(()),
            }
        };
        let result = backend.transact(durability, on_wait, &mut |tables| {
            let done = body(&Watched::new(tables, &on_call));
            match fate {
                // A body that goes on after an abort has not got away with it.
                Fate::Abort(_) if aborted.get() || done.is_ok() => Err(abort()),
                Fate::LoseAll if done.is_ok() => Err(abort()),
                _ => done,
            }
        });
        (aborted.get(), result)
    }
}

impl Backend for Faulty {
    fn transact(
        &mut self,
        durability: Durability,
        on_wait: OnWait<'_>,
        body: TransactionBody<'_>,
    ) -> Result<(), StoreError> {
        loop {
            let fate = self.faults.fate();
            let (aborted, result) = self.try_once(fate, durability, on_wait, body);
            let seen = &mut self.faults.state().seen;
            match (fate, result) {
                (Fate::Abort(_), _) if aborted => seen.aborts += 1,
                (Fate::LoseReply, Ok(())) | (Fate::LoseAll, Err(_))
                    if aborted || fate == Fate::LoseReply =>
                {
                    seen.losses += 1;
                    return Err(unanswered("the connection was closed"));
                }
                (_, result) => {
                    seen.commits += usize::from(result.is_ok());
                    return result;
                }
            }
        }
    }

    fn compact(&mut self, on_wait: OnWait<'_>) -> Result<(), StoreError> {
        self.backend.compact(on_wait)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.backend.sync()
    }

    fn file_to_sync(&mut self) -> Option<BorrowedFd<'_>> {
        self.backend.file_to_sync()
    }

    fn read(&mut self, body: ReadBody<'_>) -> Result<(), StoreError> {
        let faults = &self.faults;
        let on_call = |call: &'static str| {
            faults.count(call);
            Ok(())
        };
        self.backend.read(&mut |tables: &dyn Tables| body(&Watched::new(tables, &on_call)))
    }

    fn opener(&self) -> Opener {
        let (opener, faults) = (self.backend.opener(), self.faults.clone());
        Box::new(move || Ok(Box::new(faults.over(opener()?))))
    }

    fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError> {
        self.backend.register(topic)
    }
}

fn unanswered(why: &str) -> StoreError {
    StoreError::Unanswered { why: why.to_owned() }
}

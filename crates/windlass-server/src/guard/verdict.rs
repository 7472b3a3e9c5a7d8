//! A user's decision about a guard that a process waits for, as a request in the store.
//!
//! Each decision is for one process. Who decides when all of them are decided comes too late.

use windlass_store::{Store, StoreError, Transaction};

use super::waiting::waiting_guards;

/// What a user decides about a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It passes.
    Approve,
    /// It fails.
    Reject,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Approve => "approve",
            Verdict::Reject => "reject",
        }
    }

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        [Verdict::Approve, Verdict::Reject].into_iter().find(|verdict| verdict.word() == word)
    }
}

/// As many decisions were made as processes wait for the guard, and were not taken so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecidedBefore {
    /// The first of them.
    pub verdict: Verdict,
}

/// Leaves a decision for one of the processes that wait for the guard of that name, with which
/// [`watch`](super::watch) was called. Refused if there is a decision for each of them.
pub fn decide(
    store: &mut Store,
    guard: &str,
    verdict: Verdict,
) -> Result<Result<(), DecidedBefore>, StoreError> {
    let state = store.dir().to_owned();
    store.transact(|transaction| {
        let requests = transaction.requests();
        let pending = requests.pending(&target(guard))?;
        let mut decided = pending.iter().filter_map(|request| Verdict::of_word(&request.text));
        let waiting = waiting_guards(&state).unwrap_or_default().remove(guard).unwrap_or_default();
        if let Some(verdict) = decided.next().filter(|_| pending.len() >= waiting) {
            return Ok(Err(DecidedBefore { verdict }));
        }
        requests.send(&target(guard), verdict.word())?;
        Ok(Ok(()))
    })
}

/// The decisions that are meant for one wait.
pub(super) struct Verdicts {
    target: String,
    /// The number of the last decision that is not.
    before: u64,
}

impl Verdicts {
    /// Begins a wait for a guard, before it is announced. Decisions that are left from earlier waits are
    /// deleted, unless other processes wait for them.
    pub(super) fn begin(store: &mut Store, guard: &str) -> Result<Self, StoreError> {
        let (target, state) = (target(guard), store.dir().to_owned());
        let pending = store.read(|transaction| transaction.requests().pending(&target))?;
        let before = pending.last().map_or(0, |last| last.number);
        if before > 0 {
            store.transact(|transaction| {
                let alone = !waiting_guards(&state).unwrap_or_default().contains_key(guard);
                let mut left = pending.iter().filter(|_| alone);
                left.try_for_each(|left| transaction.requests().take(left.number).map(drop))
            })?;
        }
        Ok(Self { target, before })
    }

    /// Takes a decision, if there is one.
    pub(super) fn take(&self, store: &mut Store) -> Result<Option<Verdict>, StoreError> {
        let pending = |transaction: &Transaction<'_>| {
            let pending = transaction.requests().pending(&self.target)?.into_iter();
            Ok(pending.filter(|request| request.number > self.before).collect::<Vec<_>>())
        };
        if store.read(pending)?.is_empty() {
            return Ok(None);
        }
        store.transact(|transaction| {
            for request in pending(transaction)? {
                transaction.requests().take(request.number)?;
                // A newer version may know other words.
                if let Some(verdict) = Verdict::of_word(&request.text) {
                    return Ok(Some(verdict));
                }
            }
            Ok(None)
        })
    }
}

/// Returns the address of the processes that wait for a guard.
fn target(guard: &str) -> String {
    format!("guard/{guard}")
}

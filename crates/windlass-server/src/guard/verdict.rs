//! A user's decision about a guard that waits, as a request in the store.

use windlass_store::{Store, StoreError};

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

/// Leaves a decision for the process that waits for the guard of `target` (a step as `RUN/STEP`, or
/// `guard/NAME`).
pub fn decide(store: &mut Store, target: &str, verdict: Verdict) -> Result<(), StoreError> {
    store.transact(|transaction| transaction.requests().send(target, verdict.word()))?;
    Ok(())
}

/// Takes what users have decided about `target`, if they have; the last decision counts.
pub fn verdict(store: &mut Store, target: &str) -> Result<Option<Verdict>, StoreError> {
    if store.read(|transaction| transaction.requests().pending(target))?.is_empty() {
        return Ok(None);
    }
    store.transact(|transaction| {
        let mut verdict = None;
        for request in transaction.requests().pending(target)? {
            let said = Verdict::of_word(&request.text);
            if said.is_some() && transaction.requests().take(request.number)? {
                verdict = said;
            }
        }
        Ok(verdict)
    })
}

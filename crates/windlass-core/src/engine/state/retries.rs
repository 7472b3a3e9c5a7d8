//! How often works may be tried again, and after which delays: for the few works that say so.

use std::collections::BTreeMap;

use crate::WorkId;
use crate::retry::RetryPolicy;

#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Retries {
    /// Of those works that have a policy of their own.
    policies: BTreeMap<WorkId, RetryPolicy>,
    /// How many retries a work has used up, if any.
    spent: BTreeMap<WorkId, u32>,
}

impl Retries {
    pub(in crate::engine) fn policy(&self, work: WorkId) -> Option<&RetryPolicy> {
        self.policies.get(&work)
    }

    /// Returns how many retries `work` has used up.
    pub(in crate::engine) fn spent(&self, work: WorkId) -> u32 {
        self.spent.get(&work).copied().unwrap_or(0)
    }

    pub(super) fn all_spent(&self) -> impl Iterator<Item = (WorkId, u32)> {
        self.spent.iter().map(|(work, spent)| (*work, *spent))
    }

    pub(super) fn set_policy(&mut self, work: WorkId, policy: RetryPolicy) {
        self.policies.insert(work, policy);
    }

    pub(super) fn spend_one(&mut self, work: WorkId) {
        *self.spent.entry(work).or_default() += 1;
    }

    /// Gives back what `work` has used up, and returns how much that was.
    pub(super) fn refund(&mut self, work: WorkId) -> u32 {
        self.spent.remove(&work).unwrap_or(0)
    }

    pub(super) fn forget(&mut self, work: WorkId) {
        self.policies.remove(&work);
        self.spent.remove(&work);
    }
}

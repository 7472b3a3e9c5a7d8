//! The retries and retry policies of works that have some.

use std::collections::BTreeMap;

use crate::WorkId;
use crate::retry::RetryPolicy;

#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Retries {
    /// The policies of works with their own.
    policies: BTreeMap<WorkId, RetryPolicy>,
    /// The retries used, for works that used some.
    spent: BTreeMap<WorkId, u32>,
}

impl Retries {
    pub(in crate::engine) fn policy(&self, work: WorkId) -> Option<&RetryPolicy> {
        self.policies.get(&work)
    }

    /// Returns how many retries `work` has used.
    pub(in crate::engine) fn spent(&self, work: WorkId) -> u32 {
        self.spent.get(&work).copied().unwrap_or(0)
    }

    pub(super) fn all_spent(&self) -> impl Iterator<Item = (WorkId, u32)> {
        self.spent.iter().map(|(work, spent)| (*work, *spent))
    }

    pub(super) fn set_policy(&mut self, work: WorkId, policy: RetryPolicy) {
        self.policies.insert(work, policy);
    }

    /// Sets how many retries `work` has used.
    pub(super) fn restore(&mut self, work: WorkId, spent: u32) {
        if spent > 0 {
            self.spent.insert(work, spent);
        }
    }

    pub(super) fn spend_one(&mut self, work: WorkId) {
        *self.spent.entry(work).or_default() += 1;
    }

    /// Resets the retries of `work` to unused, and returns how many it had used.
    pub(super) fn refund(&mut self, work: WorkId) -> u32 {
        self.spent.remove(&work).unwrap_or(0)
    }

    pub(super) fn forget(&mut self, work: WorkId) {
        self.policies.remove(&work);
        self.spent.remove(&work);
    }
}

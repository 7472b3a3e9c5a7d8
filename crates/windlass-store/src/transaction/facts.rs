//! The journal of a run: the facts from which its engine can be rebuilt.

use windlass_core::{Fact, Name, Token};

use crate::error::StoreError;
use crate::tables::Tables;

/// The journals of a store, within a [`Transaction`](super::Transaction).
pub struct Facts<'a> {
    tables: &'a dyn Tables,
}

impl<'a> Facts<'a> {
    pub(super) fn new(tables: &'a dyn Tables) -> Self {
        Self { tables }
    }

    /// Appends to the journal of a run. Fails with [`StoreError::StaleEpoch`] unless `epoch` is the
    /// token under which the run's present leader holds it.
    pub fn append(&self, run: &str, epoch: Token, facts: &[Fact]) -> Result<(), StoreError> {
        if !self.tables.is_held_as(&Name::Run(run.to_owned()), epoch)? {
            return Err(StoreError::StaleEpoch { run: run.to_owned() });
        }
        self.tables.append_facts(run, epoch, facts)
    }

    /// Returns the journal of a run, in order, without its first `seen` facts.
    pub fn after(&self, run: &str, seen: usize) -> Result<Vec<Fact>, StoreError> {
        self.tables.facts_after(run, seen)
    }

    /// Returns the journal of a run, in order.
    pub fn of(&self, run: &str) -> Result<Vec<Fact>, StoreError> {
        self.tables.facts(run)
    }
}

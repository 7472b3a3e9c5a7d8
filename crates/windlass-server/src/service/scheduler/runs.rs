//! The runs that a scheduler leads, and whose turn it is among them.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::ClientId;
use windlass_store::{StoreError, Transaction};

use super::news::SchedulerNews;
use crate::coordinator::served::{Host, ServedRun};
use crate::service::turns::Turns;

/// The runs that a scheduler leads.
#[derive(Default)]
pub(super) struct Runs {
    served: BTreeMap<String, ServedRun>,
    /// Which run takes from the shared capacity as which client.
    by_client: BTreeMap<ClientId, String>,
    turns: Turns,
    /// The runs that cannot be led.
    refused: BTreeSet<String>,
    /// The runs that may know more than the store: a round has changed them, and was not committed yet.
    touched: BTreeSet<String>,
}

impl Runs {
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &ServedRun)> {
        self.served.iter()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &ServedRun> {
        self.served.values()
    }

    /// Returns the runs, to change what no round decides.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut ServedRun> {
        self.served.values_mut()
    }

    /// Returns a run that the scheduler leads.
    pub(super) fn find(&self, id: &str) -> Option<&ServedRun> {
        self.served.get(id)
    }

    /// Returns a run, which may know more than the store from now on.
    pub(super) fn touch(&mut self, id: &str) -> &mut ServedRun {
        self.touched.insert(id.to_owned());
        self.served.get_mut(id).expect("only a known run decides")
    }

    pub(super) fn are_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Notes that the store has everything that rounds have decided.
    pub(super) fn note_committed(&mut self) {
        self.touched.clear();
    }

    /// Drops the runs that a round has changed whose commit is not known. They are adopted again.
    pub(super) fn drop_touched(&mut self) {
        for id in std::mem::take(&mut self.touched) {
            self.refused.remove(&id);
            self.forget(&id);
        }
    }

    /// Returns the runs to lead that the scheduler does not know.
    pub(super) fn unknown(&self, transaction: &Transaction<'_>) -> Result<Vec<String>, StoreError> {
        let mut new = transaction.runs().served()?;
        new.retain(|run| !self.served.contains_key(run) && !self.refused.contains(run));
        Ok(new)
    }

    /// Takes the lead of runs that were submitted, or that an earlier scheduler has led.
    pub(super) fn adopt_unknown(
        &mut self,
        transaction: &Transaction<'_>,
        host: &Host,
        news: &mut Vec<SchedulerNews>,
    ) -> Result<(), StoreError> {
        for id in self.unknown(transaction)? {
            let record = transaction.runs().find(&id)?;
            let workflow = record.workflow.clone();
            self.touched.insert(id.clone());
            match ServedRun::adopt(transaction, record, host)? {
                Ok(run) => {
                    self.by_client.insert(run.client(), id.clone());
                    self.turns.add(&id, run.priority());
                    self.served.insert(id.clone(), run);
                    news.push(SchedulerNews::Began { run: id, workflow });
                }
                Err(error) => {
                    self.refused.insert(id.clone());
                    news.push(SchedulerNews::Refused { run: id, why: error.to_string() });
                }
            }
        }
        Ok(())
    }

    /// Drops a run that has ended, or has to be adopted again.
    pub(super) fn forget(&mut self, id: &str) {
        let Some(run) = self.served.remove(id) else { return };
        self.by_client.remove(&run.client());
        self.turns.remove(id);
    }

    /// Notes that a run wants to start steps.
    pub(super) fn want_turn(&mut self, id: &str) {
        self.turns.want(id);
    }

    /// Notes that a client of the shared capacity may have what it was refused.
    pub(super) fn wake(&mut self, client: ClientId) {
        if let Some(id) = self.by_client.get(&client) {
            self.served.get_mut(id).expect("it has a client").search_again();
            self.turns.want(id);
        }
    }

    /// Notes that workers may have room that a client of the shared capacity lacked.
    pub(super) fn offer_workers(&mut self, client: ClientId) {
        if let Some(id) = self.by_client.get(&client) {
            self.served.get_mut(id).expect("it has a client").search_placement();
            self.turns.want(id);
        }
    }

    /// Takes the run whose turn it is.
    pub(super) fn next_in_turn(&mut self) -> Option<String> {
        self.turns.next()
    }

    /// Puts a run that has started a step behind those that are as urgent.
    pub(super) fn took_turn(&mut self, id: &str) {
        self.turns.took(id);
    }

    /// Returns the digest of each run that no round has touched since the last commit.
    #[cfg(test)]
    pub(super) fn digests(&self) -> impl Iterator<Item = (&str, u64)> {
        let known = self.served.iter().filter(|(id, _)| !self.touched.contains(*id));
        known.map(|(id, run)| (id.as_str(), run.digest()))
    }
}

//! Describes why a step does not get a name: the name, and the holder or the waiter that comes first.
//!
//! Holders are named as `windlass holders` and `windlass why` name them. Many steps of a run may wait for
//! one holder, so each holder is looked up once per transaction.

use std::collections::BTreeMap;

use windlass_core::{HolderId, Name};
use windlass_store::{Leftover, Refused, StoreError, Transaction};

use super::super::identity::RunIdentity;
use crate::lock_client::other_users_leftover;
use crate::look::HolderLabel;
use crate::look::holder::{Attempt, HolderNames, command_line};
use crate::users::user_name;

/// Describes the refusals of one transaction.
pub(super) struct Refusals<'a> {
    transaction: &'a Transaction<'a>,
    identity: &'a RunIdentity,
    names: HolderNames,
    labels: BTreeMap<HolderId, String>,
}

impl<'a> Refusals<'a> {
    pub(super) fn new(transaction: &'a Transaction<'a>, identity: &'a RunIdentity) -> Self {
        let (names, labels) = (HolderNames::default(), BTreeMap::new());
        Self { transaction, identity, names, labels }
    }

    /// Returns the first name that was refused, and its first holder or the first waiter ahead.
    pub(super) fn describe(&mut self, refused: &Refused) -> Result<String, StoreError> {
        if let Some(Leftover { name, uid: Some(uid), left, .. }) = other_users_leftover(refused) {
            let (user, left) = (user_name(*uid), left.as_secs() + 1);
            return Ok(format!(
                "{name}: its holder has ended, but processes that {user} has left running cannot be \
                 ended here; its lease expires in at most {left} s"
            ));
        }
        let (name, first) = refused.first();
        let label = self.label(name, first)?;
        Ok(match refused.refusals[0].holders.is_empty() {
            false => format!("{name}, held by {label}"),
            true => format!("{name}, queued behind {label}"),
        })
    }

    fn label(&mut self, name: &Name, holder: &HolderId) -> Result<String, StoreError> {
        if let Some(label) = self.labels.get(holder) {
            return Ok(label.clone());
        }
        self.names.add(self.transaction, holder.as_str())?;
        let label = match self.lost_attempt(holder) {
            Some(label) => label,
            None => {
                let process = self.transaction.leases().process_of(name, holder)?;
                let command = process.as_ref().and_then(command_line);
                let (name, pid) = (self.names.name(holder), process.map(|process| process.pid));
                HolderLabel { name: &name, pid, command: command.as_deref(), host: None }
                    .to_string()
            }
        };
        self.labels.insert(holder.clone(), label.clone());
        Ok(label)
    }

    /// Returns the label of an attempt of this run that an earlier leader started and did not see end.
    fn lost_attempt(&self, holder: &HolderId) -> Option<String> {
        let Attempt { run, grant, epoch } = Attempt::read(holder.as_str())?;
        let is_lost = run == self.identity.id() && epoch != self.identity.epoch();
        let step = self.names.step(holder).filter(|_| is_lost)?;
        Some(format!("attempt {} of step {step}, which was interrupted", grant.attempt))
    }
}

#[cfg(test)]
mod tests;

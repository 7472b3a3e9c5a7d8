//! Reopens works that had ended, so that they are tried again.

use std::collections::BTreeMap;

use windlass_core::{Input, Phase, Rejected, Transition, WorkId};

use super::Schedule;

impl Schedule {
    /// Reopens works that failed or were cancelled, and everything that follows them, except steps that a user
    /// has removed. Each work has one transition: a work that follows several of them is blocked until the last
    /// is reopened, and that is not shown.
    pub(crate) fn reopen(&mut self, works: &[WorkId]) -> Result<(), Rejected> {
        let before = self.transitions.len();
        for work in works {
            // A work that follows another of them may be open already.
            let phase = self.engine.phase(*work);
            if matches!(phase, Some(Phase::Failed | Phase::Cancelled)) {
                self.apply(Input::Reopen(*work))?;
            }
        }
        self.cancel_removed();
        let changes = self.transitions.split_off(before);
        self.transitions.extend(net(changes));
        self.times.reopened = true;
        self.blamed.clear();
        Ok(())
    }
}

/// Returns the last change of each work, from the state before its first, in the order of the first
/// changes.
fn net(changes: Vec<Transition>) -> Vec<Transition> {
    let mut places: BTreeMap<WorkId, usize> = BTreeMap::new();
    let mut net: Vec<Transition> = Vec::new();
    for change in changes {
        match places.get(&change.work) {
            Some(place) => net[*place] = Transition { from: net[*place].from, ..change },
            None => {
                places.insert(change.work, net.len());
                net.push(change);
            }
        }
    }
    net
}

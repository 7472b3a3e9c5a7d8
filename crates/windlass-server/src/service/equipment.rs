//! What a worker has besides its slots: resources, which its steps share, and labels.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_core::{Amount, Intake, ResourceCost, SLOTS, WORKER, WorkerOffer};
use windlass_store::{StoredWorker, WorkerState};

/// What a worker has besides its slots.
///
/// ```
/// use windlass_server::service::{Equipment, Supply};
/// use windlass_server::Amount;
///
/// let mut equipment = Equipment::default();
/// equipment.resources.insert("gpu".to_owned(), Supply::Items(vec!["0".to_owned(), "1".to_owned()]));
/// equipment.labels.insert("zone".to_owned(), "a".to_owned());
/// assert_eq!(equipment.resources["gpu"].amount(), Amount::from(2));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Equipment {
    /// Its resources, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, Supply>,
    /// Its labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// How much a worker has of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Supply {
    /// An amount, in steps of 1/10 000.
    Steps(u64),
    /// Named items; each step gets its own.
    Items(Vec<String>),
}

impl Supply {
    /// Returns how much that is.
    #[must_use]
    pub fn amount(&self) -> Amount {
        match self {
            Self::Steps(steps) => Amount::from_steps(*steps),
            Self::Items(items) => Amount::from(u32::try_from(items.len()).unwrap_or(u32::MAX)),
        }
    }
}

impl Equipment {
    /// Reads what a worker has stored; nothing from one of a version without it.
    pub(crate) fn of(worker: &StoredWorker) -> Self {
        serde_json::from_str(&worker.offer).unwrap_or_default()
    }

    pub(crate) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("it has only texts and numbers")
    }

    /// Returns what a worker has for works.
    pub(crate) fn offer(&self, slots: u32, state: WorkerState) -> WorkerOffer {
        let resources = self.resources.iter();
        let resources = resources.map(|(name, supply)| (name.clone(), supply.amount()));
        let capacity: ResourceCost = resources.collect();
        let intake = if state == WorkerState::Up { Intake::Open } else { Intake::Closed };
        WorkerOffer { capacity: capacity.with(SLOTS, slots), labels: self.labels.clone(), intake }
    }
}

/// Returns the variable in which a step finds its items of a worker's resource.
pub(crate) fn variable_of(resource: &str) -> String {
    let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("WINDLASS_WORKER_{}", resource.chars().map(upper).collect::<String>())
}

/// Returns what a cost takes of a worker, in steps, by the worker's names of resources.
pub(crate) fn taken_of_worker(cost: &ResourceCost) -> BTreeMap<String, u64> {
    let mut taken = BTreeMap::from([(SLOTS.to_owned(), Amount::from(1).steps())]);
    for (name, amount) in cost.iter() {
        let name = if name == SLOTS { Some(SLOTS) } else { name.strip_prefix(WORKER) };
        if let Some(name) = name {
            taken.insert(name.to_owned(), amount.steps());
        }
    }
    taken.retain(|_, steps| *steps > 0);
    taken
}

//! The items of workers' resources, and which step of which run has each.
//!
//! Core counts them, so there is always one left for a step that starts.

use std::collections::BTreeMap;

use windlass_core::{ClientId, WorkId};

/// Items by resource of one worker.
pub(crate) type ItemNames = BTreeMap<String, Vec<String>>;

/// The items that steps have.
#[derive(Default)]
pub(super) struct WorkerItems {
    taken: BTreeMap<(ClientId, WorkId), (String, ItemNames)>,
}

impl WorkerItems {
    /// Gives a step so many items of what its worker has, by resource. `has` lists the items of the resources
    /// that have some.
    pub(super) fn take(
        &mut self,
        of: (ClientId, WorkId),
        worker: &str,
        has: &ItemNames,
        wanted: &BTreeMap<String, usize>,
    ) -> ItemNames {
        let mut items = ItemNames::new();
        for (resource, all) in has {
            let Some(count) = wanted.get(resource) else { continue };
            let others = self.taken.values().filter(|(at, _)| at == worker);
            let used: Vec<_> =
                others.flat_map(|(_, items)| items.get(resource)).flatten().collect();
            let free = all.iter().filter(|item| !used.contains(item));
            items.insert(resource.clone(), free.take(*count).cloned().collect());
        }
        self.take_again(of, worker, items.clone());
        items
    }

    /// Notes the items that a step got from an earlier scheduler.
    pub(super) fn take_again(&mut self, of: (ClientId, WorkId), worker: &str, items: ItemNames) {
        if !items.is_empty() {
            self.taken.insert(of, (worker.to_owned(), items));
        }
    }

    pub(super) fn give_back(&mut self, of: (ClientId, WorkId)) {
        self.taken.remove(&of);
    }

    /// Returns the items that a step has.
    pub(super) fn of(&self, of: (ClientId, WorkId)) -> ItemNames {
        self.taken.get(&of).map(|(_, items)| items.clone()).unwrap_or_default()
    }

    pub(super) fn remove_client(&mut self, client: ClientId) {
        self.taken.retain(|(of, _), _| *of != client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::{CapacityTree, ResourceCost};

    #[test]
    fn no_two_steps_have_the_same_item_of_a_worker() {
        let mut tree = CapacityTree::new(&ResourceCost::new());
        let [one, other] = [(); 2].map(|()| tree.add_client(CapacityTree::ROOT));
        let [a, b] = [0, 1].map(WorkId::from_index);
        let names = |of: &[&str]| of.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let has = ItemNames::from([("gpu".to_owned(), names(&["0", "1", "2"]))]);
        let wants = |count| BTreeMap::from([("gpu".to_owned(), count), ("memory".to_owned(), 1)]);
        let gpus = |of: &[&str]| ItemNames::from([("gpu".to_owned(), names(of))]);
        let mut items = WorkerItems::default();
        assert_eq!(items.take((one, a), "w", &has, &wants(1)), gpus(&["0"]));
        assert_eq!(items.take((other, a), "w", &has, &wants(2)), gpus(&["1", "2"]));
        assert_eq!(items.take((one, b), "v", &has, &wants(1)), gpus(&["0"]), "another worker");
        items.give_back((one, a));
        items.remove_client(other);
        assert_eq!(items.take((other, b), "w", &has, &wants(3)), gpus(&["0", "1", "2"]));
        assert!(items.take((one, a), "w", &ItemNames::new(), &wants(1)).is_empty());
    }
}

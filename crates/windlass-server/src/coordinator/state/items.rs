//! The items of resources that each step has.

use std::collections::{BTreeMap, BTreeSet};

use windlass_core::{Amount, WorkId};
use windlass_workflow::{Plan, ResourceKind, Step};

/// The items of all resources that have some.
pub(super) struct Items {
    /// The items that no step has, by the resource's place in the plan.
    free: BTreeMap<usize, BTreeSet<usize>>,
    taken: BTreeMap<WorkId, Vec<(usize, usize)>>,
}

impl Items {
    pub(super) fn of(plan: &Plan) -> Self {
        let count = |kind: &ResourceKind| match kind {
            ResourceKind::Items { items, .. } => Some(items.len()),
            _ => None,
        };
        let resources = plan.resources.iter().enumerate();
        let free = resources
            .filter_map(|(place, resource)| Some((place, (0..count(&resource.kind)?).collect())));
        Self { free: free.collect(), taken: BTreeMap::new() }
    }

    /// Returns the items that a step has.
    pub(super) fn of_work(&self, work: WorkId) -> Vec<(usize, usize)> {
        self.taken.get(&work).cloned().unwrap_or_default()
    }

    /// Gives a step the items that it had under an earlier scheduler.
    pub(super) fn take_again(&mut self, work: WorkId, items: Vec<(usize, usize)>) {
        for (place, item) in &items {
            self.free.get_mut(place).map(|free| free.remove(item));
        }
        self.taken.insert(work, items);
    }

    /// Gives a step as many items as it uses. The engine grants no more than there are.
    pub(super) fn take(&mut self, work: WorkId, plan: &Plan, step: &Step) {
        for (&place, free) in &mut self.free {
            let wanted =
                step.needs.resources.amount(&plan.resources[place].name).unwrap_or_default();
            for _ in 0..whole(wanted) {
                let item = free.pop_first().expect("the engine counts them");
                self.taken.entry(work).or_default().push((place, item));
            }
        }
    }

    pub(super) fn give_back(&mut self, work: WorkId) {
        for (place, item) in self.taken.remove(&work).unwrap_or_default() {
            self.free.entry(place).or_default().insert(item);
        }
    }

    /// Returns the variables with the items of a step.
    pub(super) fn variables(&self, work: WorkId, plan: &Plan) -> Vec<(String, String)> {
        let mut variables: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (place, item) in self.taken.get(&work).into_iter().flatten() {
            let resource = &plan.resources[*place];
            let ResourceKind::Items { items, .. } = &resource.kind else { continue };
            let Some(variable) = resource.variable() else { continue };
            variables.entry(variable).or_default().push(&items[*item]);
        }
        variables.into_iter().map(|(name, items)| (name, items.join(","))).collect()
    }
}

/// Returns an amount of items, which is always whole, as a number.
fn whole(amount: Amount) -> u64 {
    amount.steps() / Amount::from(1).steps()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_steps_have_the_same_item() {
        let text = "[resource]\ngpu = { items = ['a', 'b', 'c'], env = 'GPU' }\n\
            \"a-b\" = { items = ['x'] }\n\
            [step.one]\nrun = 'true'\nuse = { gpu = 1 }\n\
            [step.two]\nrun = 'true'\nuse = { gpu = 2, \"a-b\" = 1 }";
        let workflow = windlass_workflow::parse("flow.toml", text).expect("nothing is wrong");
        let plan = workflow.bind([]).expect("it has no parameters");
        let mut items = Items::of(&plan);
        let [one, two] = [0, 1].map(WorkId::from_index);
        items.take(one, &plan, &plan.steps[0]);
        items.take(two, &plan, &plan.steps[1]);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(items.variables(one, &plan), [pair("GPU", "a")]);
        let both = [pair("GPU", "b,c"), pair("WINDLASS_RESOURCE_A_B", "x")];
        assert_eq!(items.variables(two, &plan), both);
        items.give_back(one);
        assert!(items.variables(one, &plan).is_empty());
        items.take(one, &plan, &plan.steps[0]);
        assert_eq!(items.variables(one, &plan), [pair("GPU", "a")]);
    }
}

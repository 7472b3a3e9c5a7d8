//! What the display knows about a run before it starts: steps, dependencies, resources and limits.

use std::collections::HashMap;

use windlass_server::{AttachedRun, Coordinator, StepStatus};
use windlass_workflow::{Plan, Step};

use super::board::Kind;
use crate::style::plain;

/// What the display knows about a run before it starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outline {
    /// The run's id.
    pub(crate) run: String,
    /// The name of the workflow.
    pub(crate) workflow: String,
    /// The steps, each after its dependencies.
    pub(crate) steps: Vec<StepOutline>,
    /// How many steps may run at once.
    pub(crate) slots: u64,
    /// What the steps share, apart from slots and rates.
    pub(crate) resources: Vec<ResourceOutline>,
}

/// What the display knows about a step before the run starts.
#[derive(Clone, Debug)]
pub(crate) struct StepOutline {
    /// Its name, as a key.
    pub(crate) name: String,
    /// Its name, for showing it.
    pub(crate) label: String,
    /// The indices of its dependencies.
    pub(crate) after: Vec<usize>,
    /// The amounts of resources that it uses, by index.
    pub(crate) uses: Vec<(usize, Quantity)>,
    /// Its state when this process starts to show the run.
    pub(crate) before: Before,
}

/// The state of a step when this process starts to show the run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    /// How it ended, if it has.
    pub(crate) ended: Option<Kind>,
    /// The number of attempts that had begun.
    pub(crate) attempts: u32,
}

/// A resource that steps share.
#[derive(Clone, Debug)]
pub(crate) struct ResourceOutline {
    pub(crate) label: String,
    pub(crate) limit: Quantity,
}

/// An amount, in units of 1/10 000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quantity(pub(crate) u64);

impl Outline {
    /// Returns the outline of a run that this process leads.
    pub(crate) fn of(coordinator: &Coordinator) -> Self {
        Self::new(coordinator.run_id(), coordinator.plan(), coordinator.statuses())
    }

    /// Returns the outline of a run that another process leads.
    pub(crate) fn of_attached(run: &AttachedRun) -> Self {
        Self::new(run.run_id(), run.plan(), run.statuses())
    }

    fn new(run: &str, plan: &Plan, statuses: Vec<StepStatus>) -> Self {
        let limits = plan.limits();
        let places: HashMap<_, _> = limits.iter().map(|(name, _)| name).zip(0..).collect();
        let resources = limits.iter().map(|(name, limit)| ResourceOutline {
            label: plain(name),
            limit: Quantity(limit.steps()),
        });
        let steps = plan.steps.iter().zip(statuses);
        Self {
            run: run.to_owned(),
            workflow: plan.name.clone(),
            steps: steps.map(|(step, status)| StepOutline::of(step, status, &places)).collect(),
            slots: slots(plan),
            resources: resources.collect(),
        }
    }
}

impl StepOutline {
    fn of(step: &Step, status: StepStatus, resources: &HashMap<&str, usize>) -> Self {
        let uses = step.needs.resources.iter().filter_map(|(name, amount)| {
            // A rate is not held.
            Some((*resources.get(name)?, Quantity(amount.steps())))
        });
        Self {
            name: step.name.clone(),
            label: plain(&step.name),
            after: step.after.iter().map(|edge| edge.step).collect(),
            uses: uses.collect(),
            before: Before {
                ended: Kind::of_end(status.state, status.skipped),
                attempts: status.attempts,
            },
        }
    }
}

fn slots(plan: &Plan) -> u64 {
    let cpus = || std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
    plan.concurrency.map_or_else(cpus, u64::from)
}

impl Quantity {
    /// Returns a whole amount.
    #[cfg(test)]
    pub(crate) fn whole(units: u64) -> Self {
        Self(units * UNIT)
    }

    /// Returns the text for users: `2`, `0.5`, `16G`.
    pub(crate) fn text(self) -> String {
        let (units, rest) = (self.0 / UNIT, self.0 % UNIT);
        if rest > 0 {
            let decimals = format!("{rest:04}");
            return format!("{units}.{}", decimals.trim_end_matches('0'));
        }
        let sizes = [(40, "T"), (30, "G"), (20, "M")];
        let size = sizes.into_iter().find(|(bits, _)| units >= 1 << bits);
        match size {
            // An amount in millions counts bytes.
            Some((bits, unit)) => {
                let tenths = units / ((1 << bits) / 10);
                let tenths =
                    if tenths % 10 == 0 { String::new() } else { format!(".{}", tenths % 10) };
                format!("{}{tenths}{unit}", units >> bits)
            }
            None => units.to_string(),
        }
    }
}

/// The units of a quantity of 1.
const UNIT: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_formatted_for_users() {
        let check = |quantity: Quantity, text: &str| assert_eq!(quantity.text(), text);
        check(Quantity(0), "0");
        check(Quantity::whole(2), "2");
        check(Quantity(5_000), "0.5");
        check(Quantity(10_025), "1.0025");
        check(Quantity::whole(999_999), "999999");
        check(Quantity::whole(16 << 30), "16G");
        check(Quantity::whole(3 << 29), "1.5G");
        check(Quantity::whole(512 << 20), "512M");
        check(Quantity(u64::MAX), "1844674407370955.1615");
    }
}

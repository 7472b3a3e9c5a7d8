//! What is known of a run before it goes on: its steps, what each follows and takes, and the limits.

use std::collections::HashMap;

use windlass_server::{AttachedRun, Coordinator, StepStatus};
use windlass_workflow::{Plan, Step};

use super::board::Kind;
use crate::style::plain;

/// A run as the display knows it beforehand.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outline {
    /// The run's id.
    pub(crate) run: String,
    /// What the workflow is called.
    pub(crate) workflow: String,
    /// The steps, each after those it follows.
    pub(crate) steps: Vec<StepOutline>,
    /// How many steps may run at once.
    pub(crate) slots: u64,
    /// What the steps share, apart from slots and rates.
    pub(crate) resources: Vec<ResourceOutline>,
}

/// A step as the display knows it beforehand.
#[derive(Clone, Debug)]
pub(crate) struct StepOutline {
    /// What it is called, for looking it up.
    pub(crate) name: String,
    /// The same, for showing it.
    pub(crate) label: String,
    /// The places of the steps that it follows.
    pub(crate) after: Vec<usize>,
    /// How much it takes of which resource, by their places.
    pub(crate) uses: Vec<(usize, Quantity)>,
    /// What is known of it before the run goes on.
    pub(crate) before: Before,
}

/// A step before the run goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Before {
    /// How it ended, if it has.
    pub(crate) ended: Option<Kind>,
    /// How many of its attempts had begun.
    pub(crate) attempts: u32,
}

/// Something that steps share.
#[derive(Clone, Debug)]
pub(crate) struct ResourceOutline {
    pub(crate) label: String,
    pub(crate) limit: Quantity,
}

/// How much of something, in steps of 1/10 000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Quantity(pub(crate) u64);

impl Outline {
    /// Returns what is known of a run that this process leads.
    pub(crate) fn of(coordinator: &Coordinator) -> Self {
        Self::new(coordinator.run_id(), coordinator.plan(), coordinator.statuses())
    }

    /// Returns what is known of a run that this process follows.
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
            // What is no limit is a rate, of which nothing is held.
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
    /// So many whole ones.
    #[cfg(test)]
    pub(crate) fn whole(units: u64) -> Self {
        Self(units * UNIT)
    }

    /// As people write it: `2`, `0.5`, `16G`.
    pub(crate) fn text(self) -> String {
        let (units, rest) = (self.0 / UNIT, self.0 % UNIT);
        if rest > 0 {
            let decimals = format!("{rest:04}");
            return format!("{units}.{}", decimals.trim_end_matches('0'));
        }
        let sizes = [(40, "T"), (30, "G"), (20, "M")];
        let size = sizes.into_iter().find(|(bits, _)| units >= 1 << bits);
        match size {
            // Whatever counts in millions counts bytes.
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

/// The steps of a quantity that make up one.
const UNIT: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_as_people_write_them() {
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

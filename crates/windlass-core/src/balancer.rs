//! Moves capacity between levels: limits of idle levels shrink and limits of busy levels grow, one
//! increment at a time between a minimum and a maximum.
//!
//! The balancer judges a level by the resources that it may change there. A level is busy if one of
//! them is used above the busy threshold or has refused a client, so that a limit of 0 can grow
//! again. A level is idle if all of them are used below the idle threshold and no client of it was
//! refused. A level whose clients an upper level refuses is starved, not idle.
//!
//! Has no clock: the driver calls [`Balancer::check`] at its interval.

use std::collections::BTreeSet;

use crate::capacity::Usage;
use crate::{Amount, CapacityTree, ClientId, LevelId, ResourceCost, Timestamp};

mod options;

pub use options::{BalancerChild, BalancerError, BalancerOptions};

/// Shrinks the limits of idle levels and grows those of busy ones.
///
/// ```
/// use windlass_core::{
///     BalancerChild, BalancerOptions, CapacityTree, Balancer, Place, ResourceCost,
///     Timestamp,
/// };
///
/// let gpus = |n: u32| ResourceCost::of([("gpu", n)]);
/// let mut tree = CapacityTree::new(&gpus(16)?);
/// let team_a = tree.add_level(CapacityTree::ROOT, &gpus(12)?);
/// let team_b = tree.add_level(CapacityTree::ROOT, &gpus(12)?);
/// let child = |level| Ok::<_, windlass_core::ResourceCostError>(BalancerChild {
///     level,
///     min: gpus(4)?,
///     max: gpus(15)?,
/// });
/// let options = BalancerOptions { increment: gpus(1)?, ..BalancerOptions::default() };
/// let mut balancer = Balancer::new(vec![child(team_a)?, child(team_b)?], options)?;
///
/// // Team a uses 11 of its 12, team b nothing.
/// let client = tree.add_client(team_a);
/// let eleven = tree.demand(team_a, &gpus(11)?)?;
/// tree.try_take(client, &eleven, Place::First, Timestamp::ZERO).expect("everything is free");
/// for second in 0..=5 {
///     balancer.check(&mut tree, Timestamp::from_millis(second * 1000));
/// }
/// assert_eq!(tree.limits(team_a), gpus(13)?, "busy for five seconds");
/// assert_eq!(tree.limits(team_b), gpus(11)?, "idle for five seconds");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Balancer {
    options: BalancerOptions,
    idle: Fraction,
    busy: Fraction,
    children: Vec<Child>,
    now: Timestamp,
}

#[derive(Clone, Debug)]
struct Child {
    level: LevelId,
    spans: Vec<Span>,
    load: Load,
    /// The refusals of the level's clients, by any level, as of the last check.
    refusals: u64,
    /// The refusals by the resources that may change at this level, as of the last check.
    refusals_here: u64,
}

/// The range in which a limit may move, and by how much per step.
#[derive(Clone, Debug)]
struct Span {
    name: String,
    min: Amount,
    max: Amount,
    increment: Amount,
}

/// What a level has been continuously, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Steady,
    Idle { since: Timestamp },
    Busy { since: Timestamp },
}

/// A fraction in units of 1/10 000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fraction(u64);

const ONE: u64 = 10_000;

impl Balancer {
    /// Creates a balancer for these levels.
    pub fn new(
        children: Vec<BalancerChild>,
        options: BalancerOptions,
    ) -> Result<Self, BalancerError> {
        let (idle, busy) = (options.idle_threshold, options.busy_threshold);
        let [idle_part, busy_part] = [Fraction::of(idle)?, Fraction::of(busy)?];
        if idle_part >= busy_part {
            return Err(BalancerError::Crossed { idle, busy });
        }
        if options.check_interval.is_zero() {
            return Err(BalancerError::ZeroInterval);
        }
        let children = children.into_iter().map(|child| Child::new(&child, &options.increment));
        let children = children.collect::<Result<Vec<_>, _>>()?;
        expect_known(&children, &options.increment)?;
        Ok(Self { options, idle: idle_part, busy: busy_part, children, now: Timestamp::ZERO })
    }

    /// Returns the settings.
    #[must_use]
    pub fn options(&self) -> &BalancerOptions {
        &self.options
    }

    /// Checks every level, and moves the limits of those that were idle or busy for long enough.
    /// Leaves resources alone that a level does not limit. Returns the clients to wake.
    pub fn check(&mut self, tree: &mut CapacityTree, now: Timestamp) -> Vec<ClientId> {
        self.now = self.now.max(now);
        let mut wakes = BTreeSet::new();
        for at in 0..self.children.len() {
            let load = self.observe(at, tree);
            let child = &mut self.children[at];
            child.load = load;
            let Some(change) = due(load, &self.options, self.now) else { continue };
            let limits = child.moved(tree, change);
            if !limits.is_empty() {
                child.load = child.load.from(self.now);
                wakes.extend(tree.set_limits(child.level, &limits));
            }
        }
        wakes.into_iter().collect()
    }

    /// Returns whether a level is idle or busy now, and since when.
    fn observe(&mut self, at: usize, tree: &CapacityTree) -> Load {
        let child = &mut self.children[at];
        let usages = child.usages(tree);
        let refusals_here = usages.iter().map(|usage| usage.refusals).sum();
        let refused_here = refusals_here != child.refusals_here;
        let (refusals, reservations) = tree.asked(child.level);
        let asked = refusals != child.refusals || reservations > 0;
        (child.refusals, child.refusals_here) = (refusals, refusals_here);

        let busy = |usage: &Usage| usage.short || self.busy.is_exceeded_by(usage);
        let idle = |usage: &Usage| self.idle.is_above(usage);
        let since = self.now;
        let seen = if refused_here || usages.iter().any(busy) {
            Load::Busy { since }
        } else if !asked && !usages.is_empty() && usages.iter().all(idle) {
            Load::Idle { since }
        } else {
            Load::Steady
        };
        let same = std::mem::discriminant(&seen) == std::mem::discriminant(&child.load);
        if same { child.load } else { seen }
    }
}

impl Child {
    fn new(child: &BalancerChild, increment: &ResourceCost) -> Result<Self, BalancerError> {
        let names: BTreeSet<_> = child.min.iter().chain(child.max.iter()).map(|(n, _)| n).collect();
        let spans = names.into_iter().map(|name| Span::new(child, name, increment));
        let spans = spans.collect::<Result<_, _>>()?;
        let level = child.level;
        Ok(Self { level, spans, load: Load::Steady, refusals: 0, refusals_here: 0 })
    }

    /// Returns the usage of each resource that may change at this level.
    fn usages(&self, tree: &CapacityTree) -> Vec<Usage> {
        self.spans.iter().filter_map(|span| tree.usage(self.level, &span.name)).collect()
    }

    /// Returns the limits that change in one step.
    fn moved(&self, tree: &CapacityTree, change: Change) -> ResourceCost {
        let limits = tree.limits(self.level);
        let moved = self.spans.iter().filter_map(|span| {
            let limit = limits.amount(&span.name)?;
            let next = span.after(limit, change);
            (next != limit).then(|| (span.name.clone(), next))
        });
        moved.collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Shrink,
    Grow,
}

impl Span {
    fn new(
        child: &BalancerChild,
        name: &str,
        increment: &ResourceCost,
    ) -> Result<Self, BalancerError> {
        let owned = || name.to_owned();
        let (Some(min), Some(max)) = (child.min.amount(name), child.max.amount(name)) else {
            return Err(BalancerError::OneSided { name: owned() });
        };
        if min > max {
            return Err(BalancerError::MinAboveMax { name: owned(), min, max });
        }
        let increment = increment.amount(name).unwrap_or(Amount::from(1));
        if increment == Amount::ZERO {
            return Err(BalancerError::ZeroIncrement { name: owned() });
        }
        Ok(Self { name: owned(), min, max, increment })
    }

    /// A limit outside the range is not pulled in; it only moves no further out.
    fn after(&self, limit: Amount, change: Change) -> Amount {
        let (steps, increment) = (limit.steps(), self.increment.steps());
        let moved = match change {
            Change::Shrink => steps.saturating_sub(increment).max(self.min.steps().min(steps)),
            Change::Grow => steps.saturating_add(increment).min(self.max.steps().max(steps)),
        };
        Amount::from_steps(moved)
    }
}

impl Load {
    /// Returns the same state, starting at `now`.
    fn from(self, now: Timestamp) -> Self {
        match self {
            Load::Steady => Load::Steady,
            Load::Idle { .. } => Load::Idle { since: now },
            Load::Busy { .. } => Load::Busy { since: now },
        }
    }
}

fn due(load: Load, options: &BalancerOptions, now: Timestamp) -> Option<Change> {
    let lasted = |since, threshold| now.since(since) >= threshold;
    match load {
        Load::Idle { since } if lasted(since, options.idle_time_threshold) => Some(Change::Shrink),
        Load::Busy { since } if lasted(since, options.busy_time_threshold) => Some(Change::Grow),
        _ => None,
    }
}

impl Fraction {
    fn of(threshold: f64) -> Result<Self, BalancerError> {
        let refuse = |source| BalancerError::Threshold { threshold, source };
        let part = Amount::try_from(threshold).map_err(|error| refuse(Some(error)))?;
        if part.steps() > ONE { Err(refuse(None)) } else { Ok(Self(part.steps())) }
    }

    fn is_exceeded_by(self, usage: &Usage) -> bool {
        usage.limit > 0 && scaled(usage.used, ONE) > scaled(usage.limit, self.0)
    }

    fn is_above(self, usage: &Usage) -> bool {
        if usage.limit == 0 {
            return self.0 > 0;
        }
        scaled(usage.used, ONE) < scaled(usage.limit, self.0)
    }
}

fn scaled(steps: u64, factor: u64) -> u128 {
    u128::from(steps) * u128::from(factor)
}

/// Refuses a level that is listed twice, and an increment that no child can use.
fn expect_known(children: &[Child], increment: &ResourceCost) -> Result<(), BalancerError> {
    let mut levels = BTreeSet::new();
    if let Some(child) = children.iter().find(|child| !levels.insert(child.level)) {
        return Err(BalancerError::Twice { level: child.level });
    }
    let known = |name| children.iter().flat_map(|child| &child.spans).any(|s| s.name == name);
    match increment.iter().find(|(name, _)| !known(*name)) {
        Some((name, _)) => Err(BalancerError::UnknownIncrement { name: name.to_owned() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;

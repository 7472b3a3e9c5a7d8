//! Why a capacity refuses: never enough or not now, and which level refuses.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use windlass_core::{
    Amount, CapacityTree, CostError, LevelId, NamedLevel, ReleaseError, Short, Shortage, Timestamp,
};

use super::level::Level;

/// Why nothing was acquired; nothing has changed.
///
/// ```
/// use windlass::{ResourceCapacity, ResourceCost};
///
/// let cluster = ResourceCapacity::new([("gpu", 8)]).named("cluster");
/// let team = cluster.child([("gpu", 4)]);
/// let _held = cluster.try_acquire([("gpu", 6)])?;
///
/// let refusal = team.try_acquire([("gpu", 3)]).unwrap_err();
/// assert_eq!(refusal.to_string(), "requires 3 of \"gpu\", but \"cluster\" has 2 free");
/// let refusal = team.try_acquire([("gpu", 5)]).unwrap_err();
/// assert_eq!(refusal.to_string(), "requires 5 of \"gpu\", but the limit is 4");
/// let refusal = team.try_acquire([("gpus", 1)]).unwrap_err();
/// assert_eq!(refusal.to_string(), "unknown resource \"gpus\"; did you mean \"gpu\"?");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TryAcquireError {
    /// The limits never allow it.
    #[error(transparent)]
    Impossible(#[from] ImpossibleCost),
    /// Too little is free now.
    #[error("{}", listed(shortfalls))]
    Short {
        /// The shortages, from this level upwards; never empty.
        shortfalls: Vec<Shortfall>,
    },
}

/// Why a cost can never be met, and by which level.
pub type ImpossibleCost = CostError<CapacityLevel>;

/// Why an estimate was not replaced; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReconcileError {
    /// The estimate is more than is held without a permit.
    #[error(transparent)]
    NotHeld(#[from] ReleaseError),
    /// No level declares what was used.
    #[error(transparent)]
    Impossible(#[from] ImpossibleCost),
}

/// One resource of which one level had too little.
///
/// ```
/// use windlass::ResourceCapacity;
/// use windlass::capacity::TryAcquireError;
///
/// let capacity = ResourceCapacity::new([("gpu", 4)]);
/// let _held = capacity.try_acquire([("gpu", 3)])?;
/// if let Err(TryAcquireError::Short { shortfalls }) = capacity.try_acquire([("gpu", 2)]) {
///     assert_eq!((&*shortfalls[0].name, shortfalls[0].level.above), ("gpu", 0));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortfall {
    /// The resource.
    pub name: String,
    /// How much was requested.
    pub wanted: Amount,
    /// The level that refused.
    pub level: CapacityLevel,
    /// Why there was too little.
    pub why: Short,
    /// The tree's time of the request.
    pub asked: Timestamp,
}

/// A level, relative to the one that received the request.
///
/// ```
/// use windlass::ResourceCapacity;
///
/// let cluster = ResourceCapacity::new([("gpu", 4)]).named("cluster");
/// let team = cluster.child([("gpu", 8)]);
/// let refused = team.validate_cost([("gpu", 6)]).unwrap_err();
/// assert_eq!(refused.to_string(), "requires 6 of \"gpu\", but the limit of \"cluster\" is 4");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CapacityLevel {
    /// How many levels it is above that one; 0 for itself.
    pub above: usize,
    /// Its name, if it has one.
    pub name: Option<Arc<str>>,
}

impl Level {
    pub(super) fn impossible(&self, tree: &CapacityTree, error: CostError) -> ImpossibleCost {
        error.map_level(|level| self.seen(tree, level))
    }

    pub(super) fn short(
        &self,
        tree: &CapacityTree,
        shortages: &[Shortage],
        asked: Timestamp,
    ) -> TryAcquireError {
        let shortfall = |short: &Shortage| Shortfall {
            name: tree.name(short.resource).to_owned(),
            wanted: short.wanted,
            level: self.seen(tree, short.level),
            why: short.why,
            asked,
        };
        TryAcquireError::Short { shortfalls: shortages.iter().map(shortfall).collect() }
    }

    fn seen(&self, tree: &CapacityTree, level: LevelId) -> CapacityLevel {
        let above = tree.levels_from(self.id).position(|known| known == level);
        CapacityLevel { above: above.unwrap_or_default(), name: self.shared.name_of(level) }
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, wanted, level, why, asked } = self;
        write!(f, "requires {wanted} of {name:?}, but {level} ")?;
        match *why {
            Short::Limit { free, reserved } => {
                let free = shown(free);
                write!(f, "has {free} free")?;
                if reserved > 0 {
                    write!(f, ", and {} is reserved for earlier waiters", shown(reserved))?;
                }
                Ok(())
            }
            Short::Rate { at: Timestamp::MAX } | Short::Quota { at: Timestamp::MAX } => {
                f.write_str("serves earlier waiters first")
            }
            Short::Rate { at } => write!(f, "has enough again in {:?}", at.since(*asked)),
            Short::Quota { at } => {
                write!(f, "has enough again in the window that begins in {:?}", at.since(*asked))
            }
            _ => f.write_str("has too little"),
        }
    }
}

impl fmt::Display for CapacityLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, self.above) {
            (Some(name), _) => write!(f, "{name:?}"),
            (None, 0) => f.write_str("this level"),
            (None, 1) => f.write_str("the level above"),
            (None, above) => write!(f, "the level {above} above"),
        }
    }
}

impl NamedLevel for CapacityLevel {
    /// The level that was asked is named only if it has a name of its own.
    fn of_name(&self) -> String {
        let is_named = self.above > 0 || self.name.is_some();
        if is_named { format!(" of {self}") } else { String::new() }
    }
}

/// Steps as an amount; nothing of a debt.
fn shown(steps: i128) -> Amount {
    Amount::from_steps(u64::try_from(steps.max(0)).unwrap_or(u64::MAX))
}

fn listed(shortfalls: &[Shortfall]) -> String {
    shortfalls.iter().map(Shortfall::to_string).collect::<Vec<_>>().join("; ")
}

//! Explains what workers lack for a shape. Read-only.

use std::collections::BTreeMap;
use std::fmt;

use super::choice::Asked;
use super::labels::Label;
use super::{Intake, Shape, Workers};
use crate::{Amount, some_of};

/// Workers that lack the same for a work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerKind {
    /// Their names, in order.
    pub workers: Vec<String>,
    /// What they lack: that of the one with the most room, if they are alike but for that.
    pub lacks: Vec<Lack>,
}

/// Something that a worker lacks for a work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Lack {
    /// It takes no works.
    Intake,
    /// It has another name.
    Name {
        /// The name that the work asks for.
        wanted: String,
    },
    /// It has not this label.
    Label {
        /// The key of the label.
        key: String,
        /// The value that the work asks for.
        wanted: String,
    },
    /// It has too little in all.
    Total {
        /// The name of the resource.
        resource: String,
        /// How much the work takes.
        wanted: Amount,
        /// How much the worker has.
        total: Amount,
    },
    /// Too much is in use, or reserved for earlier works.
    Free {
        /// The name of the resource.
        resource: String,
        /// How much the work takes.
        wanted: Amount,
        /// How much is not in use.
        free: Amount,
        /// How much of that is reserved for works before this one.
        reserved: Amount,
    },
}

impl Lack {
    /// Returns whether the worker can have it without being changed.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Free { .. })
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Intake => f.write_str("takes no new steps"),
            Self::Name { wanted } => write!(f, "is not {wanted}"),
            Self::Label { key, wanted } => write!(f, "has no label {key}={wanted}"),
            Self::Total { resource, wanted, total: Amount::ZERO } => {
                write!(f, "has no {resource} (the step takes {})", Size(*wanted))
            }
            Self::Total { resource, wanted, total } => {
                let (wanted, total) = (Size(*wanted), Size(*total));
                write!(f, "has {total} of {resource} (the step takes {wanted})")
            }
            Self::Free { resource, wanted, free, reserved } => {
                write!(f, "has {} of {resource} free", Size(*free))?;
                if *reserved > Amount::ZERO {
                    write!(f, ", {} reserved for an earlier step", Size(*reserved))?;
                }
                write!(f, " (the step takes {})", Size(*wanted))
            }
        }
    }
}

impl fmt::Display for WorkerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let workers = some_of(self.workers.iter().map(String::as_str), FEW);
        let lacks: Vec<_> = self.lacks.iter().map(Lack::to_string).collect();
        write!(f, "{workers} {}", lacks.join(" and "))
    }
}

/// How many workers of a kind are named.
const FEW: usize = 3;

/// An amount; a large whole number as a size.
struct Size(Amount);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0.steps() / Amount::ONE.steps();
        let is_whole = Amount::ONE.steps() * whole == self.0.steps();
        for (unit, bytes) in [("G", 1 << 30), ("M", 1 << 20)] {
            if is_whole && whole > 0 && whole.is_multiple_of(bytes) {
                return write!(f, "{}{unit}", whole / bytes);
            }
        }
        self.0.fmt(f)
    }
}

/// What tells a kind of worker from others.
type Key<'a> = (Vec<Lack>, Vec<i128>, Vec<&'a Label>);

impl Workers {
    /// Returns what each kind of worker lacks for a demand, the kind that lacks the least first; nothing if
    /// one has room for it.
    pub(crate) fn lacks(&self, asked: Asked<'_>) -> Vec<WorkerKind> {
        let mut kinds: BTreeMap<Key<'_>, WorkerKind> = BTreeMap::new();
        for (name, id) in &self.numbers {
            let index = id.index();
            if self.workers[index].intake.is_none() {
                continue;
            }
            let mut lacks = self.unchangeable(index, asked);
            let key = match lacks[..] {
                [] => (Vec::new(), self.rooms.total(index), self.pairs(index)),
                _ => (lacks.clone(), Vec::new(), Vec::new()),
            };
            if lacks.is_empty() {
                lacks = self.temporary(index, asked);
                if lacks.is_empty() {
                    return Vec::new();
                }
            }
            let kind = kinds.entry(key);
            let kind = kind.or_insert(WorkerKind { workers: Vec::new(), lacks: lacks.clone() });
            kind.workers.push(name.to_string());
            if missing(&lacks) < missing(&kind.lacks) {
                kind.lacks = lacks;
            }
        }
        let mut kinds: Vec<_> = kinds.into_values().collect();
        let lasting = |kind: &WorkerKind| kind.lacks.iter().filter(|l| !l.is_temporary()).count();
        kinds.sort_by_cached_key(|kind| (lasting(kind), missing(&kind.lacks), kind.lacks.clone()));
        kinds
    }

    /// Returns what each kind of worker lacks for a shape if no worker could ever take it; nothing else.
    pub(crate) fn never(&self, shape: &Shape) -> Vec<WorkerKind> {
        let asked = Asked { shape, before: 0, goes_on: true };
        let kinds = self.lacks(asked);
        let lasts = |kind: &WorkerKind| kind.lacks.iter().any(|lack| !lack.is_temporary());
        if kinds.iter().all(lasts) { kinds } else { Vec::new() }
    }

    fn unchangeable(&self, index: usize, asked: Asked<'_>) -> Vec<Lack> {
        let (worker, total) = (&self.workers[index], self.rooms.total(index));
        let is_closed = worker.intake == Some(Intake::Closed) && !asked.goes_on;
        let mut lacks: Vec<_> = is_closed.then_some(Lack::Intake).into_iter().collect();
        for label in &asked.shape.labels {
            if !worker.has_labels(&[*label]) {
                lacks.push(match self.labels.label(*label).clone() {
                    Label::Name(wanted) => Lack::Name { wanted },
                    Label::Pair(key, wanted) => Lack::Label { key, wanted },
                });
            }
        }
        for (column, steps) in asked.shape.wants().filter(|(column, steps)| *steps > total[*column])
        {
            let (resource, wanted) = (self.resources[column].to_string(), amount(steps));
            lacks.push(Lack::Total { resource, wanted, total: amount(total[column]) });
        }
        lacks
    }

    fn temporary(&self, index: usize, asked: Asked<'_>) -> Vec<Lack> {
        let free = self.rooms.free(index);
        let bound = self.workers[index].reserved.as_ref();
        let bound = bound.filter(|reserved| reserved.turn < asked.before);
        let reserved = |column| bound.map_or(0, |reserved| reserved.shape.amount(column));
        let short = asked.shape.wants();
        let short = short.filter(|(column, steps)| *steps > free[*column] - reserved(*column));
        let lack = |(column, steps): (usize, i128)| Lack::Free {
            resource: self.resources[column].to_string(),
            wanted: amount(steps),
            free: amount(free[column]),
            reserved: amount(reserved(column)),
        };
        short.map(lack).collect()
    }

    /// Returns the labels of a worker without its name.
    fn pairs(&self, index: usize) -> Vec<&Label> {
        let labels = self.workers[index].labels.iter().map(|label| self.labels.label(*label));
        labels.filter(|label| matches!(label, Label::Pair(..))).collect()
    }
}

/// Returns how much is missing in all.
fn missing(lacks: &[Lack]) -> u128 {
    let missing = lacks.iter().map(|lack| match lack {
        Lack::Free { wanted, free, reserved, .. } => {
            let free = free.steps().saturating_sub(reserved.steps());
            u128::from(wanted.steps().saturating_sub(free))
        }
        Lack::Total { wanted, total, .. } => {
            u128::from(wanted.steps().saturating_sub(total.steps()))
        }
        Lack::Intake | Lack::Name { .. } | Lack::Label { .. } => 0,
    });
    missing.sum()
}

fn amount(steps: i128) -> Amount {
    Amount::from_steps(u64::try_from(steps.max(0)).unwrap_or(u64::MAX))
}

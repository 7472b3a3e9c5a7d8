//! What is known of an engine at one moment: what stands for the facts before, once they are forgotten.

use std::time::Duration;

use crate::dag::{EdgeKind, EdgeOutcome};
use crate::phase::Phase;
use crate::{Timestamp, WorkId, WorkerId};

/// The state of an engine at one moment, without what its submissions say.
///
/// With the submissions of its works, it stands for all facts before: an engine that was
/// [restored](crate::Engine::restore) from it has the digest of the one it was taken from, and goes on like it.
///
/// ```
/// use windlass_core::*;
///
/// let mut capacity = CapacityTree::new(&ResourceCost::new());
/// let (client, other) = (capacity.add_client(CapacityTree::ROOT), capacity.add_client(CapacityTree::ROOT));
/// let mut engine = Engine::new(EngineConfig::default(), client);
/// let plain = Submission::of(engine.cost(&capacity, &ResourceCost::new())?);
/// let mut wakes = Vec::new();
/// let mut world = World {
///     now: Timestamp::ZERO,
///     capacity: &mut capacity,
///     facts: None,
///     transitions: None,
///     wakes: &mut wakes,
/// };
/// let first = engine.submit(&mut world, plain)?;
/// let second = engine.submit(&mut world, plain)?;
/// engine.apply(&mut world, Input::Cancel(first))?;
/// engine.apply(&mut world, Input::Forget(first))?;
///
/// let base = engine.base().expect("no work has children");
/// let mut restored = Engine::new(EngineConfig::default(), other);
/// restored.cost(world.capacity, &ResourceCost::new())?;
/// restored.stage(plain);
/// restored.restore(&mut world, &base);
/// assert_eq!(restored.digest(), engine.digest());
/// assert_eq!(restored.works().collect::<Vec<_>>(), [second]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineBase {
    /// The time that the engine has reached.
    pub now: Timestamp,
    /// How many works were ever submitted.
    pub submitted: u64,
    /// The next number in the queue.
    pub next_seq: u64,
    /// What users have paused.
    pub pauses: PausesBase,
    /// The works that are not forgotten, in the order of their ids.
    pub works: Vec<WorkBase>,
}

/// What facts have made of a work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkBase {
    /// The work.
    pub work: WorkId,
    /// Its phase, as a replay of the facts computes it.
    pub phase: Phase,
    /// How many attempts have begun.
    pub attempts: u32,
    /// How many retries are left.
    pub retries_left: u32,
    /// How many retries were used.
    pub retries_spent: u32,
    /// Its number in the queue.
    pub seq: u64,
    /// Since when it is in the queue.
    pub ready_since: Timestamp,
    /// Whether its gate has opened.
    pub gate_open: bool,
    /// Whether a work after whose failure it would be needed has succeeded.
    pub unneeded: bool,
    /// What it waits for.
    pub after: Vec<EdgeBase>,
    /// Its times, if it has some.
    pub times: Option<TimesBase>,
    /// The worker of its latest attempt.
    pub worker: Option<WorkerId>,
}

/// An edge into a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeBase {
    /// The work that it comes from.
    pub from: WorkId,
    /// The end of that work that counts.
    pub kind: EdgeKind,
    /// What has come of it, if that work is forgotten.
    pub outcome: Option<EdgeOutcome>,
}

/// The times of a work with a time limit or a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimesBase {
    /// What was left of the time limit when the attempt's clock last stopped.
    pub left: Duration,
    /// When the limit is reached, while the clock runs.
    pub expires: Option<Timestamp>,
    /// The deadline, unless it has passed or stands still.
    pub deadline: Option<Timestamp>,
    /// What is left until a deadline that stands still.
    pub deadline_left: Option<Duration>,
}

/// What users have paused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PausesBase {
    /// The works that were paused by themselves.
    pub works: Vec<WorkId>,
    /// Since when everything has been paused, if it is.
    pub since: Option<Timestamp>,
    /// How long everything was paused before.
    pub before: Duration,
}

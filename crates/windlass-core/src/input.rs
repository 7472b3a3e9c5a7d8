//! The inputs of an engine, its results, and its errors.

use std::time::Duration;

use thiserror::Error;

use crate::dag::EdgeKind;
use crate::retry::RetryPolicy;
use crate::{CostId, Timestamp, WorkId};

/// A work to submit.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// The dependencies: the works that have to end first, and how.
    pub after: &'a [Dependency],
    /// What the work takes while it runs, from [`Engine::cost`](crate::Engine::cost).
    pub cost: CostId,
    /// The priority; larger is more urgent.
    pub priority: i64,
    /// How many retries the work has.
    pub retries: u32,
    /// Settings that few works have.
    pub extras: Option<&'a Extras>,
}

/// Settings that few works have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The work with a running attempt whose child this work is.
    pub parent: Option<WorkId>,
    /// Whether the work also waits for a gate, see [`Input::Open`].
    pub gated: bool,
    /// The time limit of one attempt.
    pub timeout: Option<Duration>,
    /// The time by which the work must have ended.
    pub deadline: Option<Timestamp>,
    /// The delays before retries, if they differ from the configured ones.
    pub retry: Option<RetryPolicy>,
    /// A dependency to whose worker the work goes, if that has one.
    pub beside: Option<WorkId>,
}

impl Submission<'_> {
    /// Returns a submission without dependencies and without retries.
    #[must_use]
    pub fn of(cost: CostId) -> Self {
        Self { after: &[], cost, priority: 0, retries: 0, extras: None }
    }
}

/// A work that has to end before another may start. `W` is what the caller knows a work by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency<W = WorkId> {
    /// The work.
    pub work: W,
    /// The end of that work that counts.
    pub kind: EdgeKind,
}

impl<W> Dependency<W> {
    /// Requires that `work` ends, in any way.
    #[must_use]
    pub fn done(work: impl Into<W>) -> Self {
        Self { work: work.into(), kind: EdgeKind::Done }
    }

    /// Requires that `work` fails. If it succeeds, the dependent is skipped.
    #[must_use]
    pub fn failed(work: impl Into<W>) -> Self {
        Self { work: work.into(), kind: EdgeKind::Failed }
    }

    /// Returns the same dependency with another name for its work.
    pub fn map_work<V>(self, name: impl FnOnce(W) -> V) -> Dependency<V> {
        Dependency { work: name(self.work), kind: self.kind }
    }
}

impl<W> From<W> for Dependency<W> {
    /// Requires that `work` succeeds.
    fn from(work: W) -> Self {
        Self { work, kind: EdgeKind::Success }
    }
}

/// Permission to run one attempt of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub struct Grant {
    /// The work.
    pub work: WorkId,
    /// The number of the attempt, from 1.
    pub attempt: u32,
}

/// An attempt that the driver runs now, from [`Engine::begin_next`](crate::Engine::begin_next).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Begun {
    /// The attempt started.
    Started(Grant),
    /// The attempt was suspended and resumes.
    Resumed(Grant),
}

/// An input of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// The granted attempt begins.
    Begin(Grant),
    /// The granted attempt does not begin; the work keeps its place in the queue.
    HandBack(Grant),
    /// The granted attempt cannot begin, because something outside the engine refused it.
    Refuse(Grant),
    /// What refused this work outside the engine may be available now.
    Notify(WorkId),
    /// The gate of this work opened.
    Open(WorkId),
    /// The gate of this work will never open: the work fails.
    Reject(WorkId),
    /// The gate of this work, which waits for nothing else, reports that the work is not needed.
    Skip(WorkId),
    /// The attempt waits for an event outside the engine. It releases what it holds or, if it was
    /// queued to resume, leaves that queue.
    Suspend(Grant),
    /// The event for which the attempt waited has happened: the attempt is queued to resume.
    ResumeRequested(Grant),
    /// The body of the attempt returned; the attempt ends when its children have ended.
    Join(Grant),
    /// The caller asks the children of this work to stop.
    StopChildren(WorkId),
    /// A user retries an ended work, and with it every work that depends on it.
    Reopen(WorkId),
    /// An attempt ended.
    Finished {
        /// The attempt.
        grant: Grant,
        /// How the attempt ended.
        outcome: Outcome,
    },
    /// The caller cancels this work.
    Cancel(WorkId),
    /// The caller cancels every work.
    CancelAll,
    /// A user stops the attempt: it goes on holding its cost, and its time limit stands still.
    Halt(Grant),
    /// A user lets the stopped attempt continue.
    Continue(Grant),
    /// A user pauses this work: it starts no attempt. One that is under way continues.
    Pause(WorkId),
    /// A user lets this work continue.
    Unpause(WorkId),
    /// A user pauses everything: no work starts an attempt, and deadlines stand still.
    PauseAll,
    /// A user lets everything continue, except for works that were paused themselves.
    UnpauseAll,
    /// A user moves this work within the queue, in front of another one or to the end. Its priority goes
    /// first. Means nothing unless works are queued in the order of their submission
    /// ([`Precedence::Submitted`](crate::Precedence::Submitted)).
    Move {
        /// The work.
        work: WorkId,
        /// The work that follows it from now on; none for the end.
        before: Option<WorkId>,
    },
    /// The caller no longer needs this ended work.
    Forget(WorkId),
    /// The capacity may have room for what it refused: the engine retries the search.
    RetrySearch,
    /// Workers may have room for works that lacked it, see [`CapacityTree::pass_on`](crate::CapacityTree::pass_on):
    /// the next search tests these.
    RetryPlacement,
    /// Only time has passed.
    Tick,
}

/// The end of an attempt, as its runner reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The attempt succeeded.
    Success,
    /// The attempt failed, and there is no retry.
    Failed,
    /// The attempt failed and asks for a retry, after the configured delay if `delay` is zero.
    Retry {
        /// The delay before the next attempt.
        delay: Duration,
    },
    /// The attempt stopped without a result of its own.
    Cancelled,
    /// The runner was lost before the attempt ended.
    Interrupted,
}

/// Why a submission was refused; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SubmissionError {
    /// It waits for a work that this engine never gave out, or has forgotten.
    #[error("unknown dependency: work {work}")]
    UnknownDependency {
        /// The unknown work.
        work: WorkId,
    },
    /// It would be the child of a work that has no attempt under way, or whose family is ending.
    #[error(
        "work {parent} takes no more children: it has not begun, is stopping or has ended, or a \
         child of it has failed"
    )]
    NoParent {
        /// The work.
        parent: WorkId,
    },
    /// It would wait for a work that waits for it, because a parent ends after its children.
    #[error("a child of work {parent} cannot wait for what ends after it: {}", as_path(path))]
    Cycle {
        /// The parent.
        parent: WorkId,
        /// Who waits for whom, with the first work again at the end.
        path: Vec<WorkId>,
    },
}

/// A dependency that was not added; the engine is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddDependencyError {
    /// The engine never issued this id, or has forgotten the work.
    #[error("unknown work {work}")]
    UnknownWork {
        /// The unknown work.
        work: WorkId,
    },
    /// The dependent has begun an attempt or has ended.
    #[error("work {work} has begun or ended, so it cannot get another dependency")]
    Begun {
        /// The dependent.
        work: WorkId,
    },
    /// The works would wait for each other.
    #[error("dependency cycle: {}", as_path(path))]
    Cycle {
        /// The cycle, which ends with its first work.
        path: Vec<WorkId>,
    },
}

fn as_path(works: &[WorkId]) -> String {
    works.iter().map(WorkId::to_string).collect::<Vec<_>>().join(" -> ")
}

/// An input that was refused; the engine is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Rejected {
    /// The engine never issued this id, or has forgotten the work.
    #[error("unknown work {work}")]
    UnknownWork {
        /// The unknown work.
        work: WorkId,
    },
    /// The attempt is not under way, or the grant is no longer valid.
    #[error("attempt {attempt} of work {work} is not under way")]
    Stale {
        /// The work.
        work: WorkId,
        /// The attempt of the input.
        attempt: u32,
    },
    /// The work has ended already.
    #[error("work {work} has ended already")]
    Ended {
        /// The work.
        work: WorkId,
    },
    /// The work has not ended yet.
    #[error("work {work} has not ended yet")]
    NotEnded {
        /// The work.
        work: WorkId,
    },
    /// The work has begun, so what was submitted of it stays.
    #[error("work {work} has begun already")]
    Begun {
        /// The work.
        work: WorkId,
    },
    /// The attempt cannot end before its children.
    #[error("work {work} has children that have not ended")]
    ChildrenOpen {
        /// The work.
        work: WorkId,
    },
    /// The work does not wait for a gate.
    #[error("work {work} waits for no gate")]
    NotGated {
        /// The work.
        work: WorkId,
    },
    /// The work neither failed nor was cancelled, so a user cannot retry it.
    #[error("cannot retry work {work}: it neither failed nor was cancelled")]
    NotReopenable {
        /// The work.
        work: WorkId,
    },
    /// A work that would start again is under way or has a parent.
    #[error("cannot retry work {work}: it is under way or has a parent")]
    Entangled {
        /// That work.
        work: WorkId,
    },
    /// Works that would be retried together depend on each other: one of them was added after its
    /// dependency had ended.
    #[error("dependency cycle: {}", as_path(path))]
    Cycle {
        /// The cycle, which ends with its first work.
        path: Vec<WorkId>,
    },
    /// Nothing outside the engine has refused this work.
    #[error("work {work} was not refused outside the engine")]
    NotWaitingOutside {
        /// The work.
        work: WorkId,
    },
}

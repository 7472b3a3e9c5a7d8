//! What an engine is told, what it answers, and why it refuses.

use std::time::Duration;

use thiserror::Error;

use crate::dag::EdgeKind;
use crate::retry::RetryPolicy;
use crate::{CostId, Timestamp, WorkId};

/// What to submit.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    /// The works that have to end first, and how.
    pub after: &'a [Dependency],
    /// What it takes while it runs, from [`Engine::cost`](crate::Engine::cost).
    pub cost: CostId,
    /// Larger is more urgent.
    pub priority: i64,
    /// How often it may be tried again.
    pub retries: u32,
    /// What few works have.
    pub extras: Option<&'a Extras>,
}

/// What few submissions say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The work under way that it is a child of.
    pub parent: Option<WorkId>,
    /// Whether it also waits for a gate, see [`Input::Open`].
    pub gated: bool,
    /// How long one attempt may take.
    pub timeout: Option<Duration>,
    /// When it has to have ended.
    pub deadline: Option<Timestamp>,
    /// How long it waits before it is tried again; the configured delay unless said.
    pub retry: Option<RetryPolicy>,
}

impl Submission<'_> {
    /// A work that follows nothing and is tried once.
    #[must_use]
    pub fn of(cost: CostId) -> Self {
        Self { after: &[], cost, priority: 0, retries: 0, extras: None }
    }
}

/// A work that has to end before another may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The work.
    pub work: WorkId,
    /// The end that counts.
    pub kind: EdgeKind,
}

impl Dependency {
    /// The work has to end, however it ends.
    #[must_use]
    pub const fn done(work: WorkId) -> Self {
        Self { work, kind: EdgeKind::Done }
    }

    /// The work has to fail; if it succeeds, the one that waits is not needed.
    #[must_use]
    pub const fn failed(work: WorkId) -> Self {
        Self { work, kind: EdgeKind::Failed }
    }
}

impl From<WorkId> for Dependency {
    /// The work has to succeed.
    fn from(work: WorkId) -> Self {
        Self { work, kind: EdgeKind::Success }
    }
}

/// Permission to run one attempt of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Grant {
    /// The work.
    pub work: WorkId,
    /// The attempt, from 1.
    pub attempt: u32,
}

/// An attempt that may be under way now, from [`Engine::begin_next`](crate::Engine::begin_next).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Begun {
    /// It has begun.
    Started(Grant),
    /// It was suspended, and goes on.
    Resumed(Grant),
}

/// A piece of news for an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// The granted attempt begins.
    Begin(Grant),
    /// The granted attempt does not begin after all; the work keeps its place in the queue.
    HandBack(Grant),
    /// The granted attempt cannot begin: something outside the engine refused it.
    Refuse(Grant),
    /// What refused this work outside may be had now.
    Notify(WorkId),
    /// The gate of this work opened.
    Open(WorkId),
    /// The gate of this work will never open: it fails.
    Reject(WorkId),
    /// The gate of this work, which waits for nothing else, says that it is not needed.
    Skip(WorkId),
    /// The attempt waits for something outside, and gives back what it has until then; if it was in
    /// line to go on, its place there.
    Suspend(Grant),
    /// What the attempt waited for is there, and it wants to go on.
    ResumeRequested(Grant),
    /// The body has returned; the attempt ends when its children have.
    Join(Grant),
    /// The children of this work should stop.
    StopChildren(WorkId),
    /// A person wants an ended work tried again, and everything that follows it with it.
    Reopen(WorkId),
    /// An attempt ended.
    Finished {
        /// Which attempt.
        grant: Grant,
        /// How.
        outcome: Outcome,
    },
    /// Someone wants this work cancelled.
    Cancel(WorkId),
    /// Someone wants every work cancelled.
    CancelAll,
    /// An ended work is of no interest any more.
    Forget(WorkId),
    /// The capacity may have room for what it refused.
    RetrySearch,
    /// Nothing but time has passed.
    Tick,
}

/// How an attempt ended, as its runner reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Well.
    Success,
    /// Badly, and for good.
    Failed,
    /// Badly, and it asks for another attempt; after the configured delay if `delay` is zero.
    Retry {
        /// How long to wait first.
        delay: Duration,
    },
    /// It stopped without an end of its own.
    Cancelled,
    /// The runner was lost before the attempt ended.
    Interrupted,
}

/// Why a submission was refused; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// It waits for a work that this engine never gave out, or has forgotten.
    #[error("work {work} does not exist here, so nothing can wait for it")]
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

/// Why a dependency was not added; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DependencyError {
    /// This engine never gave out that id, or has forgotten it.
    #[error("work {work} does not exist here")]
    UnknownWork {
        /// The unknown work.
        work: WorkId,
    },
    /// The work that should wait has begun an attempt, or has ended.
    #[error("work {work} has begun or ended, so it cannot wait for anything new")]
    Begun {
        /// The work.
        work: WorkId,
    },
    /// The works would wait for each other.
    #[error("these works would wait for each other: {}", as_path(path))]
    Cycle {
        /// The cycle, with its first work again at its end.
        path: Vec<WorkId>,
    },
}

fn as_path(works: &[WorkId]) -> String {
    works.iter().map(WorkId::to_string).collect::<Vec<_>>().join(" -> ")
}

/// Why a piece of news was refused; nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Rejected {
    /// This engine never gave out that id, or has forgotten it.
    #[error("work {work} does not exist here")]
    UnknownWork {
        /// The unknown work.
        work: WorkId,
    },
    /// The news concerns an attempt that is not under way, or a grant that no longer stands.
    #[error("attempt {attempt} of work {work} is not under way")]
    Stale {
        /// The work.
        work: WorkId,
        /// The attempt that the news is about.
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
    /// Only what failed or was cancelled is tried again.
    #[error("work {work} has not failed and was not cancelled, so it is not tried again")]
    NotReopenable {
        /// The work.
        work: WorkId,
    },
    /// A work that would begin anew is under way, or belongs to a family.
    #[error("work {work} cannot begin anew: it is under way, or has a parent")]
    Entangled {
        /// That work.
        work: WorkId,
    },
    /// Works that would be tried again together follow each other: one of them was added when
    /// another, which it follows, had ended.
    #[error("these works would wait for each other: {}", as_path(path))]
    Cycle {
        /// The cycle, with its first work again at its end.
        path: Vec<WorkId>,
    },
    /// Nothing outside the engine has refused this work.
    #[error("work {work} waits for nothing outside")]
    NotWaitingOutside {
        /// The work.
        work: WorkId,
    },
}

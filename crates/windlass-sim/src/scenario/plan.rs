//! What a scenario says of each work, and of what is done from outside.

use std::time::Duration;

use windlass_core::{Amount, EdgeKind, ResourceCost, RetryPolicy, Timestamp};

/// Something done from outside. Works are named by their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Submit this work.
    Submit(usize),
    /// Cancel it.
    Cancel(usize),
    /// Forget it.
    Forget(usize),
    /// Open its gate.
    Open(usize),
    /// Say that its gate will never open.
    Reject(usize),
    /// Say that it is not needed.
    Skip(usize),
    /// End its wait before its time.
    Wake(usize),
    /// Have its children stop.
    StopChildren(usize),
    /// Have it tried again after its end.
    Reopen(usize),
    /// Have the first wait for the second.
    Depend(usize, usize, EdgeKind),
    /// Report the end of an attempt that is not under way.
    Late(usize, u32),
    /// What refused it outside may be had.
    Ring(usize),
    /// Set a limit.
    Limit(String, Amount),
    /// Set a limit of the engine's own level.
    Team(String, Amount),
}

/// One work of a scenario.
#[derive(Clone, Debug)]
pub struct WorkPlan {
    /// Its name.
    pub name: String,
    /// The places in `works` of those that must end first, and how.
    pub after: Vec<(usize, EdgeKind)>,
    /// What it takes besides a slot.
    pub needs: ResourceCost,
    /// Larger is more urgent.
    pub priority: i64,
    /// How often it may be tried again.
    pub retries: u32,
    /// How long it waits before that, unless the body says so.
    pub retry: Option<RetryPolicy>,
    /// How long one attempt may take. Its body is dropped then, without grace.
    pub timeout: Option<Duration>,
    /// When it has to have ended. Its body is dropped then, without grace.
    pub deadline: Option<Timestamp>,
    /// Whether it also waits for a gate.
    pub gated: bool,
    /// The place of the work whose attempt, under way at `from`, submits it as its child.
    pub parent: Option<usize>,
    /// When it is submitted.
    pub from: Timestamp,
    /// Until when something outside refuses it.
    pub outside: Timestamp,
    /// How many of its grants do not begin.
    pub handed_back: u32,
    /// How long the body of every attempt takes, without its wait. A body that is cancelled goes on
    /// to its end, except while it waits: then it returns at once. When it returns, it waits for its
    /// children.
    pub takes: Duration,
    /// How long after its start each attempt suspends itself, and until how long after its start.
    pub waits: Option<Wait>,
    /// How the attempts end; never empty, and the last holds for all further ones.
    pub ends: Vec<End>,
}

/// When an attempt is suspended, counted from its start. Then it takes the rest of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// From here.
    pub from: Duration,
    /// To here at the earliest: it also waits for its turn to go on.
    pub to: Duration,
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Well.
    Ok,
    /// Badly, for good.
    Fail,
    /// Badly, asking for another attempt after this long; zero is the driver's own delay.
    Retry(Duration),
    /// Not at all: its runner is lost.
    Lost,
    /// It stops without having been asked to.
    Stopped,
}

impl WorkPlan {
    /// How attempt number `attempt` ends.
    #[must_use]
    pub fn end(&self, attempt: u32) -> End {
        let place = (attempt as usize - 1).min(self.ends.len() - 1);
        self.ends[place]
    }
}

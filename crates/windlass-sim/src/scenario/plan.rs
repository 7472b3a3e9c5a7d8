//! The works of a scenario, and the actions of users and drivers.

use std::time::Duration;

use windlass_core::{Amount, EdgeKind, ResourceCost, RetryPolicy, Timestamp};

/// An action of a user or a driver. Works are named by their index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Submits the work.
    Submit(usize),
    /// Cancels the work.
    Cancel(usize),
    /// Forgets the work.
    Forget(usize),
    /// Opens its gate.
    Open(usize),
    /// Rejects it at its gate.
    Reject(usize),
    /// Skips it at its gate.
    Skip(usize),
    /// Ends the wait of its suspended attempt early.
    Wake(usize),
    /// Stops its children.
    StopChildren(usize),
    /// Reopens it after its end.
    Reopen(usize),
    /// Pauses it.
    Pause(usize),
    /// Lets it continue after a pause.
    Unpause(usize),
    /// Pauses everything.
    PauseAll,
    /// Lets everything continue.
    UnpauseAll,
    /// Adds a dependency of the first work on the second.
    Depend(usize, usize, EdgeKind),
    /// Reports the end of an attempt that is not under way.
    Late(usize, u32),
    /// Wakes a work that something outside has refused.
    Ring(usize),
    /// Sets a limit of the root.
    Limit(String, Amount),
    /// Sets a limit of the engine's own level.
    Team(String, Amount),
}

/// One work of a scenario.
#[derive(Clone, Debug)]
pub struct WorkPlan {
    /// The name, unique within the scenario.
    pub name: String,
    /// The indices of its dependencies, with their kinds.
    pub after: Vec<(usize, EdgeKind)>,
    /// What it needs besides a slot.
    pub needs: ResourceCost,
    /// Larger is more urgent.
    pub priority: i64,
    /// How often and after which delay it is retried.
    pub retry: Retries,
    /// How long one attempt may take. Then its body is dropped at once.
    pub timeout: Option<Duration>,
    /// When the work has to have ended. Then its body is dropped at once.
    pub deadline: Option<Timestamp>,
    /// Whether it also waits for a gate.
    pub gated: bool,
    /// The index of its parent, whose attempt under way at `from` submits it.
    pub parent: Option<usize>,
    /// When it is submitted.
    pub from: Timestamp,
    /// What the driver does with its grants.
    pub grants: Grants,
    /// What its attempts do.
    pub body: Body,
}

/// The retries of a work.
#[derive(Clone, Debug, Default)]
pub struct Retries {
    /// How often it may be retried.
    pub count: u32,
    /// The delay before a retry, unless the body gives one.
    pub policy: Option<RetryPolicy>,
}

/// What a driver does with the grants of a work before it begins one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grants {
    /// Until when something outside refuses the work.
    pub outside: Timestamp,
    /// How many of its grants the driver hands back.
    pub handed_back: u32,
}

/// What the attempts of a work do.
#[derive(Clone, Debug)]
pub struct Body {
    /// How long the body of each attempt runs, without its wait. A cancelled body runs to its end,
    /// unless it is suspended: then it returns at once. After that the attempt waits for its children.
    pub takes: Duration,
    /// When each attempt suspends itself, and when it asks to resume.
    pub waits: Option<Wait>,
    /// How the attempts end; never empty. The last one holds for all further attempts.
    pub ends: Vec<End>,
}

/// The wait of an attempt, counted from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// When it suspends itself.
    pub from: Duration,
    /// When it asks to resume; it resumes when its turn comes.
    pub to: Duration,
}

/// How an attempt ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It succeeds.
    Ok,
    /// It fails, and is not retried.
    Fail,
    /// It fails and asks for a retry after this delay; zero means the delay of the policy.
    Retry(Duration),
    /// Its runner is lost.
    Lost,
    /// It stops without having been cancelled.
    Stopped,
}

impl Body {
    /// Returns how attempt number `attempt` ends.
    #[must_use]
    pub fn end(&self, attempt: u32) -> End {
        let place = (attempt as usize - 1).min(self.ends.len() - 1);
        self.ends[place]
    }
}

//! Every reason for a wait, in words.

use std::fmt;

use windlass_core as core;
use windlass_core::{Amount, CapacityTree, Short, Shortage, Timestamp};

use crate::capacity::Client;
use crate::id::WorkId;
use crate::snapshot::in_words;
use crate::state::State;

/// How many reasons are shown in one line; the rest is counted.
const SHOWN: usize = 8;

/// Every reason why a work is not running: take them all away, and it starts.
///
/// ```
/// use windlass::{ResourceCost, WorkScheduler, work_fn};
///
/// let mut scheduler = WorkScheduler::builder().limits([("gpu", 1)]).build()?;
/// let fetch = scheduler.submit(work_fn("fetch", |_| async { Ok(()) }))?;
/// let train = scheduler.submit(work_fn("train", |_| async { Ok(()) }).after([fetch]))?;
/// let why = scheduler.explain(train).expect("it was submitted just now");
/// assert_eq!(why.to_string(), "it waits for \"fetch\"");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The reasons; empty if the work is running or has ended.
    pub reasons: Vec<Reason>,
    /// The same in words, one each.
    pub lines: Vec<String>,
}

impl Explanation {
    pub(crate) fn of(state: &State, client: &Client, id: core::WorkId) -> Option<Self> {
        state.engine.phase(id)?;
        let now = client.capacity.now();
        let tree = client.capacity.lock();
        let reasons = state.engine.explain(&tree, id);
        let refused = reasons.iter().any(|reason| matches!(reason, core::Reason::Short { .. }));
        let words = Words { state, tree: &tree, now, refused };
        let lines = reasons.iter().map(|reason| words.reason(reason)).collect();
        let named = |reason: core::Reason| reason.map_works(|work| state.issuer.id(work));
        Some(Self { reasons: reasons.into_iter().map(named).collect(), lines })
    }
}

impl fmt::Display for Explanation {
    /// Writes the first reasons in one line, and how many more there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shown, rest) = self.lines.split_at(self.lines.len().min(SHOWN));
        match (shown, rest.len()) {
            ([], _) => f.write_str("it does not wait"),
            (shown, 0) => f.write_str(&shown.join("; ")),
            (shown, more) => write!(f, "{}; and {more} more", shown.join("; ")),
        }
    }
}

/// One reason why a work does not start. Once all its reasons are gone, it starts.
pub type Reason = core::Reason<WorkId>;

struct Words<'a> {
    state: &'a State,
    tree: &'a CapacityTree,
    now: Timestamp,
    /// Whether something refuses the work.
    refused: bool,
}

impl Words<'_> {
    fn reason(&self, reason: &core::Reason) -> String {
        use core::Reason;
        match reason {
            Reason::Dependency(dependency) => {
                let end = match dependency.kind {
                    core::EdgeKind::Success => "",
                    core::EdgeKind::Done => " to end",
                    core::EdgeKind::Failed => " to fail",
                };
                format!("it waits for {}{end}", self.name(dependency.work))
            }
            Reason::Gate => "its gate has not opened".to_owned(),
            Reason::Paused => "it is paused".to_owned(),
            Reason::AllPaused => "everything is paused".to_owned(),
            Reason::Retry { at } => format!("its next attempt is due in {}", self.until(*at)),
            Reason::Outside => "something outside refused it".to_owned(),
            Reason::Short { shortage, holders, reserved_for } => {
                self.short(shortage, holders, *reserved_for)
            }
            Reason::Queued { ahead: 0, .. } if self.refused => {
                "it is first in the queue".to_owned()
            }
            Reason::Queued { ahead: 0, .. } if self.state.runners.is_running() => {
                "it is ready and waits for a free runner: every thread polls a body".to_owned()
            }
            Reason::Queued { ahead: 0, .. } => {
                "it is ready, but the scheduler does not run".to_owned()
            }
            Reason::Queued { ahead, first } => {
                format!("{ahead} ahead of it in the queue, first {}", self.name(*first))
            }
            Reason::Suspended => "it is suspended and holds no slot".to_owned(),
            Reason::Children { open: 1 } => "one of its children has not ended".to_owned(),
            Reason::Children { open } => format!("{open} of its children have not ended"),
            Reason::Granted => "it is granted and about to start".to_owned(),
            other => format!("{other:?}"),
        }
    }

    fn short(
        &self,
        shortage: &Shortage,
        holders: &[core::WorkId],
        reserved_for: Option<core::WorkId>,
    ) -> String {
        let (name, wanted) = (self.tree.name(shortage.resource), shortage.wanted);
        let most = self.tree.most(shortage.level, shortage.resource);
        if let Some(limit) = most.filter(|most| *most < wanted) {
            return format!("it needs {wanted} of {name:?}, but the limit is {limit} now");
        }
        let mut text = match shortage.why {
            Short::Limit { free, reserved } => {
                let free = Amount::from_steps(u64::try_from((free - reserved).max(0)).unwrap_or(0));
                format!("it needs {wanted} of {name:?}, and {free} is free for it")
            }
            Short::Rate { at } | Short::Quota { at } => {
                format!("it needs {wanted} of {name:?}, available in {}", self.until(at))
            }
            other => format!("it needs {wanted} of {name:?}: {other:?}"),
        };
        if !holders.is_empty() {
            text += &format!(", held by {}", self.names(holders));
        }
        if let Some(owner) = reserved_for {
            text += &format!(", some of it is reserved for {}", self.name(owner));
        }
        text
    }

    fn until(&self, at: Timestamp) -> String {
        match at {
            Timestamp::MAX => "a while, after the works ahead of it".to_owned(),
            at => in_words(at.since(self.now)),
        }
    }

    fn name(&self, work: core::WorkId) -> String {
        let entry = self.state.entry(work);
        entry.map_or_else(|| format!("work {work}"), |entry| format!("{:?}", entry.name))
    }

    /// Returns a few names, and how many more there are.
    fn names(&self, works: &[core::WorkId]) -> String {
        const SHOWN: usize = 4;
        let names: Vec<_> = works.iter().take(SHOWN).map(|work| self.name(*work)).collect();
        match works.len().saturating_sub(SHOWN) {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        }
    }
}

//! What the store keeps of a run as a whole: how it was submitted and how it ended.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::process::{host_name, machine_id};

/// A run as the user submitted it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunRecord {
    /// The id of the run.
    pub id: String,
    /// The name of the workflow.
    pub workflow: String,
    /// The workflow file, for display.
    pub file: String,
    /// The text of the workflow.
    pub text: String,
    /// The directory in which the steps run.
    pub dir: PathBuf,
    /// The values given to parameters.
    pub params: BTreeMap<String, String>,
    /// The steps to run, with those they follow; all steps if empty.
    pub steps: Vec<String>,
    /// How many steps may run at once; overrides the file.
    pub jobs: Option<u32>,
    /// How urgent the run is; overrides the file.
    pub priority: Option<i16>,
    /// The user who submitted the run; none if an older version stored it.
    pub uid: Option<u32>,
    /// The environment that a run takes along to a service; none for a run that the process of the user
    /// leads.
    pub env: Option<BTreeMap<String, String>>,
}

/// The machine that leads a run in the foreground, in a store that several machines use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HomeMachine {
    /// What tells it apart from others.
    pub id: String,
    /// Its name, for display.
    pub host: String,
}

impl HomeMachine {
    /// Returns this machine.
    #[must_use]
    pub fn this() -> Self {
        Self { id: machine_id(), host: host_name() }
    }
}

/// The row of a run in a list of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunListing {
    /// The id of the run.
    pub id: String,
    /// The name of the workflow.
    pub workflow: String,
    /// The workflow file.
    pub file: String,
    /// When the run was submitted, in milliseconds since the Unix epoch.
    pub created_ms: i64,
    /// The end of the run; none while it has not ended.
    pub end: Option<RunEnd>,
    /// The user who submitted the run; none if an older version stored it.
    pub uid: Option<u32>,
}

/// When and how a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The time of the end, in milliseconds since the Unix epoch.
    pub at_ms: i64,
    /// The result of the run.
    pub outcome: RunOutcome,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunOutcome {
    /// Every step succeeded or was skipped.
    Succeeded,
    /// A step failed or was blocked.
    Failed,
    /// The deadline of the run passed before every step had succeeded.
    TooLate,
    /// A user cancelled the run.
    Cancelled,
}

impl RunOutcome {
    /// All outcomes.
    pub const ALL: &'static [Self] =
        &[Self::Succeeded, Self::Failed, Self::TooLate, Self::Cancelled];

    /// Returns the word that is shown to users and stored.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RunOutcome::Succeeded => "succeeded",
            RunOutcome::Failed => "failed",
            RunOutcome::TooLate => "too late",
            RunOutcome::Cancelled => "cancelled",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|outcome| outcome.word() == word)
    }
}

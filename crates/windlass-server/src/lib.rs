//! Runs workflows durably, commands under host-wide locks and semaphores, and guards.
//!
//! A [`Coordinator`] takes everything that has happened, applies all of it to the engine, appends
//! all facts in one transaction, and only then acts. Names that steps share with the rest of the
//! machine are taken in the same commit as the start that needs them. No policy lives here: what
//! starts when is decided by the engine, which holder gets a name by core's lock.
//!
//! ```
//! use windlass_server::{Coordinator, End, RunRecord, RunView, Store};
//!
//! let dir = tempfile::tempdir()?;
//! let text = "[step.one]\nrun = 'echo 1 > one'\n[step.two]\nafter = ['one']\nrun = 'test -s one'\n";
//! let run = RunRecord { text: text.into(), dir: dir.path().into(), ..Default::default() };
//!
//! let state = dir.path().join("state");
//! let coordinator = Coordinator::submit(Store::open(&state)?, run)?;
//! let id = coordinator.run_id().to_owned();
//! // Updates are reported under way; a kill in between loses nothing: `Coordinator::resume`.
//! let end = coordinator.lead(|_update| ())?;
//! assert_eq!(end, End::Succeeded);
//!
//! let view = RunView::find(&mut Store::open(&state)?, &id)?;
//! assert_eq!(view.done(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | for | look at |
//! |---|---|
//! | running a workflow, resuming it, trying again, cancelling | [`Coordinator`], [`Ask`] |
//! | a command under locks or semaphores | [`hold()`], [`Hold`] |
//! | a guard by itself, and the decision of a user | [`Watch`], [`check`], [`decide`] |
//! | showing runs | [`RunView`], [`open_runs`], [`history`], [`CriticalPath`] |
//! | why a step waits | [`Explanation`] |
//! | deleting old runs | [`prune`] |
//!
//! The command `windlass` is this crate with arguments and a display; most programs want that, or the
//! library `windlass`, and not this one. It needs Linux: processes are found in `/proc`.

mod attempt;
mod channel;
mod clock;
mod command;
mod coordinator;
mod doctor;
mod ended;
mod events;
#[cfg(windlass_faults)]
pub mod fault;
mod fence;
mod files;
mod guard;
mod heartbeat;
mod hold;
mod inherited;
mod launch;
mod leader_file;
mod limit_tag;
mod lock_client;
mod log_file;
mod log_pipe;
mod log_pipes;
mod logs;
mod look;
mod nesting;
mod orphans;
mod outputs;
mod own_logs;
mod participant;
mod poll;
mod primitive;
mod proc_fs;
mod process_tag;
mod processes;
pub mod queue;
mod reaper;
mod schedule;
mod search;
pub mod service;
mod signals;
mod size;
mod spawn;
mod tree;
mod users;

pub use coordinator::{
    Ask, AttachedRun, Change, Coordinator, End, FollowEnd, FoundRun, Pause, RunError, StepStatus,
    Update, ask, ask_to_pause, ask_to_retry,
};
pub use doctor::{Diagnosis, Finding, Note, diagnose};
pub use ended::{Ended, Exit, Usage};
pub use events::{EventError, EventReader, emit};
pub use guard::{
    Broken, Check, CheckResult, DecidedBefore, GuardEnd, GuardError, GuardNews, GuardPoll, NotYet,
    PollStep, UsedUp, Verdict, Watch, check, decide, waiting_guards, watch,
};
pub use heartbeat::Lost;
pub use hold::{Hold, HoldError, hold};
pub use inherited::Inherited;
pub use lock_client::{other_users_leftover, waits_for_its_own};
pub use log_file::{log_length, open_log, open_log_file};
pub use logs::{Tail, tail};
pub use look::{
    AttemptView, Cause, CriticalPath, Decided, Estimate, Expectations, Expected, Explanation,
    GuardDecision, HolderLabel, HolderNames, HolderView, Listed, LogCursor, LookError, Orphan,
    PruneError, Pruned, PrunedRun, Pruning, RunLogs, RunState, RunView, ShownLogs, Skipped,
    StepExplanation, StepState, StepView, WaitReason, command_line, decide_steps, find_run,
    history, open_runs, other_host, prune, run_names, step_argument,
};
pub use nesting::{calling_run, is_started_by};
pub use own_logs::OwnLogs;
pub use primitive::{Acquire, acquire, check as check_token, heartbeat, release};
pub use signals::is_heeded;
pub use size::fits;
pub use users::user_name;

pub use windlass_core::{
    Amount, Answer, EdgeKind, Hold as NameHold, HolderId, Lack, LeaseTerms, Name, Need, Presence,
    Taken, Timestamp, Token, Unprintable, WorkState, WorkerKind, is_unprintable, nearest, some_of,
};
pub use windlass_store::{
    Access, AttemptEnd, Blocker, CheckedRights, Event, HoldState, Leftover, LimitError, LimitItems,
    LimitKind, NameView, Network, Process, Refused, Rights, RunEnd, RunListing, RunOutcome,
    RunRecord, Store, StoreError, StoreOpener, StoredLease, StoredWaiter, check_limit_name,
    check_name, check_rights, grant, is_database, without_password,
};

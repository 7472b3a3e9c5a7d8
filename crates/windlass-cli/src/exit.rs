//! The exit codes of the command.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use windlass_server::queue::QueueError;
use windlass_server::service::{AskWorkerError, WorkerError};
use windlass_server::{
    EventError, GuardError, HoldError, LookError, Lost, PruneError, RunError, RunOutcome,
    StoreError,
};
use windlass_workflow::{ParamErrors, ParseErrors};

use crate::approve::{NotAtGuard, NotWaiting, Otherwise};
use crate::guard::LoneGuardError;
use crate::init::InitError;
use crate::man::ManError;
use crate::messages::printable;
use crate::queue::{NothingToEdit, OtherQueue, SetAndCleared, UsedTwice};
use crate::reach::TooFar;
use crate::run::StillRunning;
use crate::show::PictureError;
use crate::state::{GroupOfDatabase, PasswordShown};
use crate::store::{GroupError, NotInDatabase};
use crate::workflow_file::{DirError, FileError};

/// The exit of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything succeeded.
    Success,
    /// A step failed or was blocked.
    Failed,
    /// Bad usage or a bad file; nothing ran.
    Usage,
    /// Cancelled by request.
    Cancelled,
    /// The store cannot be used.
    Unavailable,
    /// A bug in windlass.
    Bug,
    /// A lock was not acquired in time.
    NotAcquired,
    /// A timeout or `--max-hold` was exceeded.
    TimedOut,
    /// Ended by a signal.
    Signal(i32),
    /// The exit code of the wrapped command.
    Command(i32),
}

impl From<RunOutcome> for Exit {
    fn from(outcome: RunOutcome) -> Self {
        match outcome {
            RunOutcome::Succeeded => Exit::Success,
            RunOutcome::TooLate => Exit::TimedOut,
            RunOutcome::Cancelled => Exit::Cancelled,
            _ => Exit::Failed,
        }
    }
}

impl Exit {
    /// Prints an error, and returns the exit that follows.
    pub(crate) fn report(failure: &(dyn Error + 'static)) -> Self {
        // The exit code counts even if the caller has closed the stream.
        let _ = writeln!(io::stderr(), "windlass: {}", printable(&failure.to_string()));
        Exit::from(failure)
    }

    /// Returns the exit code, as listed in `docs/command.md`.
    pub(crate) fn code(self) -> u8 {
        let code = match self {
            Exit::Success => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Cancelled => 3,
            Exit::Unavailable => 69,
            Exit::Bug => 70,
            Exit::NotAcquired => 75,
            Exit::TimedOut => 124,
            Exit::Signal(signal) => 128 + signal,
            Exit::Command(code) => code,
        };
        u8::try_from(code).unwrap_or(u8::MAX)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

impl From<&(dyn Error + 'static)> for Exit {
    fn from(failure: &(dyn Error + 'static)) -> Self {
        if let Some(failure) = failure.downcast_ref::<HoldError>() {
            return of_hold(failure);
        }
        if let Some(failure) = failure.downcast_ref::<StoreError>() {
            return of_store(failure);
        }
        match failure.downcast_ref::<EventError>() {
            Some(EventError::Store(store)) => return of_store(store),
            Some(EventError::Interrupted { signal }) => return Exit::Signal(*signal),
            Some(EventError::Io(_)) => return Exit::Unavailable,
            Some(_) => return Exit::Usage,
            None => {}
        }
        match failure.downcast_ref::<GuardError>() {
            Some(GuardError::Store(store)) => return of_store(store),
            Some(GuardError::Interrupted { signal }) => return Exit::Signal(*signal),
            Some(GuardError::Pattern(_)) => return Exit::Usage,
            Some(_) => return Exit::Unavailable,
            None => {}
        }
        match failure.downcast_ref::<WorkerError>() {
            Some(WorkerError::Store(store)) => return of_store(store),
            Some(WorkerError::Name { .. }) => return Exit::Usage,
            Some(WorkerError::Running { .. }) => return Exit::NotAcquired,
            Some(_) => return Exit::Unavailable,
            None => {}
        }
        match failure.downcast_ref::<RunError>() {
            Some(RunError::Store(store)) => return of_store(store),
            Some(RunError::Io { .. }) => return Exit::Unavailable,
            Some(RunError::Look(look)) if !look.is_usage() => return Exit::Unavailable,
            Some(_) => return Exit::Usage,
            None => {}
        }
        match failure.downcast_ref::<LookError>() {
            Some(look) if look.is_usage() => return Exit::Usage,
            Some(_) => return Exit::Unavailable,
            None => {}
        }
        match failure.downcast_ref::<AskWorkerError>() {
            None => {}
            Some(AskWorkerError::Store(store)) => return of_store(store),
            Some(_) => return Exit::Usage,
        }
        if let Some(queue) = failure.downcast_ref::<QueueError>() {
            return if queue.is_usage() { Exit::Usage } else { Exit::Unavailable };
        }
        if let Some(PruneError::Look(look)) = failure.downcast_ref::<PruneError>() {
            return if look.is_usage() { Exit::Usage } else { Exit::Unavailable };
        }
        if is_usage(failure) { Exit::Usage } else { Exit::Unavailable }
    }
}

/// Returns whether another store may have what this one has not.
pub(crate) fn depends_on_store(failure: &(dyn Error + 'static)) -> bool {
    let in_store = |store: &StoreError| {
        let claimed = matches!(store, StoreError::Claim(_));
        claimed || matches!(store, StoreError::UnknownRun { .. } | StoreError::AmbiguousRun { .. })
    };
    let looked = |look: &LookError| match look {
        LookError::Store(store) => in_store(store),
        LookError::UnknownRun { .. } | LookError::UnknownWorkflow { .. } => true,
        LookError::AmbiguousRun { .. } | LookError::NoRuns => true,
        _ => false,
    };
    failure.downcast_ref::<LookError>().is_some_and(looked)
        || failure.is::<NotWaiting>()
        || failure.downcast_ref::<StoreError>().is_some_and(in_store)
        || matches!(failure.downcast_ref(), Some(HoldError::Store(store)) if in_store(store))
        || matches!(failure.downcast_ref(), Some(RunError::Store(store)) if in_store(store))
}

/// Returns whether the command line is at fault.
fn is_usage(failure: &(dyn Error + 'static)) -> bool {
    failure.is::<ParseErrors>()
        || failure.is::<ParamErrors>()
        || failure.is::<FileError>()
        || failure.is::<InitError>()
        || failure.is::<LoneGuardError>()
        || failure.is::<NotAtGuard>()
        || failure.is::<Otherwise>()
        || failure.is::<NotWaiting>()
        || failure.is::<ManError>()
        || failure.is::<PictureError>()
        || failure.is::<StillRunning>()
        || failure.is::<DirError>()
        || failure.is::<GroupError>()
        || failure.is::<NotInDatabase>()
        || failure.is::<OtherQueue>()
        || failure.is::<UsedTwice>()
        || failure.is::<NothingToEdit>()
        || failure.is::<SetAndCleared>()
        || failure.is::<GroupOfDatabase>()
        || failure.is::<PasswordShown>()
        || failure.is::<TooFar>()
}

fn of_store(failure: &StoreError) -> Exit {
    if failure.is_usage() { Exit::Usage } else { Exit::Unavailable }
}

fn of_hold(failure: &HoldError) -> Exit {
    match failure {
        HoldError::NotAcquired { .. } => Exit::NotAcquired,
        HoldError::Lost { why: Lost::Overheld, .. } => Exit::TimedOut,
        HoldError::Lost { .. } => Exit::NotAcquired,
        HoldError::Interrupted { signal } => Exit::Signal(*signal),
        HoldError::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            Exit::Command(127)
        }
        HoldError::Start { .. } => Exit::Command(126),
        HoldError::NoProcess { .. } => Exit::Usage,
        HoldError::Store(store) => of_store(store),
        _ => Exit::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first column of the table of exit codes.
    fn documented() -> Vec<u8> {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command.md");
        let page = std::fs::read_to_string(page).expect("the page is there");
        let (_, table) = page.split_once("| code | meaning |").expect("it has a table");
        let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
        let codes = rows.flat_map(|row| row.split('|').nth(1).expect("a cell").split(','));
        codes.map(|code| code.trim().parse().expect("a number")).collect()
    }

    #[test]
    fn the_docs_list_every_code_and_no_other() {
        let mut codes: Vec<_> = [
            Exit::Success,
            Exit::Failed,
            Exit::Usage,
            Exit::Cancelled,
            Exit::Unavailable,
            Exit::Bug,
            Exit::NotAcquired,
            Exit::TimedOut,
        ]
        .map(Exit::code)
        .into();
        codes.extend([126, 127].map(|code| Exit::Command(code).code()));
        codes.extend([1, 2, 3, 15].map(|signal| Exit::Signal(signal).code()));
        assert_eq!(documented(), codes);
    }

    #[test]
    fn codes_that_no_process_can_end_with_are_the_last_one() {
        for code in [-1, 256, i32::MAX] {
            assert_eq!(Exit::Command(code).code(), u8::MAX);
        }
    }
}

//! How the command ends: the exit codes that scripts rely on.

use std::error::Error;
use std::process::ExitCode;

use windlass_server::{HoldError, RunError, StoreError, Unsupported};
use windlass_workflow::{Mistakes, ParamErrors};

use crate::init::InitError;
use crate::workflow_file::FileError;

/// How the command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything succeeded.
    Success,
    /// A step failed or was blocked.
    Failed,
    /// Bad usage or a bad file; nothing ran.
    Usage,
    /// The store cannot be used.
    Unavailable,
    /// A lock was not had in time.
    NotHad,
    /// Ended by a signal.
    Signal(i32),
    /// The wrapped command's own code.
    Command(i32),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        let code = match exit {
            Exit::Success => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Unavailable => 69,
            Exit::NotHad => 75,
            Exit::Signal(signal) => 128 + signal,
            Exit::Command(code) => code,
        };
        ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
    }
}

impl From<&(dyn Error + 'static)> for Exit {
    fn from(failure: &(dyn Error + 'static)) -> Self {
        if let Some(failure) = failure.downcast_ref::<HoldError>() {
            return of_hold(failure);
        }
        let store = match failure.downcast_ref::<RunError>() {
            Some(RunError::Store(store)) => Some(store),
            Some(
                RunError::Led { .. }
                | RunError::Mistakes(_)
                | RunError::Params(_)
                | RunError::Unsupported(_),
            ) => return Exit::Usage,
            _ => failure.downcast_ref::<StoreError>(),
        };
        match store {
            Some(StoreError::UnknownRun { .. }) => Exit::Usage,
            _ if failure.is::<Mistakes>() || failure.is::<ParamErrors>() => Exit::Usage,
            _ if failure.is::<Unsupported>() => Exit::Usage,
            _ if failure.is::<FileError>() || failure.is::<InitError>() => Exit::Usage,
            _ => Exit::Unavailable,
        }
    }
}

fn of_hold(failure: &HoldError) -> Exit {
    match failure {
        HoldError::NotHad { .. } => Exit::NotHad,
        HoldError::Interrupted { signal } => Exit::Signal(*signal),
        HoldError::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
            Exit::Command(127)
        }
        HoldError::Start { .. } => Exit::Command(126),
        _ => Exit::Unavailable,
    }
}

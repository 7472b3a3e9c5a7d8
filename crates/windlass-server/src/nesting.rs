//! Runs that a step of another run has started, in the same store.
//!
//! People who say `last` mean the newest run that they have started themselves, so a nested run has a file
//! beside its logs that names the run it belongs to.

use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::iter;
use std::path::Path;

use windlass_store::{Access, Store, StoreError, Transaction};

use crate::attempt::{RUN_VARIABLE, run_dir};

/// The file that names the run that a nested one belongs to.
const PARENT: &str = "parent";
/// How deep runs are nested at most.
const DEEPEST: usize = 100;

/// Returns the run of which this process is a part, as its environment says.
#[must_use]
pub fn calling_run() -> Option<String> {
    env::var(RUN_VARIABLE).ok().filter(|run| !run.is_empty())
}

/// Returns the run of which this process is a part, if the store knows it and it has not ended.
pub(crate) fn parent(transaction: &Transaction<'_>) -> Result<Option<String>, StoreError> {
    let Some(run) = calling_run() else { return Ok(None) };
    match transaction.runs().listing(&run) {
        Ok(listing) => Ok(listing.end.is_none().then_some(run)),
        Err(StoreError::UnknownRun { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Notes that `run` belongs to `parent`.
pub(crate) fn note(state: &Path, run: &str, parent: &str) {
    // If this fails, `last` may mean the nested run, and nothing else changes.
    let dir = run_dir(state, run);
    // That of a submitted run is made with its first log otherwise.
    let made = Access::create_dir(&dir);
    let file = made.and_then(|()| Access::open(&dir.join(PARENT), File::options().write(true)));
    let _ = file.and_then(|mut file| file.write_all(parent.as_bytes()));
}

/// Returns whether a step of `outer` has started a run on this machine, or a step of a run that one has started.
#[must_use]
pub fn is_started_by(store: &Store, run: &str, outer: &str) -> bool {
    let parent = |run: &str| fs::read_to_string(run_dir(store.dir(), run).join(PARENT)).ok();
    let mut parents = iter::successors(parent(run), |run| parent(run)).take(DEEPEST);
    parents.any(|parent| parent == outer)
}

/// Returns whether a run was started by a step of another run.
pub(crate) fn is_nested(state: &Path, run: &str) -> bool {
    run_dir(state, run).join(PARENT).exists()
}

//! Lists runs: those that have not ended, and those that have.

use windlass_core::nearest;
use windlass_store::{RunEnd, RunListing, Store, StoreError, Transaction};

use super::run::{Seen, wal_of};
use super::{LookError, RunState, RunView};

/// The number of newest runs that are searched for a similar workflow.
const SEARCHED: usize = 1000;

/// A run in a list.
#[non_exhaustive]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// The name of its workflow.
    pub workflow: String,
    /// The file it came from.
    pub file: String,
    /// When it was submitted.
    pub created_ms: i64,
    /// The run, or why it cannot be shown: this version cannot read its workflow.
    pub view: Result<Box<RunView>, LookError>,
}

/// Returns the runs that are under way or interrupted, the newest first. A queue is one of them while it has
/// steps that have not ended.
pub fn open_runs(store: &mut Store) -> Result<Vec<Listed>, LookError> {
    let read = |transaction: &Transaction<'_>| transaction.runs().open();
    let open = store.read(read)?;
    let mut listed = Vec::new();
    for listing in open {
        let run = look_at(store, listing)?;
        listed.extend(run.filter(|run| run.end().is_none() && !run.is_idle()));
    }
    Ok(listed)
}

/// Returns the last `limit` runs that have ended, the newest first; of one workflow, or of all.
pub fn history(
    store: &mut Store,
    workflow: Option<&str>,
    limit: usize,
) -> Result<Vec<(RunListing, RunEnd)>, LookError> {
    let newest = store.read(|transaction| {
        if let Some(unknown) = unknown(transaction, workflow)? {
            return Ok(Err(unknown));
        }
        // Runs that have not ended may come before those that have.
        let open = transaction.runs().open()?.len();
        transaction.runs().latest(workflow, limit.saturating_add(open)).map(Ok)
    })??;
    let ended = newest.into_iter().filter_map(|listing| listing.end.map(|end| (listing, end)));
    Ok(ended.take(limit).map(|(listing, end)| (named(listing), end)).collect())
}

/// Returns why a workflow has no history, if no workflow of that name has ever run.
fn unknown(
    transaction: &Transaction<'_>,
    workflow: Option<&str>,
) -> Result<Option<LookError>, StoreError> {
    let Some(workflow) = workflow else { return Ok(None) };
    if !transaction.runs().latest(Some(workflow), 1)?.is_empty() {
        return Ok(None);
    }
    let mut known: Vec<String> = Vec::new();
    for run in transaction.runs().latest(None, SEARCHED)? {
        if !known.contains(&run.workflow) && !run.workflow.is_empty() {
            known.push(run.workflow);
        }
    }
    // Users often give the file, after which a workflow is named by default.
    let stem = workflow.rsplit('/').next().unwrap_or(workflow);
    let stem = stem.strip_suffix(".toml").unwrap_or(stem);
    let nearest = nearest(stem, known.iter().map(String::as_str)).map(str::to_owned);
    Ok(Some(LookError::UnknownWorkflow { workflow: workflow.to_owned(), nearest, known }))
}

/// Returns the workflow of a run; its file if the run was stored before workflows had names.
fn named(mut listing: RunListing) -> RunListing {
    if listing.workflow.is_empty() {
        listing.workflow.clone_from(&listing.file);
    }
    listing
}

/// Reads one run; none if it was deleted meanwhile.
pub(super) fn look_at(store: &mut Store, listing: RunListing) -> Result<Option<Listed>, LookError> {
    let RunListing { id, workflow, file, created_ms, .. } = listing;
    let dir = store.dir().to_owned();
    let wal = wal_of(store, &id);
    let seen = store.read(|transaction| match transaction.runs().find(&id) {
        Ok(run) => Seen::of(transaction, run, &wal).map(Some),
        Err(StoreError::UnknownRun { .. }) => Ok(None),
        Err(error) => Err(error),
    })?;
    let Some(seen) = seen else { return Ok(None) };
    let view = RunView::of(seen, &dir).map(Box::new);
    let workflow = view.as_ref().map_or(workflow, |view| view.workflow.clone());
    Ok(Some(Listed { id, workflow, file, created_ms, view }))
}

impl Listed {
    pub(super) fn end(&self) -> Option<RunEnd> {
        self.view.as_ref().ok().and_then(|view| view.state.end())
    }

    /// Returns whether it is a queue with nothing left to do.
    fn is_idle(&self) -> bool {
        let idle = |view: &RunView| view.queue.is_some() && view.done() == view.steps.len();
        self.view.as_ref().is_ok_and(|view| idle(view))
    }

    /// Returns its state, if it can be shown.
    #[must_use]
    pub fn state(&self) -> Option<RunState> {
        self.view.as_ref().ok().map(|view| view.state)
    }
}

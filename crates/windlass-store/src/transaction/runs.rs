//! Runs: submitting, finding, listing, ending and deleting them.

use std::collections::BTreeMap;

use super::Notices;
use crate::error::StoreError;
use crate::run::{HomeMachine, RunEnd, RunListing, RunRecord};
use crate::tables::RunTables;
use crate::wakeup::Topic;

/// The runs of a store, within a [`Transaction`](super::Transaction).
pub struct Runs<'a> {
    tables: &'a dyn RunTables,
    wall_ms: i64,
    notices: &'a Notices,
}

impl<'a> Runs<'a> {
    pub(super) fn new(tables: &'a dyn RunTables, wall_ms: i64, notices: &'a Notices) -> Self {
        Self { tables, wall_ms, notices }
    }

    /// Has the processes that follow submitted runs look again after the commit.
    pub fn announce(&self) {
        self.notices.add(Topic::Progress);
    }

    /// Returns an id that no run has.
    pub fn new_id(&self) -> Result<String, StoreError> {
        self.tables.new_run_id()
    }

    /// Inserts a new run. Fails with [`StoreError::PathNotUtf8`] if the path of its directory is not
    /// valid UTF-8.
    pub fn insert(&self, run: &RunRecord) -> Result<(), StoreError> {
        if run.dir.to_str().is_none() {
            return Err(StoreError::PathNotUtf8 { dir: run.dir.clone() });
        }
        self.tables.insert_run(run, self.wall_ms)
    }

    /// Stores that this machine leads a run in the foreground, if several machines use the store.
    pub fn set_home(&self, run: &str) -> Result<(), StoreError> {
        self.tables.set_home(run, &HomeMachine::this())
    }

    /// Returns the machine that leads a run in the foreground, if that is another one than this.
    pub fn other_home(&self, run: &str) -> Result<Option<HomeMachine>, StoreError> {
        let home = self.tables.home(run)?;
        Ok(home.filter(|home| home.id != HomeMachine::this().id))
    }

    /// Returns the only run whose id begins with `prefix`; `last` stands for the newest run.
    pub fn find(&self, prefix: &str) -> Result<RunRecord, StoreError> {
        // No id looks like that: ids are hexadecimal numbers.
        if let ("last", Some(newest)) = (prefix, self.tables.latest_runs(None, 1)?.pop()) {
            return self.find(&newest.id);
        }
        let run = || prefix.to_owned();
        // Every id begins with the empty prefix, but no user means all runs.
        if prefix.is_empty() {
            return Err(StoreError::UnknownRun { run: run() });
        }
        let mut found = self.tables.runs(prefix)?.into_iter();
        match (found.next(), found.next()) {
            (None, _) => Err(StoreError::UnknownRun { run: run() }),
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => Err(StoreError::AmbiguousRun { run: run() }),
        }
    }

    /// Returns up to `limit` runs, the newest first; of one workflow, or of all.
    pub fn latest(
        &self,
        workflow: Option<&str>,
        limit: usize,
    ) -> Result<Vec<RunListing>, StoreError> {
        self.tables.latest_runs(workflow, limit)
    }

    /// Returns the runs that have not ended, the newest first.
    pub fn open(&self) -> Result<Vec<RunListing>, StoreError> {
        self.tables.open_runs()
    }

    /// Returns the ids of the runs that were submitted to a service and have not ended, the oldest first.
    pub fn served(&self) -> Result<Vec<String>, StoreError> {
        self.tables.served_runs()
    }

    /// Returns the listing of one run.
    pub fn listing(&self, run: &str) -> Result<RunListing, StoreError> {
        let listing = self.tables.listing(run)?;
        listing.ok_or_else(|| StoreError::UnknownRun { run: run.to_owned() })
    }

    /// Returns the end of a run; none while it has not ended.
    pub fn end(&self, run: &str) -> Result<Option<RunEnd>, StoreError> {
        self.tables.run_end(run)
    }

    /// Sets the end of a run, or clears it because the run goes on.
    pub fn set_end(&self, run: &str, end: Option<RunEnd>) -> Result<(), StoreError> {
        self.tables.set_run_end(run, end)
    }

    /// Sets the environment that a run takes along to a service, which leads it from then on.
    pub fn set_env(&self, run: &str, env: &BTreeMap<String, String>) -> Result<(), StoreError> {
        self.tables.set_run_env(run, env)
    }

    /// Sets how many steps of a run may run at once.
    pub fn set_jobs(&self, run: &str, jobs: u32) -> Result<(), StoreError> {
        self.tables.set_run_jobs(run, jobs)
    }

    /// Deletes a run with its journal, its attempts and its leases.
    pub fn delete(&self, run: &str) -> Result<(), StoreError> {
        self.tables.delete_run(run)
    }
}

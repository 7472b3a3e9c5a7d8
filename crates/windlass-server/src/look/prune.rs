//! Deletes old runs with their logs, and old events.
//!
//! A run is deleted from the store first, then its logs. A process that is killed in between leaves logs that
//! belong to no run; the next prune finds and removes them. Deleting from a store needs free space, so on a
//! full disk the logs are removed first.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;
use windlass_store::{LogStore, RunEnd, RunListing, Store, StoreError, Transaction};

use super::list::look_at;
use super::run::leader_of;
use super::{LookError, RunState};
use crate::attempt::run_dir;
use crate::coordinator::forget_requests;
use crate::users::is_ours;

/// What to delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruning {
    /// Deletes what ended, or was emitted, longer ago than this.
    pub older_than: Option<Duration>,
    /// Deletes finished runs except this many of the newest.
    pub keep: Option<usize>,
    /// Treats interrupted runs as if they had ended then.
    pub interrupted: bool,
    /// Only returns what would be deleted.
    pub dry_run: bool,
}

/// What was deleted, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// The runs, the newest first.
    pub runs: Vec<PrunedRun>,
    /// Logs that belonged to no run.
    pub orphans: Vec<Orphan>,
    /// How many events.
    pub events: usize,
    /// The number of runs that were kept because they belong to other users.
    pub others: usize,
}

/// A run that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrunedRun {
    /// Its id.
    pub id: String,
    /// The name of its workflow.
    pub workflow: String,
    /// How it ended: a word of [`RunState::word`].
    pub state: &'static str,
    /// When it ended.
    pub ended_ms: i64,
    /// The size of its logs in bytes.
    pub bytes: u64,
    /// Its owner, if that is known.
    pub uid: Option<u32>,
}

/// Logs that belong to no run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Orphan {
    /// Their directory.
    pub dir: PathBuf,
    /// Their size in bytes.
    pub bytes: u64,
}

/// Why not everything could be deleted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PruneError {
    /// The store cannot be used.
    #[error(transparent)]
    Look(#[from] LookError),
    /// Logs cannot be removed.
    #[error("cannot remove the logs in {dir}: {source}", dir = dir.display())]
    Logs {
        /// Their directory.
        dir: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl From<StoreError> for PruneError {
    fn from(error: StoreError) -> Self {
        Self::Look(error.into())
    }
}

/// Deletes runs and events as `pruning` says, but no run that a process leads or that belongs to another
/// user. In a store that several users share, only root and the owner of the store can delete events.
pub fn prune(store: &mut Store, pruning: &Pruning) -> Result<Pruned, PruneError> {
    let logs = store.dir().join("runs");
    // Directories are listed before the runs, because a run is stored before its logs are.
    let dirs = directories(&logs)?;
    let (all, now_ms) = store.read(|transaction| {
        Ok((transaction.runs().latest(None, usize::MAX)?, transaction.now().wall_ms))
    })?;
    let known: BTreeSet<_> = all.iter().map(|run| run.id.clone()).collect();
    let before_ms = pruning.older_than.map(|age| now_ms.saturating_sub(millis(age)));
    let mut pruned = Pruned::default();
    // In a shared store, what belongs to no user is the owner's to delete.
    let access = store.access();
    let keeper = !access.is_shared() || access.is_owner_or_root();
    let dirs = dirs.into_iter().filter(|_| keeper);
    for dir in dirs.filter(|(name, _)| !known.contains(name)).map(|(_, dir)| dir) {
        let bytes = size(&dir)?;
        if !pruning.dry_run {
            remove(&dir)?;
        }
        pruned.orphans.push(Orphan { dir, bytes });
    }
    if keeper && !pruning.dry_run {
        let orphans = store.logs().map_or(Ok(Vec::new()), LogStore::of_no_run)?;
        orphans.iter().try_for_each(|(run, _)| remove_stored(store, run))?;
    }
    let mut candidates = candidates(store, all, pruning, before_ms)?;
    let all = candidates.len();
    candidates.retain(|(run, _)| run.uid.is_none_or(is_ours));
    pruned.others = all - candidates.len();
    pruned.runs = match pruning.dry_run {
        true => candidates.into_iter().map(|(run, _)| run).collect(),
        false => forget_all(store, &candidates)?,
    };
    if let Some(before_ms) = before_ms.filter(|_| keeper) {
        pruned.events = forget_events(store, before_ms, pruning.dry_run)?;
    }
    if !pruning.dry_run {
        store.compact()?;
    }
    Ok(pruned)
}

/// Returns the runs that may be deleted, the newest first, each with the end that is stored.
fn candidates(
    store: &mut Store,
    all: Vec<RunListing>,
    pruning: &Pruning,
    before_ms: Option<i64>,
) -> Result<Vec<(PrunedRun, Option<RunEnd>)>, PruneError> {
    let (mut candidates, mut kept) = (Vec::new(), 0);
    let dir = store.dir().to_owned();
    for listing in all {
        let (id, workflow, end) = (listing.id.clone(), listing.workflow.clone(), listing.end);
        let uid = listing.uid;
        let Some((state, ended_ms)) = ended(store, listing, pruning.interrupted)? else { continue };
        let old = before_ms.is_some_and(|before| ended_ms < before);
        let many = pruning.keep.is_some_and(|keep| kept >= keep);
        if old || many {
            let bytes = size(&run_dir(&dir, &id))? + stored_bytes(store, &id)?;
            candidates.push((PrunedRun { id, workflow, state, ended_ms, bytes, uid }, end));
        } else {
            kept += 1;
        }
    }
    Ok(candidates)
}

/// Returns how and when a run ended, if it has or counts as ended.
fn ended(
    store: &mut Store,
    listing: RunListing,
    interrupted: bool,
) -> Result<Option<(&'static str, i64)>, PruneError> {
    if let Some(end) = listing.end {
        return Ok(Some((end.outcome.word(), end.at_ms)));
    }
    let created_ms = listing.created_ms;
    let Some(run) = look_at(store, listing)? else { return Ok(None) };
    Ok(match &run.view {
        Ok(view) => match view.state {
            RunState::Ended(end) => Some((end.outcome.word(), end.at_ms)),
            RunState::Interrupted if interrupted => {
                Some((view.state.word(), view.ended_ms().unwrap_or(created_ms)))
            }
            _ => None,
        },
        // This version cannot resume it; whether a process leads it is checked when it is deleted.
        Err(_) => interrupted.then_some(("unreadable", created_ms)),
    })
}

/// Deletes runs with their logs. Returns those that were deleted: all, except runs that were resumed
/// meanwhile.
fn forget_all(
    store: &mut Store,
    candidates: &[(PrunedRun, Option<RunEnd>)],
) -> Result<Vec<PrunedRun>, PruneError> {
    let mut forgotten = Vec::new();
    for (run, end) in candidates {
        let idle = match forget(store, &run.id, *end) {
            Err(error) if error.is_full() => {
                make_room(store, candidates)?;
                // Nothing is written any more where the disk was full.
                *store = store.try_clone()?;
                forget(store, &run.id, *end)?
            }
            idle => idle?,
        };
        if idle {
            remove(&run_dir(store.dir(), &run.id))?;
            remove_stored(store, &run.id)?;
            forgotten.push(run.clone());
        }
    }
    Ok(forgotten)
}

/// Deletes the logs of a run that its store keeps, bit by bit, so that no other writer waits.
fn remove_stored(store: &mut Store, run: &str) -> Result<(), StoreError> {
    let Some(logs) = store.logs() else { return Ok(()) };
    while logs.delete_some(run, None)? {}
    Ok(())
}

/// Returns how many bytes of the logs of a run its store keeps.
fn stored_bytes(store: &mut Store, run: &str) -> Result<u64, StoreError> {
    let Some(logs) = store.logs() else { return Ok(0) };
    Ok(logs.of_run(run)?.iter().map(|log| log.length).sum())
}

/// Removes the logs of the steps of these runs, and nothing that is needed to resume one.
fn make_room(
    store: &mut Store,
    candidates: &[(PrunedRun, Option<RunEnd>)],
) -> Result<(), PruneError> {
    for (run, end) in candidates {
        if store.read(|transaction| is_idle(transaction, &run.id, *end))? {
            let dir = run_dir(store.dir(), &run.id);
            remove_logs(&dir).map_err(|source| PruneError::Logs { dir, source })?;
        }
    }
    Ok(())
}

/// Deletes a run from the store unless it was resumed meanwhile. Returns whether it was deleted.
fn forget(store: &mut Store, run: &str, end: Option<RunEnd>) -> Result<bool, StoreError> {
    store.transact(|transaction| {
        let idle = is_idle(transaction, run, end)?;
        if idle {
            forget_requests(transaction, run)?;
            transaction.runs().delete(run)?;
        }
        Ok(idle)
    })
}

/// Returns whether a run exists, has ended like that, and has no leader.
fn is_idle(
    transaction: &Transaction<'_>,
    run: &str,
    end: Option<RunEnd>,
) -> Result<bool, StoreError> {
    match transaction.runs().listing(run) {
        Err(StoreError::UnknownRun { .. }) => Ok(false),
        listing => Ok(listing?.end == end && leader_of(transaction, run)?.is_none()),
    }
}

fn forget_events(store: &mut Store, before_ms: i64, dry_run: bool) -> Result<usize, StoreError> {
    if dry_run {
        return store.read(|transaction| {
            let events = transaction.events().after(0, usize::MAX)?;
            Ok(events.iter().filter(|event| event.at_ms < before_ms).count())
        });
    }
    store.transact(|transaction| transaction.events().delete_before(before_ms))
}

fn directories(logs: &Path) -> Result<Vec<(String, PathBuf)>, PruneError> {
    let failed = |source| PruneError::Logs { dir: logs.to_owned(), source };
    let entries = match fs::read_dir(logs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut dirs = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        // A directory that is not named like a run was not created here.
        if let (Ok(name), true) = (entry.file_name().into_string(), entry.path().is_dir())
            && name.len() == 8
            && name.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            dirs.push((name, entry.path()));
        }
    }
    dirs.sort();
    Ok(dirs)
}

/// Removes the directory of a run, if it exists.
fn remove(dir: &Path) -> Result<(), PruneError> {
    match fs::remove_dir_all(dir) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(PruneError::Logs { dir: dir.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Removes the logs in the directory of a run, and nothing else.
fn remove_logs(dir: &Path) -> io::Result<()> {
    for path in files(dir)? {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("log") => fs::remove_file(path)?,
            // The end of a log, which is not added to it yet.
            Some("tail") => fs::remove_dir_all(path)?,
            _ => {}
        }
    }
    Ok(())
}

/// Returns the size of the files in a directory, if it exists, without those in directories below it.
fn size(dir: &Path) -> Result<u64, PruneError> {
    let sizes = files(dir).and_then(|files| {
        files.iter().map(|path| Ok(fs::symlink_metadata(path)?.len())).sum::<io::Result<u64>>()
    });
    sizes.map_err(|source| PruneError::Logs { dir: dir.to_owned(), source })
}

/// Returns the entries of a directory, if it exists.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

fn millis(age: Duration) -> i64 {
    i64::try_from(age.as_millis()).unwrap_or(i64::MAX)
}

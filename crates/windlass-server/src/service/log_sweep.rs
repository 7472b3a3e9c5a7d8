//! Removes logs that belong to no run, or to steps of queues that are forgotten: files of this machine, and what
//! the store keeps.
//!
//! Whoever deletes a run cannot remove its files on the machines of workers, so each worker does that from time
//! to time. What a store keeps is deleted bit by bit, because that may take long.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use windlass_core::WorkId;
use windlass_store::{Store, StoreError};

use crate::attempt::{remove_logs, run_dir};

/// The time between two searches.
const INTERVAL: Duration = Duration::from_secs(600);
/// How often something is deleted from the store before logs are sent again.
const DELETIONS: usize = 20;
/// How long after that the search goes on.
const GO_ON: Duration = Duration::from_secs(1);

/// When to search next.
pub(super) struct Sweep {
    due: Instant,
}

/// What is known of a run whose logs are there.
enum Known {
    /// It does not exist.
    Nothing,
    /// All of its logs may be needed.
    Run,
    /// Of the steps up to the first number, only these are known.
    Queue(u64, BTreeSet<WorkId>),
}

impl Known {
    fn has_forgotten(&self, work: WorkId) -> bool {
        matches!(self, Known::Queue(added, known) if work.get() <= *added && !known.contains(&work))
    }
}

impl Default for Sweep {
    fn default() -> Self {
        Self { due: Instant::now() }
    }
}

impl Sweep {
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Removes what is not needed. What cannot be removed now is tried again the next time.
    pub(super) fn clean(&mut self, store: &mut Store) {
        let is_done = clean_stored(store).unwrap_or(true);
        self.due = Instant::now() + if is_done { INTERVAL } else { GO_ON };
        let Ok(entries) = fs::read_dir(store.dir().join("runs")) else { return };
        for entry in entries.filter_map(Result::ok) {
            // A directory that is not named like a run was not created here.
            if let Ok(run) = entry.file_name().into_string()
                && run.len() == 8
                && run.bytes().all(|byte| byte.is_ascii_hexdigit())
            {
                let _ = clean_run(store, &run);
            }
        }
    }
}

/// Deletes some of what the store keeps in vain. Returns whether that was all.
fn clean_stored(store: &mut Store) -> Result<bool, StoreError> {
    let (mut left, mut vain) = (DELETIONS, Vec::new());
    let queues = store.read(|transaction| transaction.queues().all())?;
    for queue in queues {
        let known = known(store, &queue.run)?;
        let works = store.logs().map_or(Ok(Vec::new()), |logs| logs.works(&queue.run))?;
        let works = works.into_iter().filter(|work| known.has_forgotten(*work));
        vain.extend(works.map(|work| (queue.run.clone(), Some(work))));
    }
    let Some(logs) = store.logs() else { return Ok(true) };
    vain.extend(logs.of_no_run()?.into_iter().map(|(run, _)| (run, None)));
    for (run, work) in vain {
        while logs.delete_some(&run, work)? {
            left -= 1;
            if left == 0 {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn clean_run(store: &mut Store, run: &str) -> Result<(), StoreError> {
    let dir = run_dir(store.dir(), run);
    let removed = match known(store, run)? {
        Known::Run => return Ok(()),
        Known::Nothing => fs::remove_dir_all(&dir),
        known @ Known::Queue(..) => remove_logs(&dir, |work| known.has_forgotten(work)),
    };
    removed.or_else(ignore_missing).map_err(|source| StoreError::Io { path: dir, source })
}

fn known(store: &mut Store, run: &str) -> Result<Known, StoreError> {
    store.read(|transaction| {
        match transaction.runs().listing(run) {
            Err(StoreError::UnknownRun { .. }) => return Ok(Known::Nothing),
            listing => drop(listing?),
        }
        let Some(queue) = transaction.queues().of_run(run)? else { return Ok(Known::Run) };
        let known = transaction.queues().steps_after(run, 0)?;
        Ok(Known::Queue(queue.added, known.into_iter().map(|step| step.work).collect()))
    })
}

fn ignore_missing(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

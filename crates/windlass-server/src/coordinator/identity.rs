//! Who a run is: its id, its files, and the names by which its processes and holds are known.

use std::path::{Path, PathBuf};

use windlass_core::{Grant, HolderId, Token, WorkId};

use crate::attempt::run_dir;
use crate::command::CommandResolver;
use crate::schedule::Schedule;

/// A run under one leader.
#[derive(Clone)]
pub(super) struct RunIdentity {
    id: String,
    /// The directory in which the run's commands start.
    dir: PathBuf,
    /// The store's directory.
    state: PathBuf,
    /// The directory of the run's logs and outputs.
    logs: PathBuf,
    /// The fencing token of the leader.
    epoch: Token,
}

impl RunIdentity {
    /// Names the run `id`, whose commands start in `dir` and whose store is in `state`.
    pub(super) fn new(id: &str, dir: &Path, state: &Path, epoch: Token) -> Self {
        let logs = run_dir(state, id);
        Self { id: id.to_owned(), dir: dir.to_owned(), state: state.to_owned(), logs, epoch }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn logs(&self) -> &Path {
        &self.logs
    }

    /// Returns the directory that the store has on this machine.
    pub(super) fn state(&self) -> &Path {
        &self.state
    }

    pub(super) fn epoch(&self) -> Token {
        self.epoch
    }

    /// Returns the tag that every process of the run carries.
    pub(super) fn tag(&self) -> String {
        run_tag(&self.id)
    }

    /// Returns the tag that the processes of one attempt carry. A process that takes over the attempt's
    /// names ends these processes first.
    pub(super) fn attempt_tag(&self, grant: Grant) -> String {
        format!("run-{}-{}-{}-{}", self.id, self.epoch, grant.work, grant.attempt)
    }

    /// Returns the holder of the names that an attempt takes. No other leader of the run uses it.
    pub(super) fn holder(&self, grant: Grant) -> HolderId {
        let Grant { work, attempt } = grant;
        HolderId::new(format!("run {}/{work}@{attempt} epoch {}", self.id, self.epoch))
    }

    /// Returns the attempt that a holder of names belongs to, if it is one of this run.
    pub(super) fn grant_of(&self, holder: &HolderId) -> Option<Grant> {
        let rest = holder.as_str().strip_prefix("run ")?.strip_prefix(self.id.as_str())?;
        let (work, rest) = rest.strip_prefix('/')?.split_once('@')?;
        let (attempt, _) = rest.split_once(' ')?;
        Some(Grant { work: WorkId::new(work.parse().ok()?)?, attempt: attempt.parse().ok()? })
    }

    /// Resolves commands of the run with the outputs that its steps have written so far.
    pub(super) fn resolve<T>(
        &self,
        schedule: &Schedule,
        resolve: impl FnOnce(CommandResolver<'_>) -> T,
    ) -> T {
        let outputs = |step: &str, key: &str| schedule.output(&self.logs, step, key);
        let steps = |work| schedule.step(work);
        let (plan, run, dir, state) = (schedule.plan(), &self.id, &self.dir, &self.state);
        resolve(CommandResolver { plan, steps: &steps, run, dir, state, outputs: &outputs })
    }
}

/// Returns the run to one of whose attempts a holder of names belongs, if it is one.
pub(crate) fn run_of(holder: &HolderId) -> Option<&str> {
    holder.as_str().strip_prefix("run ")?.split('/').next()
}

/// Returns the tag that every process of a run carries.
pub(super) fn run_tag(run: &str) -> String {
    format!("run-{run}")
}

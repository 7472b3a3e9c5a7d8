//! One work at one moment, for people to look at.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass_core as core;
use windlass_core::{Children, Phase, StopReason, WorkState};

use crate::capacity::Client;
use crate::id::WorkId;
use crate::state::State;
use crate::work_name::WorkName;

/// One work at one moment.
///
/// ```
/// # use windlass::{WorkError, WorkScheduler, work_fn};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), windlass::SubmitError> {
/// # let mut scheduler = WorkScheduler::default();
/// # let fetch = work_fn("fetch", |_| async { Err::<(), _>(WorkError::msg("no route")) });
/// # let fetch = scheduler.submit(fetch)?;
/// # scheduler.submit(work_fn("parse", |_| async { Ok(()) }).after([fetch]))?;
/// # scheduler.run_until_done().await;
/// for item in scheduler.snapshot() {
///     println!(
///         "{}: {} - {:?} (attempts: {}, deps: {:?})",
///         item.id, item.name, item.state, item.attempts, item.deps
///     );
/// }
/// // Or as people would put it:
/// let lines: Vec<_> = scheduler.snapshot().iter().map(|item| item.status()).collect();
/// assert_eq!(lines[0], "failed: no route");
/// assert_eq!(lines[1], "blocked: it waits for \"fetch\", which is Failed");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkSnapshot {
    /// Which work.
    pub id: WorkId,
    /// Its name.
    pub name: WorkName,
    /// Its state.
    pub state: WorkState,
    /// Its phase, which says more than its state.
    pub phase: Phase,
    /// Whether it succeeded without running, because it was not needed.
    pub skipped: bool,
    /// The works that have to end before it.
    pub deps: Vec<WorkId>,
    /// The works that wait for its end.
    pub dependents: Vec<WorkId>,
    /// How many attempts have begun.
    pub attempts: u32,
    /// How often it may be tried again.
    pub retries_left: u32,
    /// Why the latest attempt that did not succeed did not, or why there will be none.
    pub last_error: Option<String>,
    /// How long the latest attempt took.
    pub last_duration: Option<Duration>,
    /// How long all attempts took together.
    pub total_duration: Duration,
    /// When its next attempt is due, if it waits for that.
    pub retry_at: Option<Instant>,
    /// How the children of its attempt fare.
    pub children: Children,
    /// The names of the first works it still waits for.
    waits_for: Vec<Arc<str>>,
    /// How many works it waits for besides.
    waits_for_more: usize,
    most_attempts: u32,
    taken_at: Instant,
}

/// How many works a status names at most.
const NAMED: usize = 8;

impl WorkSnapshot {
    pub(crate) fn of(state: &State, client: &Client, id: core::WorkId) -> Option<Self> {
        let engine = &state.engine;
        let (entry, phase) = (state.entry(id)?, engine.phase(id)?);
        let retry_at = match phase {
            Phase::Delayed { due } => client.capacity.instant(due),
            _ => None,
        };
        let open =
            |work: &core::WorkId| engine.phase(*work).is_some_and(|p| !p.state().is_terminal());
        let deps: Vec<_> = engine.dependencies(id).map(|dependency| dependency.work).collect();
        let mut waits_for = deps.iter().filter(|dep| open(dep)).filter_map(|dep| state.entry(*dep));
        let named = waits_for.by_ref().take(NAMED);
        let named = named.map(|entry| entry.name.to_shared()).collect();
        Some(Self {
            id: state.issuer.id(id),
            name: entry.name.to_shared().into(),
            state: phase.state(),
            phase,
            skipped: phase == Phase::Skipped,
            dependents: state.issuer.ids(engine.dependents(id)),
            attempts: engine.attempts(id)?,
            retries_left: engine.retries_left(id)?,
            last_error: entry.last_error().cloned(),
            last_duration: entry.last_duration(),
            total_duration: entry.total_duration(),
            retry_at,
            children: engine.children(id),
            waits_for: named,
            waits_for_more: waits_for.count(),
            most_attempts: engine.retries(id)?.saturating_add(1),
            taken_at: Instant::now(),
            deps: state.issuer.ids(deps),
        })
    }

    /// Returns the status of the work in words: "waiting for verify, apply", "Retrying in 3 s (attempt 2 of
    /// 6)", "3/8 children completed".
    #[must_use]
    pub fn status(&self) -> String {
        match self.phase {
            Phase::Waiting => self.waiting(),
            Phase::Gated => "waiting for its gate".to_owned(),
            Phase::Ready | Phase::WaitingOutside => "waiting for its turn".to_owned(),
            Phase::Paused | Phase::Halted => "paused".to_owned(),
            Phase::Granted => "about to start".to_owned(),
            Phase::Delayed { .. } => self.retrying(),
            Phase::Running | Phase::Joining if self.children.total > 0 => self.family(),
            Phase::Suspended if self.children.open() > 0 => self.family(),
            Phase::Running | Phase::Joining => format!("running{}", self.attempt(self.attempts)),
            Phase::Suspended => "waiting, without a slot".to_owned(),
            Phase::Resuming => "waiting for its turn to go on".to_owned(),
            Phase::Cancelling { why: StopReason::Cancel, .. } => "stopping, as asked".to_owned(),
            Phase::Cancelling { .. } => "stopping, out of time".to_owned(),
            Phase::Success => "succeeded".to_owned(),
            Phase::Skipped => "not needed".to_owned(),
            Phase::Failed => self.because("failed"),
            Phase::Blocked => self.because("blocked"),
            Phase::Cancelled => "cancelled".to_owned(),
            other => format!("{other:?}"),
        }
    }

    /// Returns how long it was until the next attempt when the snapshot was taken.
    pub(crate) fn retry_in(&self) -> Option<Duration> {
        Some(self.retry_at?.saturating_duration_since(self.taken_at))
    }

    fn waiting(&self) -> String {
        let names = self.waits_for.join(", ");
        match self.waits_for_more {
            0 => format!("waiting for {names}"),
            more => format!("waiting for {names} and {more} more"),
        }
    }

    fn retrying(&self) -> String {
        let left = in_words(self.retry_in().unwrap_or(Duration::MAX));
        format!("Retrying in {left}{}", self.attempt(self.attempts + 1))
    }

    fn family(&self) -> String {
        let Children { total, succeeded, failed, .. } = self.children;
        let failures = if failed > 0 { format!(", {failed} not") } else { String::new() };
        format!("{succeeded}/{total} children completed{failures}")
    }

    /// Which attempt, if there may be several.
    fn attempt(&self, attempt: u32) -> String {
        match self.most_attempts {
            1 => String::new(),
            u32::MAX => format!(" (attempt {attempt})"),
            // Interrupted attempts do not count against the retries.
            most => format!(" (attempt {attempt} of {})", most.max(attempt)),
        }
    }

    fn because(&self, what: &str) -> String {
        match &self.last_error {
            Some(error) => format!("{what}: {error}"),
            None => what.to_owned(),
        }
    }
}

/// A length of time as people say it: the two largest units, rounded up to a whole one.
pub(crate) fn in_words(length: Duration) -> String {
    let seconds = length.as_secs().saturating_add(u64::from(length.subsec_nanos() > 0));
    match seconds {
        0..=1 if length < Duration::from_secs(1) => format!("{} ms", length.as_millis()),
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

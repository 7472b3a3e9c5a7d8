//! What the driver keeps beside the engine for each work: its name, its body, its past.
//!
//! There is one for every work until it is forgotten, so what few works have is kept apart.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use windlass_core::{Timestamp, WorkState};

use crate::body::Body;
use crate::context::AttemptShared;
use crate::error::SharedError;
use crate::gate::Gate;
use crate::id::WorkId;
use crate::name::Name;
use crate::reference::{EndTeller, WorkFailure};
use crate::spec;

pub(crate) struct Entry {
    pub(crate) name: Name,
    body: BodyPlace,
    extras: Option<Box<Extras>>,
    /// Of the latest attempt that has returned, or was lost.
    last_duration_ns: u64,
}

/// No attempt has returned so far.
const NEVER: u64 = u64::MAX;

/// Where the body of a work is.
enum BodyPlace {
    /// In its place, between attempts.
    Here(Box<dyn Body>),
    /// With the attempt under way. Without one it is gone: it was taken, or lost with its attempt.
    Away(Option<Arc<AttemptShared>>),
}

const _: () = assert!(size_of::<Option<Entry>>() == 56);

/// What few works have.
#[derive(Default)]
pub(crate) struct Extras {
    /// Present until the run watches it.
    pub(crate) gate: Option<Gate>,
    /// The task that watches the gate.
    pub(crate) gate_watcher: Option<AbortHandle>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) last_error: Option<Cause>,
    /// Sends the end to the waiters.
    pub(crate) end: Option<EndTeller>,
    /// The attempt is gone, and ends as soon as its children have.
    pub(crate) abandoned: bool,
    /// The first child of the attempt under way that failed.
    pub(crate) failed_child: Option<FailedChild>,
    /// How long all attempts but the latest took together.
    earlier_ns: u64,
}

/// Why an attempt did not succeed, or why there was none.
pub(crate) struct Cause {
    pub(crate) text: String,
    /// The error that a closure returned.
    pub(crate) source: Option<SharedError>,
    /// The failure of another work that has caused it, of a descendant or of a work that it has awaited.
    pub(crate) origin: Option<Arc<Origin>>,
}

/// A failure that no other work has caused.
///
/// A work that fails because another one does names that one and the origin, and none of the works in between:
/// so no text grows with the depth at which works wait for works.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) work: Arc<str>,
    /// Such as `failed: no route`.
    pub(crate) what: String,
    pub(crate) source: Option<SharedError>,
}

/// A child that failed, which may be forgotten by the time that its parent says so.
pub(crate) struct FailedChild {
    /// Names the child and the reason.
    pub(crate) text: String,
    /// The failure of the child, or the one that has caused it.
    pub(crate) origin: Arc<Origin>,
}

impl Extras {
    /// Replaces the text of the last error. An error that a closure returned stays.
    pub(crate) fn note_error(&mut self, text: String) {
        match &mut self.last_error {
            Some(cause) => cause.text = text,
            None => self.last_error = Some(Cause { text, source: None, origin: None }),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "work {:?} {}", self.work, self.what)
    }
}

impl Entry {
    pub(crate) fn new(name: Name, body: Box<dyn Body>) -> Self {
        let body = BodyPlace::Here(body);
        Self { name, body, extras: None, last_duration_ns: NEVER }
    }

    pub(crate) fn has_body(&self) -> bool {
        matches!(self.body, BodyPlace::Here(_))
    }

    /// Takes the body out of its place, for good.
    pub(crate) fn take_body(&mut self) -> Option<Box<dyn Body>> {
        if !self.has_body() {
            return None;
        }
        match std::mem::replace(&mut self.body, BodyPlace::Away(None)) {
            BodyPlace::Here(body) => Some(body),
            BodyPlace::Away(_) => None,
        }
    }

    /// Returns the attempt under way.
    pub(crate) fn attempt(&self) -> Option<&Arc<AttemptShared>> {
        match &self.body {
            BodyPlace::Here(_) => None,
            BodyPlace::Away(attempt) => attempt.as_ref(),
        }
    }

    pub(crate) fn extras(&self) -> Option<&Extras> {
        self.extras.as_deref()
    }

    /// Returns the extras if the work ever had one.
    pub(crate) fn known_extras(&mut self) -> Option<&mut Extras> {
        self.extras.as_deref_mut()
    }

    /// Returns the extras, to add one.
    pub(crate) fn extras_mut(&mut self) -> &mut Extras {
        self.extras.get_or_insert_default()
    }

    /// Keeps what the driver has to know of a spec.
    pub(crate) fn keep(&mut self, spec: spec::Extras) {
        let spec::Extras { timeout, gate, .. } = spec;
        if timeout.is_some() || gate.is_some() {
            let extras = self.extras_mut();
            (extras.timeout, extras.gate) = (timeout, gate);
        }
    }

    pub(crate) fn last_error(&self) -> Option<&String> {
        Some(&self.cause()?.text)
    }

    fn cause(&self) -> Option<&Cause> {
        self.extras()?.last_error.as_ref()
    }

    /// Returns the failure of this work, which has failed.
    pub(crate) fn as_failure(&mut self, id: WorkId) -> WorkFailure {
        let name = self.name.share().into();
        WorkFailure::new(id, name, WorkState::Failed, self.cause())
    }

    /// Returns what the parent of this work, which has failed, says of it.
    pub(crate) fn as_failed_child(&mut self) -> FailedChild {
        let name = self.name.share();
        let cause = self.cause();
        if let Some(origin) = cause.and_then(|cause| cause.origin.clone()) {
            return FailedChild { text: format!("its child {name:?} failed: {origin}"), origin };
        }
        let error = cause.map_or("for no known reason", |cause| &cause.text);
        let what = format!("failed: {error}");
        let text = format!("its child {name:?} {what}");
        let source = cause.and_then(|cause| cause.source.clone());
        FailedChild { text, origin: Arc::new(Origin { work: name, what, source }) }
    }

    /// Returns how long the latest attempt took.
    pub(crate) fn last_duration(&self) -> Option<Duration> {
        let known = self.last_duration_ns != NEVER;
        known.then(|| Duration::from_nanos(self.last_duration_ns))
    }

    /// Returns how long all attempts took together.
    pub(crate) fn total_duration(&self) -> Duration {
        let earlier_ns = self.extras().map_or(0, |extras| extras.earlier_ns);
        let last = self.last_duration().unwrap_or_default();
        Duration::from_nanos(earlier_ns).saturating_add(last)
    }

    /// An attempt begins. Returns the body for its runner.
    pub(crate) fn start(&mut self, attempt: Arc<AttemptShared>) -> Box<dyn Body> {
        match std::mem::replace(&mut self.body, BodyPlace::Away(Some(attempt))) {
            BodyPlace::Here(body) => body,
            BodyPlace::Away(_) => unreachable!("a body is in its place between attempts"),
        }
    }

    /// An attempt has returned, or was lost together with its body.
    pub(crate) fn stop(
        &mut self,
        body: Option<Box<dyn Body>>,
        now: Timestamp,
    ) -> Option<Arc<AttemptShared>> {
        let place = body.map_or(BodyPlace::Away(None), BodyPlace::Here);
        let before = std::mem::replace(&mut self.body, place);
        if let Some(extras) = &mut self.extras {
            extras.abandoned = false;
        }
        let BodyPlace::Away(Some(attempt)) = before else { return None };
        self.note_duration(now.since(attempt.began_at));
        Some(attempt)
    }

    /// Returns the child that failed in the attempt that is over.
    pub(crate) fn take_failed_child(&mut self) -> Option<FailedChild> {
        self.known_extras()?.failed_child.take()
    }

    fn note_duration(&mut self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(NEVER).min(NEVER - 1);
        let last_ns = std::mem::replace(&mut self.last_duration_ns, took_ns);
        if last_ns != NEVER {
            let earlier_ns = &mut self.extras_mut().earlier_ns;
            *earlier_ns = earlier_ns.saturating_add(last_ns);
        }
    }
}

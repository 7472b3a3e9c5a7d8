//! What the driver keeps beside the engine for each work: its name, its body, its past.
//!
//! There is one for every work until it is forgotten, so what few works have is kept apart.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use windlass_core::Timestamp;

use crate::context::AttemptCell;
use crate::gate::Gate;
use crate::name::Name;
use crate::reference::EndTeller;
use crate::spec;
use crate::work::Body;

/// In one cache line of its own: works are looked at in any order.
#[repr(align(64))]
pub(crate) struct Entry {
    pub(crate) name: Name,
    /// Absent while an attempt is under way.
    pub(crate) body: Option<Body>,
    /// The attempt under way.
    pub(crate) attempt: Option<Arc<AttemptCell>>,
    rare: Option<Box<Rare>>,
    /// Of the latest attempt that has returned, or was lost.
    last_duration_ns: u64,
}

/// No attempt has returned so far.
const NEVER: u64 = u64::MAX;

const _: () = assert!(size_of::<Option<Entry>>() == 64);

/// What few works have.
#[derive(Default)]
pub(crate) struct Rare {
    /// Until somebody watches it.
    pub(crate) gate: Option<Gate>,
    /// Whoever watches the gate.
    pub(crate) watcher: Option<AbortHandle>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) last_error: Option<String>,
    /// Tells whoever waits for its end.
    pub(crate) end: Option<EndTeller>,
    /// The attempt is gone, and ends as soon as its children have.
    pub(crate) abandoned: bool,
    /// Which child of the attempt failed first, and why.
    pub(crate) failed_child: Option<String>,
    /// How long all attempts before the latest took.
    earlier_ns: u64,
}

impl Entry {
    pub(crate) fn new(name: Name, body: Body) -> Self {
        Self { name, body: Some(body), attempt: None, rare: None, last_duration_ns: NEVER }
    }

    /// What few works have, if this one ever had something of it.
    pub(crate) fn rare(&self) -> Option<&Rare> {
        self.rare.as_deref()
    }

    /// The same, to change what is there.
    pub(crate) fn known_rare(&mut self) -> Option<&mut Rare> {
        self.rare.as_deref_mut()
    }

    /// The same, to add to it.
    pub(crate) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Keeps what its spec says of it that concerns nobody else.
    pub(crate) fn keep(&mut self, said: spec::Rare) {
        let spec::Rare { timeout, gate, .. } = said;
        if timeout.is_some() || gate.is_some() {
            let rare = self.rare_mut();
            (rare.timeout, rare.gate) = (timeout, gate);
        }
    }

    pub(crate) fn last_error(&self) -> Option<&String> {
        self.rare()?.last_error.as_ref()
    }

    /// How long the latest attempt took.
    pub(crate) fn last_duration(&self) -> Option<Duration> {
        let known = self.last_duration_ns != NEVER;
        known.then(|| Duration::from_nanos(self.last_duration_ns))
    }

    /// How long all attempts took together.
    pub(crate) fn total_duration(&self) -> Duration {
        let earlier_ns = self.rare().map_or(0, |rare| rare.earlier_ns);
        let last = self.last_duration().unwrap_or_default();
        Duration::from_nanos(earlier_ns).saturating_add(last)
    }

    /// An attempt begins.
    pub(crate) fn start(&mut self, cell: Arc<AttemptCell>, now: Timestamp) -> Body {
        cell.begin(now);
        self.attempt = Some(cell);
        self.take_body()
    }

    /// Its body, for whoever runs it.
    pub(crate) fn take_body(&mut self) -> Body {
        self.body.take().expect("a body is there between attempts")
    }

    /// An attempt has returned, or was lost together with its body.
    pub(crate) fn stop(&mut self, body: Option<Body>, now: Timestamp) -> Option<Arc<AttemptCell>> {
        self.body = body;
        if let Some(rare) = &mut self.rare {
            rare.abandoned = false;
            rare.failed_child = None;
        }
        let attempt = self.attempt.take()?;
        self.note_attempt(now.since(attempt.began_at()));
        Some(attempt)
    }

    /// An attempt has come and gone before anybody has looked.
    pub(crate) fn stop_unseen(&mut self, body: Body, took: Duration) {
        self.body = Some(body);
        self.note_attempt(took);
    }

    fn note_attempt(&mut self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(NEVER).min(NEVER - 1);
        let last_ns = std::mem::replace(&mut self.last_duration_ns, took_ns);
        if last_ns != NEVER {
            let earlier_ns = &mut self.rare_mut().earlier_ns;
            *earlier_ns = earlier_ns.saturating_add(last_ns);
        }
    }
}

//! What the driver keeps beside the engine for each work: its name, its body, its past.
//!
//! There is one for every work until it is forgotten, so what few works have is kept apart.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use windlass_core::Timestamp;

use crate::context::AttemptCell;
use crate::gate::Gate;
use crate::reference::End;
use crate::work::Work;

/// In one cache line of its own: works are looked at in any order.
#[repr(align(64))]
pub(crate) struct Entry {
    pub(crate) name: Arc<str>,
    /// Absent while an attempt is under way.
    pub(crate) body: Option<Box<dyn Work>>,
    /// The attempt under way.
    pub(crate) attempt: Option<Arc<AttemptCell>>,
    rare: Option<Box<Rare>>,
    last_duration_ns: u64,
    /// How often it may be tried again in all.
    pub(crate) retries: u32,
    /// Whether an attempt has returned, or was lost.
    has_tried: bool,
}

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
    pub(crate) end: Option<oneshot::Sender<End>>,
    /// The attempt is gone, and ends as soon as its children have.
    pub(crate) abandoned: bool,
    /// How long all attempts before the latest took.
    earlier_ns: u64,
}

thread_local! {
    /// Of the work that came last: many have the same, the name of their type.
    static LAST_NAME: RefCell<Arc<str>> = RefCell::default();
}

/// A name as it is kept.
pub(crate) fn shared_name(name: &str) -> Arc<str> {
    LAST_NAME.with_borrow_mut(|last| {
        if **last != *name {
            *last = name.into();
        }
        Arc::clone(last)
    })
}

impl Entry {
    pub(crate) fn new(name: Arc<str>, body: Box<dyn Work>, retries: u32) -> Self {
        Self {
            name,
            body: Some(body),
            attempt: None,
            rare: None,
            last_duration_ns: 0,
            retries,
            has_tried: false,
        }
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

    pub(crate) fn last_error(&self) -> Option<&String> {
        self.rare()?.last_error.as_ref()
    }

    /// How long the latest attempt took.
    pub(crate) fn last_duration(&self) -> Option<Duration> {
        self.has_tried.then(|| Duration::from_nanos(self.last_duration_ns))
    }

    /// How long all attempts took together.
    pub(crate) fn total_duration(&self) -> Duration {
        let earlier_ns = self.rare().map_or(0, |rare| rare.earlier_ns);
        Duration::from_nanos(earlier_ns.saturating_add(self.last_duration_ns))
    }

    /// An attempt begins.
    pub(crate) fn start(&mut self, cell: Arc<AttemptCell>, now: Timestamp) -> Box<dyn Work> {
        cell.begin(now);
        self.attempt = Some(cell);
        self.take_body()
    }

    /// Its body, for whoever runs it.
    pub(crate) fn take_body(&mut self) -> Box<dyn Work> {
        self.body.take().expect("a body is there between attempts")
    }

    /// An attempt has returned, or was lost together with its body.
    pub(crate) fn stop(
        &mut self,
        body: Option<Box<dyn Work>>,
        now: Timestamp,
    ) -> Option<Arc<AttemptCell>> {
        self.body = body;
        if let Some(rare) = &mut self.rare {
            rare.abandoned = false;
        }
        let attempt = self.attempt.take()?;
        self.note_attempt(now.since(attempt.began_at()));
        Some(attempt)
    }

    /// An attempt has come and gone before anybody has looked.
    pub(crate) fn stop_unseen(&mut self, body: Box<dyn Work>, took: Duration) {
        self.body = Some(body);
        self.note_attempt(took);
    }

    fn note_attempt(&mut self, took: Duration) {
        if std::mem::replace(&mut self.has_tried, true) {
            let last_ns = self.last_duration_ns;
            let earlier_ns = &mut self.rare_mut().earlier_ns;
            *earlier_ns = earlier_ns.saturating_add(last_ns);
        }
        self.last_duration_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    }
}

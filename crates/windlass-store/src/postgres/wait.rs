//! A wait for the database, or for another writer that has the turn.

use std::time::{Duration, Instant};

use crate::writer_wait::{Blocker, WriterWait};

/// After how long attempts to reach the database become rarer.
const LATER: Duration = Duration::from_secs(1);

/// A wait that has begun.
pub(super) struct Wait {
    database: String,
    begun: Instant,
    /// Since when nothing was seen to end.
    stalled: Instant,
    oldest: Option<String>,
    /// Why the database cannot be reached.
    away: Option<String>,
}

impl Wait {
    pub(super) fn start(database: String) -> Self {
        let now = Instant::now();
        Self { database, begun: now, stalled: now, oldest: None, away: None }
    }

    /// Notes which transaction is the oldest, or why the database cannot be reached.
    pub(super) fn observe(&mut self, oldest: Option<String>, away: Option<String>) {
        // The writer that has the turn began before all that wait, so the oldest transaction does not end
        // before it.
        if oldest.is_some() && oldest != self.oldest {
            self.stalled = Instant::now();
        }
        (self.oldest, self.away) = (oldest, away);
    }

    pub(super) fn is_later(&self) -> bool {
        self.begun.elapsed() >= LATER
    }
}

impl WriterWait for Wait {
    fn stalled_for(&self) -> Duration {
        self.stalled.elapsed()
    }

    fn blocker(&self) -> Blocker {
        match &self.away {
            Some(why) => Blocker::away(why.clone()),
            None => Blocker::new(format!("database {}", self.database).into(), None),
        }
    }

    /// The next writer after a restart of the server does so by itself.
    fn keep_leases(&self) -> bool {
        false
    }
}

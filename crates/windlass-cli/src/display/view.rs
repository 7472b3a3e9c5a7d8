//! A way of showing a run.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::board::{Board, Event};
use super::change::Ending;

/// A way of showing a run. The display thread calls it, so it may take any time.
pub(crate) trait View: Send {
    /// Called before the first event.
    fn begin(&mut self, board: &Board);
    /// Called when something has happened to a step, after the board has recorded it.
    fn event(&mut self, board: &Board, event: &Event);
    /// A message about the run itself.
    fn notice(&mut self, board: &Board, said: &str);
    /// Called when `count` changes were left out because showing took too long.
    fn left_out(&mut self, board: &Board, count: u64);
    /// Called when a signal has asked the run to stop.
    fn stopping(&mut self, board: &Board);
    /// Called regularly. Returns after which time to call again.
    fn tick(&mut self, board: &Board) -> Duration;
    /// Called at the end; no other call follows.
    fn end(&mut self, board: &Board, ending: Ending);
}

/// The display's own clock: the wall clock at its start, and a steady clock from there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    wall_ms: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_ms = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        Self { began: Instant::now(), wall_ms }
    }

    /// Returns the time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        let elapsed = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.wall_ms.saturating_add(elapsed)
    }
}

//! A way of showing a run.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::board::{Board, Event};
use super::change::Ending;

/// A way of showing a run. It has a thread of its own and may take as long as it likes.
pub(crate) trait View: Send {
    /// Before anything happens.
    fn begin(&mut self, board: &Board);
    /// Something happened to a step; the board knows already.
    fn event(&mut self, board: &Board, event: &Event);
    /// There is something to say about the run itself.
    fn notice(&mut self, board: &Board, said: &str);
    /// So many changes were left out because showing took too long.
    fn left_out(&mut self, board: &Board, count: u64);
    /// A signal has asked the run to stop: running steps are being ended.
    fn stopping(&mut self, board: &Board);
    /// Time has passed. Returns when to call again, whatever happens.
    fn tick(&mut self, board: &Board) -> Duration;
    /// It is over; nothing comes after this.
    fn end(&mut self, board: &Board, ending: Ending);
}

/// The display's own time: the wall clock when it began, and steadily on from there.
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

    /// Since it began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> u64 {
        let elapsed = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.wall_ms.saturating_add(elapsed)
    }
}

//! The live display: finished steps scroll by, a block below shows what goes on.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use signal_hook::consts::SIGCONT;
use windlass_server::{Expectations, StoreOpener};

use super::board::{Board, Event, Kind};
use super::change::Ending;
use super::estimate::{Left, left};
use super::failure;
use super::frame::{Cut, Frame};
use super::line::Line;
use super::recap::Recap;
use super::render::{Layout, Scene, block, finished};
use super::stream::Stream;
use super::tail::last_line;
use super::view::{Clock, View};
use super::words::{beginning, ending};
use super::{Outline, Verb};
use crate::clean::Keep;
use crate::style::{Colours, Ink, Style, plain};

/// How often the block is drawn while steps run.
const FRAME: Duration = Duration::from_millis(100);
/// How often otherwise, and how often the time that is left is computed.
const SECOND: Duration = Duration::from_secs(1);
/// How many blocked steps get a line each; a footer counts all of them.
const BLOCKED: usize = 10;
/// Up to how many steps a run may have for what they print to be shown when they succeed.
const SMALL: usize = 20;

/// A terminal on which a run is shown while it goes on.
pub(crate) struct Live {
    verb: Verb,
    err: Stream,
    style: Style,
    clock: Clock,
    past: Option<StoreOpener>,
    expected: Expectations,
    frame: Frame,
    /// Complete lines to be shown above the block.
    scrolled: String,
    last_lines: LastLines,
    names: usize,
    left: Left,
    /// When, on the display's own clock, the block was drawn, is drawn again, and the time left is
    /// computed again.
    last_frame: Duration,
    next_frame: Duration,
    next_left: Duration,
    /// The process was stopped and goes on; meanwhile another process has written to the terminal.
    continued: Arc<AtomicBool>,
    stopping: bool,
}

impl Live {
    pub(crate) fn new(verb: Verb, style: Style, past: StoreOpener) -> Self {
        let continued = Arc::new(AtomicBool::new(false));
        // Without it, a shell's lines may be drawn over, and nothing else happens.
        let _ = signal_hook::flag::register(SIGCONT, Arc::clone(&continued));
        Self {
            verb,
            err: Stream::stderr(),
            style,
            clock: Clock::start(),
            past: Some(past),
            expected: Expectations::default(),
            frame: Frame::default(),
            scrolled: String::new(),
            last_lines: LastLines::default(),
            names: 0,
            left: Left::Unknown,
            last_frame: Duration::ZERO,
            next_frame: Duration::ZERO,
            next_left: Duration::ZERO,
            continued,
            stopping: false,
        }
    }

    fn layout(&self) -> Layout {
        let (columns, rows) = size();
        Layout { style: self.style, columns, rows, names: self.names }
    }

    fn scroll(&mut self, line: &Line, columns: usize) {
        self.scrolled.push_str(&line.within(columns.saturating_sub(1), &self.style));
        self.scrolled.push('\n');
    }

    /// Shows the last lines of what a step has printed.
    fn scroll_output(&mut self, board: &Board, event: &Event) {
        let keep = match self.style.colours {
            Colours::Plain => Keep::Nothing,
            Colours::Ansi => Keep::Colours,
        };
        let Some(recap) = event.log.as_deref().and_then(|log| Recap::of(log, keep)) else { return };
        if recap.cut {
            let target = format!("{}/{}", board.outline.run, board.step(event.step).label);
            let more = format!("    the last lines of more: windlass log {target}");
            self.scroll(&Line::new().ink(Ink::Dim, more), usize::MAX);
        }
        self.scrolled.push_str(&recap.text);
    }

    /// Has the block drawn soon, though nothing moves in it.
    fn hurry(&mut self) {
        self.next_frame = self.next_frame.min(self.last_frame + FRAME);
    }

    fn draw(&mut self, board: &Board) {
        let layout = self.layout();
        let scene = Scene {
            board,
            expected: &|step| expected(&self.expected, step),
            last_lines: &self.last_lines.texts,
            left: self.left,
            stopping: self.stopping,
            elapsed: self.clock.elapsed(),
            now_ms: self.clock.now_ms(),
            layout: &layout,
        };
        let room = layout.columns.saturating_sub(1);
        let cut = |line: Line| Cut {
            shown: line.within(room, &self.style),
            columns: line.columns().min(room),
        };
        let block: Vec<_> = block(&scene).into_iter().map(cut).collect();
        let scrolled = std::mem::take(&mut self.scrolled);
        self.err.write(self.frame.draw(&scrolled, &block, layout.columns));
    }

    /// In the background another process has the terminal: lines are printed, but nothing is redrawn.
    fn keep_out(&mut self) {
        self.frame.abandon();
        self.err.write(std::mem::take(&mut self.scrolled));
    }

    fn estimate(&mut self, board: &Board) {
        if self.clock.elapsed() < self.next_left {
            return;
        }
        self.next_left = self.clock.elapsed() + SECOND;
        if let Some(mut store) = self.past.take().and_then(|past| past.open().ok()) {
            let Outline { run, workflow, .. } = &board.outline;
            // Without the past nothing is expected, and all else is shown.
            self.expected = Expectations::of(&mut store, workflow, run).unwrap_or_default();
        }
        self.left = left(board, &|step| expected(&self.expected, step), self.clock.now_ms());
    }
}

impl View for Live {
    fn begin(&mut self, board: &Board) {
        self.names = Layout::names(board);
        self.scroll(&beginning(board, self.verb.words()), size().0);
    }

    fn event(&mut self, board: &Board, event: &Event) {
        self.hurry();
        let line = match event.kind {
            Kind::Started | Kind::Waits => return,
            Kind::Blocked if board.counts().blocked > BLOCKED + 1 => return,
            Kind::Blocked if board.counts().blocked > BLOCKED => {
                Line::new().ink(Ink::Dim, "  more are blocked; they are counted below")
            }
            _ => finished(board, event, &self.layout()),
        };
        self.scroll(&line, size().0);
        if event.kind == Kind::Succeeded && board.outline.steps.len() <= SMALL {
            self.scroll_output(board, event);
        }
    }

    fn tick(&mut self, board: &Board) -> Duration {
        let now = self.clock.elapsed();
        if now < self.next_frame {
            return self.next_frame - now;
        }
        // Pairs with the store in the signal's handler, and orders nothing else.
        if self.continued.swap(false, Ordering::Relaxed) {
            self.frame.abandon();
        }
        let foreground = is_foreground();
        if foreground {
            self.estimate(board);
            self.last_lines.look(board);
            self.draw(board);
        } else {
            self.keep_out();
        }
        let moves = foreground && board.counts().running > 0;
        self.last_frame = self.clock.elapsed();
        self.next_frame = self.last_frame + if moves { FRAME } else { SECOND };
        self.next_frame - self.last_frame
    }

    fn stopping(&mut self, _board: &Board) {
        self.stopping = true;
        self.hurry();
    }

    fn notice(&mut self, _board: &Board, said: &str) {
        self.hurry();
        self.scroll(&Line::new().ink(Ink::Yellow, plain(said)), usize::MAX);
    }

    fn left_out(&mut self, _board: &Board, _count: u64) {
        // What was left out has been overtaken by what is shown.
    }

    fn end(&mut self, board: &Board, how: Ending) {
        let erased = self.frame.clear(size().0);
        self.err.write(erased + &std::mem::take(&mut self.scrolled));
        failure::in_full(board, &mut self.err, &self.style);
        for line in ending(board, how, self.clock.elapsed()) {
            self.err.line(&line.whole(&self.style));
        }
    }
}

/// The last lines of what running steps have written.
#[derive(Default)]
struct LastLines {
    texts: HashMap<usize, String>,
    /// How long each log was at the last look.
    lengths: HashMap<usize, (u32, u64)>,
}

impl LastLines {
    fn look(&mut self, board: &Board) {
        self.texts.retain(|place, _| board.attempt(*place).is_some());
        self.lengths.retain(|place, _| board.attempt(*place).is_some());
        for (place, attempt) in board.running() {
            let Some(log) = attempt.log.as_deref() else { continue };
            let Ok(length) = length(log) else { continue };
            let now = (attempt.number, length);
            if self.lengths.insert(place, now) != Some(now)
                && let Ok(last) = last_line(log)
            {
                self.texts.insert(place, last);
            }
        }
    }
}

fn expected(expected: &Expectations, step: &str) -> Option<Duration> {
    let median = expected.step(step)?.median_ms;
    Some(Duration::from_millis(u64::try_from(median).unwrap_or_default()))
}

fn length(log: &Path) -> io::Result<u64> {
    Ok(fs::metadata(log)?.len())
}

/// How many columns and rows the terminal has at this moment.
fn size() -> (usize, usize) {
    let size = tcgetwinsize(io::stderr()).ok().filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or((80, 24), |size| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Whether the terminal is ours to draw on.
fn is_foreground() -> bool {
    tcgetpgrp(io::stderr()).map_or(true, |group| group == getpgrp())
}

//! The live display: finished steps scroll by above a block of running and waiting steps.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::SIGCONT;
use windlass_server::{Expectations, LogCursor, ShownLogs, StoreOpener};

use super::board::{Board, Event, Kind};
use super::change::Ending;
use super::estimate::{Left, left};
use super::failure::Report;
use super::line::Line;
use super::recap::Recap;
use super::render::{Layout, Scene, block, finished};
use super::tail::last_line;
use super::terminal::{Terminal, columns_and_rows, is_foreground};
use super::view::{Clock, View};
use super::words::{beginning, ending};
use super::{Outline, Verb};
use crate::clean::Keep;
use crate::style::{Colours, Ink, Style, plain};

/// The interval between two drawings of the block while steps run.
const FRAME: Duration = Duration::from_millis(100);
/// The interval between two drawings otherwise, and between two estimates of the remaining time.
const SECOND: Duration = Duration::from_secs(1);
/// The interval between two questions to a server for the logs of running steps.
const LOOK_ELSEWHERE: Duration = Duration::from_millis(500);
/// The number of blocked steps that get a line each; the footer counts all of them.
const BLOCKED: usize = 10;
/// The number of steps up to which the output of successful steps is shown.
const SMALL: usize = 20;

/// A live display of a run.
pub(crate) struct Live {
    verb: Verb,
    terminal: Terminal,
    clock: Clock,
    forecast: Forecast,
    logs: ShownLogs,
    last_lines: LastLines,
    /// The number of columns of the longest name.
    names: usize,
    redraw: Redraw,
    /// Set by SIGCONT: another process may have written to the terminal while this one was stopped.
    continued: Arc<AtomicBool>,
    stopping: bool,
}

impl Live {
    pub(crate) fn new(verb: Verb, style: Style, past: StoreOpener, logs: ShownLogs) -> Self {
        let continued = Arc::new(AtomicBool::new(false));
        // If this fails, the block may overwrite lines of the shell.
        let _ = signal_hook::flag::register(SIGCONT, Arc::clone(&continued));
        Self {
            verb,
            terminal: Terminal::new(style),
            clock: Clock::start(),
            forecast: Forecast::new(past),
            logs,
            last_lines: LastLines::default(),
            names: 0,
            redraw: Redraw::default(),
            continued,
            stopping: false,
        }
    }

    fn layout(&self) -> Layout {
        let (columns, rows) = columns_and_rows();
        Layout { style: self.terminal.style, columns, rows, names: self.names }
    }

    /// Shows the last lines of a step's output.
    fn scroll_output(&mut self, board: &Board, event: &Event) {
        let keep = match self.terminal.style.colours {
            Colours::Plain => Keep::Nothing,
            Colours::Ansi => Keep::Colours,
        };
        let recap = event.log.as_deref().and_then(|log| Recap::of(&mut self.logs, log, keep));
        let Some(recap) = recap else { return };
        if recap.cut {
            let target = format!("{}/{}", board.outline.run, board.step(event.step).label);
            let more = format!("    the last lines; for all: windlass log {target}");
            self.terminal.scroll_whole(&Line::new().ink(Ink::Dim, more));
        }
        self.terminal.scroll_text(&recap.text);
    }

    fn draw(&mut self, board: &Board) {
        let layout = self.layout();
        let scene = Scene {
            board,
            expected: &|step| self.forecast.duration(step),
            last_lines: &self.last_lines.texts,
            left: self.forecast.left,
            stopping: self.stopping,
            elapsed: self.clock.elapsed(),
            now_ms: self.clock.now_ms(),
            layout: &layout,
        };
        self.terminal.draw(block(&scene), layout.columns);
    }
}

impl View for Live {
    fn begin(&mut self, board: &Board) {
        self.names = Layout::names(board);
        self.terminal.scroll(&beginning(board, self.verb.words()));
    }

    fn event(&mut self, board: &Board, event: &Event) {
        self.redraw.soon();
        let line = match event.kind {
            Kind::Started | Kind::Waits => return,
            Kind::Blocked if board.counts().blocked > BLOCKED + 1 => return,
            Kind::Blocked if board.counts().blocked > BLOCKED => {
                Line::new().ink(Ink::Dim, "  more are blocked; they are counted below")
            }
            _ => finished(board, event, &self.layout()),
        };
        self.terminal.scroll(&line);
        if event.kind == Kind::Succeeded && board.outline.steps.len() <= SMALL {
            self.scroll_output(board, event);
        }
    }

    fn tick(&mut self, board: &Board) -> Duration {
        let now = self.clock.elapsed();
        if now < self.redraw.next {
            return self.redraw.next - now;
        }
        // Pairs with the store in the signal's handler, and orders nothing else.
        if self.continued.swap(false, Ordering::Relaxed) {
            self.terminal.abandon_block();
        }
        let foreground = is_foreground();
        if foreground {
            self.forecast.update(board, &self.clock);
            let now = self.clock.elapsed();
            self.last_lines.look(board, &mut self.logs, now);
            self.draw(board);
        } else {
            self.terminal.print_lines();
        }
        let moves = foreground && board.counts().running > 0;
        self.redraw.after(self.clock.elapsed(), if moves { FRAME } else { SECOND })
    }

    fn stopping(&mut self, _board: &Board) {
        self.stopping = true;
        self.redraw.soon();
    }

    fn notice(&mut self, _board: &Board, said: &str) {
        self.redraw.soon();
        self.terminal.scroll_whole(&Line::new().ink(Ink::Yellow, plain(said)));
    }

    fn left_out(&mut self, _board: &Board, _count: u64) {
        // The display shows later changes of the same steps.
    }

    fn end(&mut self, board: &Board, how: Ending) {
        self.terminal.erase_block();
        let Terminal { err, style, .. } = &mut self.terminal;
        Report { board, logs: &mut self.logs, err, style }.in_full();
        for line in ending(board, how, self.clock.elapsed()) {
            err.line(&line.whole(style));
        }
    }
}

/// When the block was drawn and is drawn again, on the display's own clock.
#[derive(Default)]
struct Redraw {
    last: Duration,
    next: Duration,
}

impl Redraw {
    /// Brings the next drawing forward to one frame after the last.
    fn soon(&mut self) {
        self.next = self.next.min(self.last + FRAME);
    }

    /// Records a drawing, and returns how long to wait for the next.
    fn after(&mut self, now: Duration, wait: Duration) -> Duration {
        *self = Self { last: now, next: now + wait };
        wait
    }
}

/// How long steps and the run are expected to take.
struct Forecast {
    /// None once earlier runs have been read.
    past: Option<StoreOpener>,
    expected: Expectations,
    left: Left,
    /// When the remaining time is computed again, on the display's own clock.
    next: Duration,
}

impl Forecast {
    fn new(past: StoreOpener) -> Self {
        let (expected, left) = (Expectations::default(), Left::Unknown);
        Self { past: Some(past), expected, left, next: Duration::ZERO }
    }

    /// Computes the remaining time, at most once a second.
    fn update(&mut self, board: &Board, clock: &Clock) {
        if clock.elapsed() < self.next {
            return;
        }
        self.next = clock.elapsed() + SECOND;
        if let Some(mut store) = self.past.take().and_then(|past| past.open().ok()) {
            let Outline { run, workflow, .. } = &board.outline;
            // If earlier runs cannot be read, nothing is expected.
            self.expected = Expectations::of(&mut store, workflow, run).unwrap_or_default();
        }
        self.left = left(board, &|step| self.duration(step), clock.now_ms());
    }

    fn duration(&self, step: &str) -> Option<Duration> {
        let median = self.expected.step(step)?.median_ms;
        Some(Duration::from_millis(u64::try_from(median).unwrap_or_default()))
    }
}

/// The last lines of output of the running steps.
#[derive(Default)]
struct LastLines {
    texts: HashMap<usize, String>,
    /// The attempt, and where its log ended at the last look.
    ends: HashMap<usize, (u32, LogCursor)>,
    /// When to ask a server again, on the display's own clock.
    next_elsewhere: Duration,
}

impl LastLines {
    fn look(&mut self, board: &Board, logs: &mut ShownLogs, now: Duration) {
        self.texts.retain(|place, _| board.attempt(*place).is_some());
        self.ends.retain(|place, _| board.attempt(*place).is_some());
        if logs.may_be_elsewhere() {
            if now < self.next_elsewhere {
                return;
            }
            self.next_elsewhere = now + LOOK_ELSEWHERE;
            let running = board.running().filter_map(|(_, attempt)| attempt.log.as_deref());
            // A log that cannot be read now is read again at the next look.
            let _ = logs.look_at(running);
        }
        for (place, attempt) in board.running() {
            let Some(log) = attempt.log.as_deref() else { continue };
            let Ok(end) = logs.end(log) else { continue };
            let now = (attempt.number, end);
            if self.ends.insert(place, now) != Some(now)
                && let Ok(last) = last_line(logs, log)
            {
                self.texts.insert(place, last);
            }
        }
    }
}

//! The lines of a live display: one for each step that ends, and the block below them.
//!
//! Pure functions of the board, the size of the terminal and the time.

use std::collections::HashMap;
use std::time::Duration;

use super::board::{Board, Event, Kind};
use super::estimate::{Expected, Left};
use super::line::Line;
use super::words::{attempt, because, next, rounded, stopping};
use crate::style::{Ink, Letters, Style, columns_of, fit, pad};

/// The maximum number of columns of a name.
const LONGEST_NAME: usize = 32;
/// The number of columns that fits most times.
const TIME: usize = 10;
/// The number of columns from which times are aligned.
const WIDE: usize = 60;
/// The maximum number of waiting steps to show.
const WAITING: usize = 3;

/// What a block is drawn from.
pub(crate) struct Scene<'a> {
    pub(crate) board: &'a Board,
    pub(crate) expected: Expected<'a>,
    /// The last lines of output, by the index of the step.
    pub(crate) last_lines: &'a HashMap<usize, String>,
    pub(crate) left: Left,
    /// Whether a signal has asked the run to stop.
    pub(crate) stopping: bool,
    /// How long this process has shown the run.
    pub(crate) elapsed: Duration,
    /// Milliseconds since 1970.
    pub(crate) now_ms: u64,
    pub(crate) layout: &'a Layout,
}

/// The size of the terminal, and what it can show.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) style: Style,
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    /// The number of columns of the longest name.
    pub(crate) names: usize,
}

impl Layout {
    /// Returns the number of columns of the longest name, up to a limit.
    pub(crate) fn names(board: &Board) -> usize {
        let widths = board.outline.steps.iter().map(|step| columns_of(&step.label));
        widths.max().unwrap_or_default().min(LONGEST_NAME)
    }

    /// Returns a name, padded or cut to the width of all names.
    fn name(&self, label: &str) -> String {
        let columns = self.names.min(self.columns / 2);
        pad(&fit(label, columns, self.style.letters), columns)
    }

    /// Returns a time, aligned with those of other lines if the terminal is wide.
    fn time(&self, time: Option<Duration>) -> String {
        let text = time.map(rounded).unwrap_or_default();
        if self.columns < WIDE { text } else { format!("{text:>TIME$}") }
    }

    fn mark(&self, unicode: &'static str, ascii: &'static str) -> &'static str {
        match self.style.letters {
            Letters::Unicode => unicode,
            Letters::Ascii => ascii,
        }
    }
}

/// Returns the line for the end of an attempt.
pub(crate) fn finished(board: &Board, event: &Event, layout: &Layout) -> Line {
    let name = layout.name(&board.step(event.step).label);
    let said = match event.kind {
        Kind::Again if event.took.is_none() => format!("will run again{}", because(event)),
        Kind::Again => format!("{}{}; {}", attempt(event), because(event), next(event)),
        Kind::Blocked => format!("blocked{}", because(event)),
        Kind::Skipped => format!("skipped{}", because(event)),
        Kind::Cancelled => format!("cancelled{}", because(event)),
        Kind::Failed => event.why.clone().unwrap_or_else(|| "failed".to_owned()),
        _ => {
            let attempt = (event.attempt > 1).then(|| attempt(event));
            let parts: Vec<_> = attempt.into_iter().chain(event.why.clone()).collect();
            parts.join(": ")
        }
    };
    let line = Line::new().ink(event.kind.ink(), event.kind.sign(&layout.style)).text(" ");
    let line = line.text(name).text(" ").ink(Ink::Dim, layout.time(event.took));
    match event.kind {
        _ if said.is_empty() => line,
        Kind::Failed => line.text("  ").ink(Ink::Red, said),
        _ => line.text("  ").ink(Ink::Dim, said),
    }
}

/// Returns the live block: running steps, waiting steps and the footer, in at most half the rows of the
/// terminal.
pub(crate) fn block(scene: &Scene<'_>) -> Vec<Line> {
    let room = (scene.layout.rows / 2).max(1) - 1;
    let mut lines = some(scene.board.running().count(), room, "running", |count| {
        let running = scene.board.running().take(count);
        running.map(|(place, _)| running_line(scene, place)).collect()
    });
    let room = (room - lines.len()).min(WAITING);
    lines.extend(some(scene.board.waiting().len(), room, "waiting", |count| {
        let waiting = scene.board.waiting().take(count);
        waiting.map(|(place, why)| waiting_line(scene, place, why)).collect()
    }));
    lines.push(if scene.stopping { stopping(scene.board) } else { footer(scene) });
    lines
}

/// Returns as many lines as there is room for. If not all fit, the last one counts the others.
fn some(all: usize, room: usize, what: &str, lines: impl FnOnce(usize) -> Vec<Line>) -> Vec<Line> {
    match room {
        0 => Vec::new(),
        _ if all <= room => lines(all),
        _ => {
            let shown = room - 1;
            let more = Line::new().ink(Ink::Dim, format!("  and {} more {what}", all - shown));
            lines(shown).into_iter().chain([more]).collect()
        }
    }
}

fn running_line(scene: &Scene<'_>, place: usize) -> Line {
    let Scene { board, layout, .. } = scene;
    let step = board.step(place);
    let since = board.attempt(place).map_or(scene.now_ms, |attempt| attempt.since_ms);
    let elapsed = Duration::from_millis(scene.now_ms.saturating_sub(since));
    // A time below a second is not shown.
    let expected = (scene.expected)(&step.name).filter(|expected| expected.as_secs() > 0);
    let expected = expected.map(|expected| format!(" of ~{}", rounded(expected)));
    let line = Line::new().ink(Ink::Cyan, spinner(scene)).text(" ").text(layout.name(&step.label));
    let line = line.text(" ").text(layout.time(Some(elapsed)));
    let line = line.ink(Ink::Dim, expected.unwrap_or_default());
    let last_line = scene.last_lines.get(&place).map(String::as_str);
    match board.note(place).or(last_line).filter(|said| !said.is_empty()) {
        Some(said) => line.text("  ").ink(Ink::Dim, said),
        None => line,
    }
}

fn waiting_line(scene: &Scene<'_>, place: usize, why: &str) -> Line {
    let layout = scene.layout;
    let line = Line::new().ink(Ink::Dim, Kind::Waits.sign(&layout.style)).text(" ");
    let time = layout.time(None);
    line.text(layout.name(&scene.board.step(place).label))
        .text(format!(" {time}  "))
        .ink(Ink::Dim, why)
}

fn spinner(scene: &Scene<'_>) -> &'static str {
    let tick = usize::try_from(scene.elapsed.as_millis() / 100).unwrap_or_default();
    const UNICODE: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
    const ASCII: [&str; 4] = ["|", "/", "-", "\\"];
    match scene.layout.style.letters {
        Letters::Unicode => UNICODE[tick % UNICODE.len()],
        Letters::Ascii => ASCII[tick % ASCII.len()],
    }
}

/// Returns the footer: progress, resources in use and times, as far as there is room.
fn footer(scene: &Scene<'_>) -> Line {
    let (counts, usage, times) = (counts(scene), usage(scene), times(scene));
    let bar = format!(" {} ", scene.layout.mark("│", "|"));
    let join = |parts: &[&Line]| {
        let some = parts.iter().filter(|part| !part.is_empty());
        some.fold(Line::new(), |line, part| match line.is_empty() {
            true => line.join((*part).clone()),
            false => line.ink(Ink::Dim, &bar).join((*part).clone()),
        })
    };
    let board = scene.board;
    let short = format!("{}/{}", board.counts().ended(), board.outline.steps.len());
    let short = Line::new().ink(Ink::Bold, short).text(format!(" {}", rounded(scene.elapsed)));
    let forms = [join(&[&counts, &usage, &times]), join(&[&counts, &times]), short];
    let room = scene.layout.columns.saturating_sub(1);
    let fits = forms.iter().find(|line| line.columns() <= room);
    fits.unwrap_or(&forms[forms.len() - 1]).clone()
}

fn counts(scene: &Scene<'_>) -> Line {
    let counts = scene.board.counts();
    let done = format!("{} of {} done", counts.ended(), scene.board.outline.steps.len());
    let waiting = scene.board.waiting().len();
    let others = [
        (counts.running, "running", Kind::Started),
        (waiting, "waiting", Kind::Waits),
        (counts.failed, "failed", Kind::Failed),
        (counts.blocked, "blocked", Kind::Blocked),
        (counts.cancelled, "cancelled", Kind::Cancelled),
    ];
    let some = others.into_iter().filter(|(count, ..)| *count > 0);
    some.fold(Line::new().ink(Ink::Bold, done), |line, (count, word, kind)| {
        line.text(", ").ink(kind.ink(), format!("{count} {word}"))
    })
}

fn usage(scene: &Scene<'_>) -> Line {
    let board = scene.board;
    let slots = format!("slots {}/{}", board.counts().running, board.outline.slots);
    let resources = board.outline.resources.iter().zip(board.in_use());
    let resources = resources.map(|(resource, used)| {
        format!(", {} {}/{}", resource.label, used.text(), resource.limit.text())
    });
    Line::new().text(slots + &resources.collect::<String>())
}

fn times(scene: &Scene<'_>) -> Line {
    let left = match scene.left {
        Left::Unknown => String::new(),
        Left::AtLeast(left) if left.as_secs() == 0 => String::new(),
        Left::About(left) if left.as_secs() == 0 => ", any moment now".to_owned(),
        Left::About(left) => format!(", about {} left", rounded(left)),
        Left::AtLeast(left) => format!(", at least {} left", rounded(left)),
    };
    Line::new().text(rounded(scene.elapsed) + &left)
}

#[cfg(test)]
mod tests;

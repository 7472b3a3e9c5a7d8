//! When each step ran, as bars of text.

use std::ops::Range;

use windlass_server::{AttemptEnd, AttemptView, RunView, StepView};

use crate::style::{Ink, Letters, Style, fit, pad, plain};
use crate::times::{between, span};

/// The width of the timeline if the output has none.
const USUAL: usize = 100;
/// The minimum width of the bars.
const NARROWEST: usize = 10;
/// The maximum width of a name.
const WIDEST_NAME: usize = 32;

/// The time span of the timeline.
pub(super) struct Scale {
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
}

impl Scale {
    /// Returns the span from the beginning of the run to its end, or to now.
    pub(super) fn of(view: &RunView) -> Self {
        let attempts = || view.steps.iter().flat_map(|step| &step.attempts);
        let ends = attempts().map(|attempt| attempt.started_ms + attempt.duration_ms(view.now_ms));
        let from_ms = attempts().map(|attempt| attempt.started_ms).min();
        let from_ms = from_ms.map_or(view.created_ms, |first| first.min(view.created_ms));
        Self { from_ms, to_ms: ends.max().unwrap_or(from_ms).max(from_ms + 1) }
    }

    /// Returns the columns of a time span, at least one.
    fn columns(&self, from_ms: i64, to_ms: i64, width: usize) -> (usize, usize) {
        let from = (self.part(from_ms) * width as f64).floor() as usize;
        let to = (self.part(to_ms) * width as f64).ceil() as usize;
        let from = from.min(width.saturating_sub(1));
        (from, to.clamp(from + 1, width.max(from + 1)))
    }

    /// Returns the position of a time in the span, from 0 to 1.
    pub(super) fn part(&self, at_ms: i64) -> f64 {
        let whole = self.to_ms.saturating_sub(self.from_ms).max(1);
        (at_ms.saturating_sub(self.from_ms) as f64 / whole as f64).clamp(0.0, 1.0)
    }
}

/// Returns the bars of `steps`, below a line with the total time.
pub(super) fn draw(view: &RunView, steps: &[&StepView], style: &Style) -> String {
    let scale = Scale::of(view);
    let names: Vec<_> = steps.iter().map(|step| plain(&step.name)).collect();
    let longest = names.iter().map(|name| crate::style::columns_of(name)).max().unwrap_or(0);
    let all = style.width.unwrap_or(USUAL);
    let name_width = longest.min(WIDEST_NAME).min(all / 2);
    let width = all.saturating_sub(name_width + 2).max(NARROWEST);
    let mut text = ruler(&scale, name_width, width, style);
    for (step, name) in steps.iter().zip(&names) {
        let name = pad(&fit(name, name_width, style.letters), name_width);
        text += &format!("{name}  {}\n", bar(view, step, &scale, width, style));
    }
    text
}

fn ruler(scale: &Scale, name_width: usize, width: usize, style: &Style) -> String {
    let whole = span(between(scale.from_ms, scale.to_ms));
    let blanks = width.saturating_sub(1 + whole.chars().count());
    style.dim(&format!("{}  0{}{whole}", pad("", name_width), pad("", blanks))) + "\n"
}

/// Returns a row: a block for each attempt, a thin line between attempts.
fn bar(view: &RunView, step: &StepView, scale: &Scale, width: usize, style: &Style) -> String {
    let (block, between) = match style.letters {
        Letters::Unicode => ('█', '░'),
        Letters::Ascii => ('#', '.'),
    };
    let mut cells: Vec<(char, Option<Ink>)> = vec![(' ', None); width];
    let mut last = None;
    for attempt in &step.attempts {
        let end = attempt.started_ms + attempt.duration_ms(view.now_ms);
        let (from, to) = scale.columns(attempt.started_ms, end, width);
        cells[gap(last, from)].iter_mut().filter(|cell| cell.0 == ' ').for_each(|cell| {
            *cell = (between, Some(Ink::Dim));
        });
        cells[from..to].fill((block, ink(attempt)));
        last = Some(to);
    }
    let end = cells.iter().rposition(|cell| cell.0 != ' ').map_or(0, |last| last + 1);
    let runs = cells[..end].chunk_by(|one, other| one.1 == other.1);
    runs.map(|run| {
        let text: String = run.iter().map(|cell| cell.0).collect();
        run[0].1.map_or(text.clone(), |ink| style.paint(ink, &text))
    })
    .collect()
}

/// Returns the columns between two attempts. Attempts in quick succession share a column.
fn gap(last: Option<usize>, from: usize) -> Range<usize> {
    last.map_or(from, |last| last.min(from))..from
}

fn ink(attempt: &AttemptView) -> Option<Ink> {
    Some(match attempt.end {
        None => Ink::Cyan,
        Some(AttemptEnd::Success) => Ink::Green,
        Some(AttemptEnd::Failed) => Ink::Red,
        Some(_) => Ink::Yellow,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_that_share_a_column_have_nothing_between_them() {
        assert_eq!((gap(None, 4), gap(Some(2), 4)), (4..4, 2..4));
        assert!(gap(Some(4), 4).is_empty() && gap(Some(5), 4).is_empty());
        assert!([0; 5].get(gap(Some(5), 4)).is_some(), "it can be cut out");
    }

    #[test]
    fn every_stretch_takes_at_least_one_column_and_none_outside() {
        let scale = Scale { from_ms: 1000, to_ms: 2000 };
        for (from, to, columns) in [
            (1000, 2000, (0, 10)),
            (1000, 1000, (0, 1)),
            (1500, 1501, (5, 6)),
            (1500, 1740, (5, 8)),
            (2000, 2000, (9, 10)),
            (2000, 9000, (9, 10)),
            (i64::MIN, i64::MAX, (0, 10)),
        ] {
            assert_eq!(scale.columns(from, to, 10), columns, "{from} to {to}");
        }
        assert_eq!(scale.columns(1000, 2000, 0), (0, 1), "a bar is never empty");
    }
}

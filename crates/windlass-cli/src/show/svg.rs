//! When each step ran, as a picture: one file that needs nothing else, for light and dark pages.

use std::collections::BTreeSet;
use std::fmt::Write;

use windlass_server::{AttemptEnd, AttemptView, CriticalPath, RunView, StepView};

use super::timeline::Scale;
use crate::look::end_and_reason;
use crate::style::columns_of;
use crate::times::{between, span};

const ROW: usize = 24;
const BAR: usize = 14;
const TOP: usize = 56;
const CHART: usize = 900;
/// The average width of a letter.
const LETTER: usize = 7;
const MARGIN: usize = 16;
/// The maximum number of times on the axis.
const TICKS: i64 = 8;

const STYLE: &str = "\
text { font: 12px system-ui, sans-serif; fill: #24292f }
.page { fill: #ffffff } .grid { stroke: #d0d7de } .muted { fill: #57606a }
.success { fill: #2da44e } .failed { fill: #cf222e } .again { fill: #d4a72c } .running { fill: #218bff }
.critical { stroke: #24292f; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .page { fill: #0d1117 } .grid { stroke: #30363d } .muted { fill: #8d96a0 }
.success { fill: #3fb950 } .failed { fill: #f85149 } .again { fill: #d29922 } .running { fill: #58a6ff }
.critical { stroke: #e6edf3 }
}";

/// Returns the timeline of a run; steps on its critical path are outlined.
pub(super) fn draw(view: &RunView, path: &CriticalPath) -> String {
    let picture = Picture::new(view, path);
    let mut svg = picture.frame();
    picture.axis(&mut svg);
    for (row, (place, step)) in picture.rows.iter().enumerate() {
        picture.row(&mut svg, row, *place, step);
    }
    svg + "</svg>\n"
}

struct Picture<'a> {
    view: &'a RunView,
    critical: BTreeSet<usize>,
    scale: Scale,
    rows: Vec<(usize, &'a StepView)>,
    /// The x coordinate at which the bars begin.
    left: usize,
}

impl<'a> Picture<'a> {
    fn new(view: &'a RunView, path: &CriticalPath) -> Self {
        let begun = view.steps.iter().enumerate().filter(|(_, step)| !step.attempts.is_empty());
        let rows: Vec<_> = begun.collect();
        let longest = rows.iter().map(|(_, step)| columns_of(&step.name)).max().unwrap_or(0);
        let left = MARGIN * 2 + longest.min(60) * LETTER;
        Self {
            view,
            critical: path.steps.iter().copied().collect(),
            scale: Scale::of(view),
            rows,
            left,
        }
    }

    fn width(&self) -> usize {
        self.left + CHART + MARGIN
    }

    fn height(&self) -> usize {
        TOP + self.rows.len() * ROW + MARGIN
    }

    fn frame(&self) -> String {
        let (width, height) = (self.width(), self.height());
        let view = self.view;
        let took = span(between(self.scale.from_ms, self.scale.to_ms));
        let title = format!("{} {}: {}, {took}", view.workflow, view.run.id, view.state.word());
        let title = escaped(&title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{title}</title>\n\
             <style>\n{STYLE}\n</style>\n\
             <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n\
             <text x=\"{MARGIN}\" y=\"22\" font-weight=\"bold\">{title}</text>\n"
        )
    }

    fn axis(&self, svg: &mut String) {
        let whole = self.scale.to_ms.saturating_sub(self.scale.from_ms);
        let step = tick(whole);
        for at in (0..).map(|tick| tick * step).take_while(|at| *at <= whole) {
            let x = self.x(self.scale.from_ms + at);
            let (bottom, said) = (self.height() - MARGIN, span(between(0, at)));
            push(
                svg,
                &format!(
                    "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>",
                    TOP - 8
                ),
            );
            push(
                svg,
                &format!(
                    "<text class=\"muted\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{said}</text>",
                    TOP - 14
                ),
            );
        }
    }

    fn row(&self, svg: &mut String, row: usize, place: usize, step: &StepView) {
        let y = TOP + row * ROW;
        let (x, base) = (self.left - MARGIN, y + BAR - 3);
        let name = escaped(&step.name);
        push(svg, &format!("<text x=\"{x}\" y=\"{base}\" text-anchor=\"end\">{name}</text>"));
        let critical = if self.critical.contains(&place) { " critical" } else { "" };
        for attempt in &step.attempts {
            let end_ms = attempt.started_ms + attempt.duration_ms(self.view.now_ms);
            let x = self.x(attempt.started_ms);
            let width = (self.x(end_ms) - x).max(1.0);
            let (class, title) = (class(attempt), escaped(&self.tooltip(step, attempt)));
            push(
                svg,
                &format!(
                    "<rect class=\"{class}{critical}\" x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" \
                     height=\"{BAR}\" rx=\"2\"><title>{title}</title></rect>"
                ),
            );
        }
    }

    fn tooltip(&self, step: &StepView, attempt: &AttemptView) -> String {
        let took = span(between(0, attempt.duration_ms(self.view.now_ms)));
        let end = end_and_reason(attempt);
        format!("{}, attempt {}, {took}: {end}", step.name, attempt.number)
    }

    fn x(&self, at_ms: i64) -> f64 {
        self.left as f64 + self.scale.part(at_ms) * CHART as f64
    }
}

fn push(svg: &mut String, line: &str) {
    writeln!(svg, "{line}").expect("a string takes everything");
}

fn class(attempt: &AttemptView) -> &'static str {
    match attempt.end {
        None => "running",
        Some(AttemptEnd::Success) => "success",
        Some(AttemptEnd::Failed) => "failed",
        Some(_) => "again",
    }
}

/// Returns the time between two marks on the axis: round, and large enough for few marks.
fn tick(whole_ms: i64) -> i64 {
    const ROUND: [i64; 24] = [
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 120_000,
        300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 43_200_000, 86_400_000,
    ];
    let fits = |step: &i64| whole_ms / step < TICKS;
    ROUND.into_iter().find(fits).unwrap_or((whole_ms / TICKS / 86_400_000 + 1) * 86_400_000)
}

/// Escapes a text for XML, and replaces characters that XML does not allow.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_a_few_round_marks() {
        for (whole, step) in
            [(0, 1), (7, 1), (900, 200), (7_000, 1_000), (190_000, 30_000), (3_600_000, 600_000)]
        {
            assert_eq!(tick(whole), step, "{whole} ms");
        }
        let years = 3_000 * 86_400_000;
        assert!(years / tick(years) <= TICKS, "{}", tick(years));
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escaped("<a b=\"&\">\u{1}"), "&lt;a b=&quot;&amp;&quot;&gt;\u{fffd}");
    }
}

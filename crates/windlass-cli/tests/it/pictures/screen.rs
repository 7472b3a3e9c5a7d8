//! A screen as a picture: one file that needs nothing else, for light and dark pages.

use std::fmt::Write;

use vt100::{Cell, Color, Screen};

/// Points of a letter, from which everything else is measured.
const SIZE: f32 = 14.0;
const LETTER: f32 = SIZE * 0.6;
const ROW: f32 = SIZE * 1.5;
const MARGIN: f32 = SIZE;

const STYLE: &str = "\
text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; \
white-space: pre; fill: #24292f }
.page { fill: #f6f8fa; stroke: #d0d7de } .dim { fill: #6e7781 } .bold { font-weight: bold }
.red { fill: #cf222e } .green { fill: #1a7f37 } .yellow { fill: #9a6700 } .blue { fill: #0969da }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .page { fill: #161b22; stroke: #30363d } .dim { fill: #8d96a0 }
.red { fill: #ff7b72 } .green { fill: #3fb950 } .yellow { fill: #d29922 } .blue { fill: #58a6ff }
}";

/// Draws all rows down to the last one with something in it.
pub(super) fn draw(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let rows = (0..rows).rev().find(|row| !is_blank(screen, *row)).map_or(1, |last| last + 1);
    let (width, height) = (f32::from(columns) * LETTER, f32::from(rows) * ROW);
    let (width, height) = (width + 2.0 * MARGIN, height + 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\">\n<title>a run while it goes on</title>\n\
         <style>\n{STYLE}\n</style>\n\
         <rect class=\"page\" x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"6\"/>\n",
        width - 1.0,
        height - 1.0,
    );
    (0..rows).for_each(|row| draw_row(&mut svg, screen, row));
    svg + "</svg>\n"
}

fn is_blank(screen: &Screen, row: u16) -> bool {
    let blank = |cell: &Cell| cell.contents().trim().is_empty();
    (0..screen.size().1).all(|column| screen.cell(row, column).is_none_or(blank))
}

/// Cells that look alike are one text, which begins at its column however wide letters are.
fn draw_row(svg: &mut String, screen: &Screen, row: u16) {
    let mut run = Run { column: 0, class: String::new(), text: String::new() };
    for column in 0..screen.size().1 {
        let Some(cell) = screen.cell(row, column) else { continue };
        let text = if cell.has_contents() { cell.contents() } else { " " };
        // Two blanks are a gap: what follows stands in a column of its own.
        if class(cell) != run.class || run.text.ends_with("  ") && !text.trim().is_empty() {
            run.draw(svg, row);
            run = Run { column, class: class(cell), text: String::new() };
        }
        run.text += text;
    }
    run.draw(svg, row);
}

struct Run {
    column: u16,
    class: String,
    text: String,
}

impl Run {
    fn draw(&self, svg: &mut String, row: u16) {
        let text = self.text.trim();
        if text.is_empty() {
            return;
        }
        let before = self.text.len() - self.text.trim_start().len();
        let x = MARGIN + (f32::from(self.column) + before as f32) * LETTER;
        // However wide the letters of the font are that there is.
        let length = text.chars().count() as f32 * LETTER;
        let y = MARGIN + f32::from(row) * ROW + SIZE;
        let class = match &self.class[..] {
            "" => String::new(),
            class => format!(" class=\"{class}\""),
        };
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let place = format!("x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\"");
        writeln!(svg, "<text {place}{class}>{text}</text>").expect("a text takes everything");
    }
}

/// Returns the style class of a cell.
fn class(cell: &Cell) -> String {
    let colour = match cell.fgcolor() {
        Color::Idx(1 | 9) => "red",
        Color::Idx(2 | 10) => "green",
        Color::Idx(3 | 11) => "yellow",
        Color::Idx(4 | 6 | 12 | 14) => "blue",
        Color::Idx(8) => "dim",
        _ if cell.dim() => "dim",
        _ => "",
    };
    match (colour, cell.bold()) {
        (colour, false) => colour.to_owned(),
        ("", true) => "bold".to_owned(),
        (colour, true) => format!("{colour} bold"),
    }
}

//! Tables of text that fit the width of the output.

use crate::style::{Ink, Style, columns_of, fit, pad, plain};

/// The number of blanks between two columns.
const GAP: usize = 2;
/// The minimum width of a column that is cut.
const NARROWEST: usize = 8;

/// A cell: a text, and perhaps a colour.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    ink: Option<Ink>,
}

impl Cell {
    pub(crate) fn inked(text: &str, ink: Option<Ink>) -> Self {
        Self { text: plain(text), ink }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::inked(text.as_ref(), None)
    }
}

/// A table with a header.
pub(crate) struct Table<const N: usize> {
    header: [&'static str; N],
    rows: Vec<[Cell; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(header: [&'static str; N]) -> Self {
        Self { header, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: [Cell; N]) {
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the table as text. If it is too wide, the widest columns are cut.
    pub(crate) fn render(&self, style: &Style) -> String {
        let widths = self.widths(style.width);
        let header = self.header.map(|name| Cell::inked(name, Some(Ink::Dim)));
        let mut text = String::new();
        for cells in std::iter::once(&header).chain(&self.rows) {
            text += &line(cells, &widths, style);
            text.push('\n');
        }
        text
    }

    fn widths(&self, most: Option<usize>) -> [usize; N] {
        let mut widths = self.header.map(columns_of);
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(columns_of(&cell.text));
            }
        }
        let Some(most) = most else { return widths };
        let gaps = GAP * N.saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > most {
            let widest = widths.iter_mut().max().expect("a table has columns");
            if *widest <= NARROWEST {
                break;
            }
            *widest -= 1;
        }
        widths
    }
}

/// Returns one line, without blanks at its end.
fn line(cells: &[Cell], widths: &[usize], style: &Style) -> String {
    let last = cells.iter().rposition(|cell| !cell.text.is_empty());
    let mut line = String::new();
    for (place, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        if last.is_none_or(|last| place > last) {
            break;
        }
        let text = fit(&cell.text, width, style.letters);
        let blanks = pad("", width - columns_of(&text) + GAP);
        let text = cell.ink.map_or(text.clone(), |ink| style.paint(ink, &text));
        line += &text;
        if Some(place) != last {
            line += &blanks;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::{Colours, Letters};

    fn style(width: Option<usize>) -> Style {
        Style { colours: Colours::Plain, width, letters: Letters::Unicode }
    }

    fn steps() -> Table<3> {
        let mut table = Table::new(["STEP", "STATE", "NOTE"]);
        table.row(["test[linux,unit]".into(), "failed".into(), "exit 1".into()]);
        table.row(["日本".into(), Cell::inked("ok", Some(Ink::Green)), Cell::default()]);
        table
    }

    #[test]
    fn columns_are_aligned_without_trailing_blanks() {
        let text = "\
STEP              STATE   NOTE
test[linux,unit]  failed  exit 1
日本              ok
";
        assert_eq!(steps().render(&style(None)), text);
    }

    #[test]
    fn the_widest_column_gives_way() {
        let text = "\
STEP        STATE   NOTE
test[linu…  failed  exit 1
日本        ok
";
        assert_eq!(steps().render(&style(Some(26))), text);
        let narrow = steps().render(&style(Some(3)));
        assert!(narrow.contains("test[li…  failed"), "{narrow}");
    }

    #[test]
    fn colours_take_no_columns() {
        let style = Style { colours: Colours::Ansi, ..style(None) };
        let mut table = Table::new(["A", "B"]);
        table.row([Cell::inked("x", Some(Ink::Red)), "y".into()]);
        assert!(table.render(&style).ends_with("\x1b[31mx\x1b[0m  y\n"));
    }
}

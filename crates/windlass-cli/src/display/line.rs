//! A line of text in several colours, which can be cut to a width.

use crate::style::{Ink, Style, columns_of, fit};

/// A line, part by part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    parts: Vec<(Option<Ink>, String)>,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Appends a text.
    pub(crate) fn text(mut self, text: impl Into<String>) -> Self {
        self.parts.push((None, text.into()));
        self
    }

    /// Appends a text in a colour.
    pub(crate) fn ink(mut self, ink: Ink, text: impl Into<String>) -> Self {
        self.parts.push((Some(ink), text.into()));
        self
    }

    /// Appends another line.
    pub(crate) fn join(mut self, other: Line) -> Self {
        self.parts.extend(other.parts);
        self
    }

    pub(crate) fn columns(&self) -> usize {
        self.parts.iter().map(|(_, text)| columns_of(text)).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.iter().all(|(_, text)| text.is_empty())
    }

    /// Returns the line without cutting it.
    pub(crate) fn whole(&self, style: &Style) -> String {
        self.within(usize::MAX, style)
    }

    /// Returns the line in at most this many columns, with a mark where it is cut.
    pub(crate) fn within(&self, columns: usize, style: &Style) -> String {
        let (mut left, mut out) = (columns, String::new());
        for (place, (ink, text)) in self.parts.iter().enumerate() {
            let behind: usize = self.parts[place + 1..].iter().map(|(_, t)| columns_of(t)).sum();
            let cut = columns_of(text).saturating_add(behind) > left;
            // If the rest has to be cut, the mark needs a column.
            let room = if cut && columns_of(text) >= left { left } else { columns_of(text) };
            let shown = match cut && columns_of(text) == left && behind > 0 {
                true => fit(&format!("{text} "), room, style.letters),
                false => fit(text, room, style.letters),
            };
            left -= columns_of(&shown);
            out.push_str(&ink.map_or_else(|| shown.clone(), |ink| style.paint(ink, &shown)));
            if left == 0 {
                break;
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::style::{Colours, Letters};

    const PLAIN: Style = Style { colours: Colours::Plain, width: None, letters: Letters::Unicode };
    const ANSI: Style = Style { colours: Colours::Ansi, ..PLAIN };

    fn line() -> Line {
        Line::new().ink(Ink::Green, "ok").text(" build ").ink(Ink::Dim, "日本")
    }

    #[test]
    fn a_line_is_cut_once_wherever_that_is() {
        let check = |columns: usize, expected: &str| {
            let shown = line().within(columns, &PLAIN);
            assert_eq!(shown, expected, "{columns}");
            assert!(columns_of(&shown) <= columns);
        };
        assert_eq!(line().columns(), 13);
        check(13, "ok build 日本");
        check(12, "ok build 日…");
        check(11, "ok build …");
        check(10, "ok build …");
        check(9, "ok build…");
        check(3, "ok…");
        check(2, "o…");
        check(1, "…");
        check(0, "");
    }

    #[test]
    fn colours_take_no_columns() {
        assert_eq!(line().within(9, &ANSI), "\x1b[32mok\x1b[0m build…");
        assert_eq!(line().whole(&ANSI), "\x1b[32mok\x1b[0m build \x1b[2m日本\x1b[0m");
    }
}

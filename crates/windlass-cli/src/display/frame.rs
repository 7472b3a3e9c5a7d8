//! Draws a block of lines at the bottom of a terminal, below the lines that scroll by.
//!
//! The cursor stays at the end of the block's last line. To redraw, it moves up as many rows as the block
//! takes *now*: a terminal that became narrower has wrapped lines. Everything is written in one piece, so
//! that the terminal shows no intermediate state.

#[cfg(test)]
use crate::style::columns_of;

/// Starts a synchronized update: terminals that support it show nothing until its end.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";
/// Has the terminal cut lines that are too long because it has just become narrower.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

/// The block of lines at the bottom of the terminal.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// The block's lines, without colours.
    lines: Vec<String>,
    /// The number of columns of each line.
    widths: Vec<usize>,
}

impl Frame {
    /// Returns what to write so that the terminal shows `scrolled` above `block`; nothing if it shows
    /// that already. No line of the block may be wider than `columns`.
    pub(crate) fn draw(&mut self, scrolled: &str, block: &[Cut], columns: usize) -> String {
        let shown = block.iter().map(|cut| &cut.shown);
        if scrolled.is_empty() && shown.clone().eq(&self.lines) {
            return String::new();
        }
        let erased = self.erase(columns);
        let lines = shown.map(String::as_str).collect::<Vec<_>>().join("\n");
        self.lines = block.iter().map(|cut| cut.shown.clone()).collect();
        self.widths = block.iter().map(|cut| cut.columns).collect();
        format!("{BEGIN}{erased}{scrolled}{NO_WRAP}{lines}{WRAP}{END}")
    }

    /// Returns what to write to erase the block.
    pub(crate) fn clear(&mut self, columns: usize) -> String {
        let erased = self.erase(columns);
        *self = Self::default();
        erased
    }

    /// Forgets the block without erasing it, because another process has written to the terminal.
    pub(crate) fn abandon(&mut self) {
        *self = Self::default();
    }

    fn erase(&self, columns: usize) -> String {
        let columns = columns.max(1);
        let rows: usize = self.widths.iter().map(|width| width.div_ceil(columns).max(1)).sum();
        match rows {
            0 => String::new(),
            1 => "\r\x1b[J".to_owned(),
            rows => format!("\r\x1b[{}A\x1b[J", rows - 1),
        }
    }
}

/// A line that was cut to a width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) shown: String,
    /// The number of its columns.
    pub(crate) columns: usize,
}

#[cfg(test)]
impl From<&str> for Cut {
    fn from(text: &str) -> Self {
        Self { shown: text.to_owned(), columns: columns_of(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Screen {
        parser: vt100::Parser,
        frame: Frame,
    }

    impl Screen {
        fn new(rows: u16, columns: u16) -> Self {
            let mut parser = vt100::Parser::new(rows, columns, 0);
            parser.process(b"$ windlass run\r\n");
            Self { parser, frame: Frame::default() }
        }

        /// Draws, and returns the contents of the screen.
        fn draw(&mut self, scrolled: &str, block: &[&str]) -> String {
            let columns = usize::from(self.parser.screen().size().1);
            let block: Vec<_> = block.iter().map(|line| Cut::from(*line)).collect();
            let bytes = self.frame.draw(scrolled, &block, columns);
            self.show(&bytes)
        }

        fn show(&mut self, bytes: &str) -> String {
            // The driver of a terminal does the same.
            self.parser.process(bytes.replace('\n', "\r\n").as_bytes());
            self.parser.screen().contents()
        }
    }

    #[test]
    fn the_block_stays_below_what_scrolls_by() {
        let mut screen = Screen::new(6, 20);
        assert_eq!(screen.draw("", &["a runs", "0/2"]), "$ windlass run\na runs\n0/2");
        assert_eq!(screen.draw("a done\n", &["b", "1/2"]), "$ windlass run\na done\nb\n1/2");
        assert_eq!(screen.draw("b done\n", &["2/2"]), "$ windlass run\na done\nb done\n2/2");
        let cleared = screen.frame.clear(20);
        assert_eq!(screen.show(&cleared), "$ windlass run\na done\nb done");
    }

    #[test]
    fn it_stays_there_when_the_screen_is_full() {
        let mut screen = Screen::new(4, 20);
        for number in 0..20 {
            screen.draw(&format!("{number} done\n"), &["x runs", "footer"]);
        }
        assert_eq!(screen.parser.screen().contents(), "18 done\n19 done\nx runs\nfooter");
    }

    #[test]
    fn nothing_is_written_if_nothing_has_changed() {
        let mut screen = Screen::new(6, 20);
        screen.draw("", &["a runs"]);
        assert_eq!(screen.frame.draw("", &[Cut::from("a runs")], 20), "");
        assert_ne!(screen.frame.draw("", &[Cut::from("a runs.")], 20), "");
    }

    #[test]
    fn what_the_user_typed_into_it_disappears() {
        let mut screen = Screen::new(6, 20);
        screen.draw("", &["a runs", "0/1"]);
        screen.show("^C");
        assert_eq!(screen.draw("", &["a ends", "0/1"]), "$ windlass run\na ends\n0/1");
    }

    /// Most terminals reflow lines when they become narrower.
    #[test]
    fn lines_that_a_narrower_terminal_has_broken_are_taken_away_whole() {
        let block = ["a line of forty-five columns, or a bit more..", "0/1"];
        let mut frame = Frame::default();
        frame.draw("", &block.map(Cut::from), 50);
        let mut screen = Screen { frame, ..Screen::new(8, 20) };
        screen.show(&format!("a done\n{}", block.join("\n")));
        assert_eq!(screen.parser.screen().cursor_position(), (5, 3), "three rows for one line");
        let next = screen.draw("b done\n", &["a shorter line", "0/1"]);
        assert_eq!(next, "$ windlass run\na done\nb done\na shorter line\n0/1");
    }

    #[test]
    fn a_line_that_is_too_long_this_very_moment_is_cut() {
        let mut screen = Screen::new(6, 8);
        let long = [Cut::from("a line of 20 columns"), Cut::from("0/1")];
        let bytes = screen.frame.draw("", &long, 40);
        assert!(bytes.contains(NO_WRAP) && bytes.ends_with(&format!("{WRAP}{END}")), "{bytes:?}");
    }
}

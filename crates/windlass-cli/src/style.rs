//! The style of text on a terminal: colours, width, and characters that must not reach it.
//!
//! A terminal gets colours unless `NO_COLOR` or `TERM=dumb` is set; with `CLICOLOR_FORCE`, every output
//! does. Names and messages come from outside, so characters that move the cursor or reverse text are
//! replaced by a mark.

use std::env;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use windlass_server::is_unprintable;

/// What an output can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) colours: Colours,
    /// The number of columns; none if lines may have any length.
    pub(crate) width: Option<usize>,
    pub(crate) letters: Letters,
}

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colours {
    Plain,
    Ansi,
}

/// The characters of bars and marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Letters {
    Ascii,
    Unicode,
}

/// A colour or a weight of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Green,
    Red,
    Yellow,
    Cyan,
    Dim,
    Bold,
}

impl Style {
    /// Returns what standard output can show.
    pub(crate) fn of_stdout() -> Self {
        Self::of(&io::stdout())
    }

    /// Returns what standard error can show.
    pub(crate) fn of_stderr() -> Self {
        Self::of(&io::stderr())
    }

    fn of(output: &(impl IsTerminal + AsFd)) -> Self {
        let terminal = output.is_terminal();
        Self {
            colours: Colours::wanted(terminal, variable),
            width: width(terminal.then(|| output.as_fd()).and_then(columns), variable),
            letters: Letters::spoken(variable),
        }
    }

    /// Returns the text in a colour, if the output has colours.
    pub(crate) fn paint(&self, ink: Ink, text: &str) -> String {
        if self.colours == Colours::Plain || text.is_empty() {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Green => "32",
            Ink::Red => "31",
            Ink::Yellow => "33",
            Ink::Cyan => "36",
            Ink::Dim => "2",
            Ink::Bold => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    pub(crate) fn dim(&self, text: &str) -> String {
        self.paint(Ink::Dim, text)
    }

    pub(crate) fn bold(&self, text: &str) -> String {
        self.paint(Ink::Bold, text)
    }
}

/// Returns an environment variable that is set and not empty.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns whether a terminal can move its cursor, according to `TERM`.
pub(crate) fn moves_cursor(read: impl Fn(&str) -> Option<String>) -> bool {
    read("TERM").is_some_and(|term| term != "dumb")
}

impl Colours {
    /// Returns the colours that the environment variables ask for.
    fn wanted(terminal: bool, read: impl Fn(&str) -> Option<String>) -> Self {
        let forced = read("CLICOLOR_FORCE").is_some_and(|value| value != "0");
        if read("NO_COLOR").is_some() {
            Colours::Plain
        } else if forced || terminal && moves_cursor(read) {
            Colours::Ansi
        } else {
            Colours::Plain
        }
    }
}

impl Letters {
    /// Returns the characters of the locale. The first of its variables that is set decides.
    fn spoken(read: impl Fn(&str) -> Option<String>) -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(read);
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        if locale.contains("utf-8") || locale.contains("utf8") {
            Letters::Unicode
        } else {
            Letters::Ascii
        }
    }
}

fn columns(terminal: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(terminal).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Returns the width. `COLUMNS` counts before the terminal's own width, so that scripts can choose it.
fn width(terminal: Option<usize>, read: impl Fn(&str) -> Option<String>) -> Option<usize> {
    let said = read("COLUMNS").and_then(|columns| columns.parse::<u16>().ok());
    said.filter(|columns| *columns > 0).map(usize::from).or(terminal)
}

/// Returns the number of columns of a text.
pub(crate) fn columns_of(text: &str) -> usize {
    text.width()
}

/// Returns the text with a mark in place of each character that would change the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if is_unprintable(c) { '\u{fffd}' } else { c }).collect()
}

/// Returns the text in at most `width` columns, with an ellipsis if it is cut.
pub(crate) fn fit(text: &str, width: usize, letters: Letters) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let ellipsis = match letters {
        Letters::Unicode => "…",
        Letters::Ascii => "~",
    };
    let (mut kept, mut used) = (String::new(), ellipsis.width());
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        kept.push(c);
    }
    if ellipsis.width() <= width { kept + ellipsis } else { kept }
}

/// Returns the text padded with blanks to `width` columns.
pub(crate) fn pad(text: &str, width: usize) -> String {
    // `format!` panics for widths beyond 65535.
    text.to_owned() + &" ".repeat(width.saturating_sub(text.width()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(said: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| said.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned())
    }

    #[test]
    fn colours_go_where_they_are_wanted() {
        use Colours::{Ansi, Plain};
        let xterm = ("TERM", "xterm");
        let check = |terminal, said: &[(&str, &str)], wanted| {
            assert_eq!(Colours::wanted(terminal, of(said)), wanted, "{terminal} {said:?}");
        };
        check(true, &[xterm], Ansi);
        check(false, &[xterm], Plain);
        check(true, &[], Plain);
        check(true, &[("TERM", "dumb")], Plain);
        check(true, &[xterm, ("NO_COLOR", "1")], Plain);
        check(false, &[xterm, ("CLICOLOR_FORCE", "1")], Ansi);
        check(false, &[xterm, ("CLICOLOR_FORCE", "0")], Plain);
        check(false, &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], Plain);
    }

    #[test]
    fn the_first_variable_of_the_locale_decides() {
        let cases: [(&[(&str, &str)], Letters); 4] = [
            (&[], Letters::Ascii),
            (&[("LANG", "en_GB.UTF-8")], Letters::Unicode),
            (&[("LANG", "en_GB.UTF-8"), ("LC_ALL", "C")], Letters::Ascii),
            (&[("LC_CTYPE", "C.utf8"), ("LANG", "C")], Letters::Unicode),
        ];
        for (said, letters) in cases {
            assert_eq!(Letters::spoken(of(said)), letters, "{said:?}");
        }
    }

    #[test]
    fn the_variable_columns_counts_before_the_terminals_width() {
        assert_eq!(width(Some(80), of(&[])), Some(80));
        assert_eq!(width(Some(80), of(&[("COLUMNS", "120")])), Some(120));
        assert_eq!(width(None, of(&[("COLUMNS", "many")])), None);
        assert_eq!(width(Some(80), of(&[("COLUMNS", "0")])), Some(80));
        assert_eq!(width(None, of(&[("COLUMNS", "99999999999")])), None);
    }

    #[test]
    fn text_is_cut_by_columns_not_by_letters() {
        for (text, width, cut) in [
            ("deploy", 6, "deploy"),
            ("deploy", 5, "depl…"),
            ("deploy", 1, "…"),
            ("deploy", 0, ""),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
        ] {
            assert_eq!(fit(text, width, Letters::Unicode), cut, "{text} in {width}");
        }
        assert_eq!(fit("deploy", 4, Letters::Ascii), "dep~");
        assert_eq!(pad("日本", 6), "日本  ");
    }

    #[test]
    fn what_moves_the_cursor_is_shown_as_a_mark() {
        assert_eq!(plain("a\x1b[2Jb\r\n\u{202e}c"), "a\u{fffd}[2Jb\u{fffd}\u{fffd}\u{fffd}c");
        assert_eq!(plain("größer 日本"), "größer 日本");
    }

    #[test]
    fn paint_is_nothing_without_colours() {
        let (letters, width) = (Letters::Unicode, None);
        let plain = Style { colours: Colours::Plain, width, letters };
        let ansi = Style { colours: Colours::Ansi, ..plain };
        assert_eq!(plain.paint(Ink::Green, "well"), "well");
        assert_eq!(ansi.paint(Ink::Red, "bad"), "\x1b[31mbad\x1b[0m");
        assert_eq!(ansi.dim(""), "");
    }
}

//! Messages on standard error.

use crate::style::plain;

/// The maximum number of characters of a quoted argument in a message.
const QUOTED: usize = 100;
/// The maximum number of characters of a line of a message, which may quote hostile input.
const LONGEST: usize = 1000;

/// Returns a message that does not change the terminal, whatever names it contains, with lines of limited
/// length.
pub(crate) fn printable(message: &str) -> String {
    let lines = message.lines().map(|line| cut_inside(&plain(line), LONGEST));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns user input for a message that quotes it, cut to a length that can be read.
pub(crate) fn quoted(text: &str) -> String {
    cut_inside(text, QUOTED)
}

/// Cuts a text to this many characters in its middle: a message begins with what is wrong, and ends with
/// the reason.
fn cut_inside(text: &str, longest: usize) -> String {
    let length = text.chars().count();
    if length <= longest {
        return text.to_owned();
    }
    let mark = format!("~{} more~", length - longest);
    let (begin, end) = (longest / 2, longest - longest / 2);
    text.chars().take(begin).chain(mark.chars()).chain(text.chars().skip(length - end)).collect()
}

/// Does the same as the standard macro, but does not panic if the stream is closed: `windlass run … 2>&1
/// | head -1` must neither end a run nor change an exit code.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_in_the_middle() {
        let message = format!("no run is called {}: look elsewhere\nthat is all", "x".repeat(5000));
        let printable = printable(&message);
        assert!(printable.starts_with("no run is called xxx"), "{printable}");
        assert!(printable.contains("x~4033 more~x"), "{printable}");
        assert!(printable.ends_with("xx: look elsewhere\nthat is all"), "{printable}");
    }

    #[test]
    fn short_input_is_quoted_without_changes() {
        let letters = "é".repeat(QUOTED);
        assert_eq!(quoted(&letters), letters);
        assert_eq!(quoted(&(letters.clone() + "é")).chars().count(), QUOTED + "~1 more~".len());
    }
}

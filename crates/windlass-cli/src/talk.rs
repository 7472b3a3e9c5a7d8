//! Talk and diagnostics, which go to stderr.

use crate::style::plain;

/// How many letters there are of what is quoted in a message, at most.
const QUOTED: usize = 100;
/// How many letters the line of a message has at most; what is hostile or mistaken may have more.
const LONGEST: usize = 1000;

/// A message that does nothing to a terminal, whatever names it has in it, and comes to an end.
pub(crate) fn tame(message: &str) -> String {
    let lines = message.lines().map(|line| cut_inside(&plain(line), LONGEST));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns user input for a message that quotes it, cut to a length that can be read.
pub(crate) fn quoted(text: &str) -> String {
    cut_inside(text, QUOTED)
}

/// The text in at most so many letters. What is left out is in the middle: a message begins with what
/// is wrong, and ends with the reason.
fn cut_inside(text: &str, longest: usize) -> String {
    let length = text.chars().count();
    if length <= longest {
        return text.to_owned();
    }
    let mark = format!("~{} more~", length - longest);
    let (begin, end) = (longest / 2, longest - longest / 2);
    text.chars().take(begin).chain(mark.chars()).chain(text.chars().skip(length - end)).collect()
}

/// As the standard one, which panics if the stream is closed: `windlass run … 2>&1 | head -1` must
/// not end a run, nor change how any command ends.
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
        let tame = tame(&message);
        assert!(tame.starts_with("no run is called xxx"), "{tame}");
        assert!(tame.contains("x~4033 more~x"), "{tame}");
        assert!(tame.ends_with("xx: look elsewhere\nthat is all"), "{tame}");
    }

    #[test]
    fn what_is_short_is_quoted_as_it_is() {
        let letters = "é".repeat(QUOTED);
        assert_eq!(quoted(&letters), letters);
        assert_eq!(quoted(&(letters.clone() + "é")).chars().count(), QUOTED + "~1 more~".len());
    }
}

//! Talk and diagnostics, which go to stderr.

use crate::style::{Letters, fit, plain};

/// No line of a message is longer, in columns; what is hostile or mistaken may be.
const LONGEST: usize = 1000;

/// A message that does nothing to a terminal, whatever names it has in it, and comes to an end.
pub(crate) fn tame(message: &str) -> String {
    let lines = message.lines().map(|line| fit(&plain(line), LONGEST, Letters::Ascii));
    lines.collect::<Vec<_>>().join("\n")
}

/// As the standard one, which would panic where nobody listens: `windlass run … 2>&1 | head -1` must
/// not end a run, nor change how any command ends.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

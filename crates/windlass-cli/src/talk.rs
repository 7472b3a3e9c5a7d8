//! Talk and diagnostics, which go to stderr.

/// As the standard one, which would panic where nobody listens: `windlass run … 2>&1 | head -1` must
/// not end a run, nor change how any command ends.
macro_rules! eprintln {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}

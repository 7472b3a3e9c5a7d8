//! Prints the output of steps: cleaned on a terminal, and unchanged elsewhere.

use std::io::{self, IsTerminal, Write};

use super::Part;
use crate::clean::Keep;
use crate::display::LineWriter;

/// Prints one log to standard output.
pub(super) enum Screen {
    /// A terminal, where only control sequences that set colours are kept.
    Terminal(LineWriter),
    /// Elsewhere; the prefix of lines that are printed one by one.
    Plain(String),
}

impl Screen {
    pub(super) fn new(prefix: String) -> Self {
        match io::stdout().is_terminal() {
            true => Self::Terminal(LineWriter::new(prefix, Keep::Colours)),
            false => Self::Plain(prefix),
        }
    }

    /// Prints a piece of the log.
    pub(super) fn print(&mut self, piece: &[u8], out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Terminal(lines) => {
                let mut text = String::new();
                lines.push(piece, &mut text);
                out.write_all(text.as_bytes())
            }
            Self::Plain(_) => out.write_all(piece),
        }
    }

    /// Prints a line of the log, or a part of a long one, with the prefix.
    pub(super) fn print_line(&mut self, part: &Part<'_>, out: &mut impl Write) -> io::Result<()> {
        if let Self::Plain(prefix) = self {
            write!(out, "{prefix}")?;
            out.write_all(part.bytes.strip_suffix(b"\n").unwrap_or(part.bytes))?;
            return writeln!(out);
        }
        self.print(part.bytes, out)
    }

    /// Ends the last line on a terminal, with its colours.
    pub(super) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        let Self::Terminal(lines) = self else { return Ok(()) };
        let mut text = String::new();
        lines.finish(&mut text);
        out.write_all(text.as_bytes())
    }
}

//! Parses TOML, and rewords its syntax errors so that they say what to write instead.
//!
//! Leaves out errors that only follow from earlier ones. Knows no keys of a workflow.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::de::DeTable;

use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::limits;

/// Returns the tables of a text, or none after a syntax error: further errors would only follow from it.
/// A duplicate key is reported and does not stop parsing.
pub(crate) fn parse<'i>(
    text: &'i str,
    diagnostics: &Diagnostics,
) -> Option<toml::Spanned<DeTable<'i>>> {
    if text.len() > limits::FILE_BYTES {
        diagnostics.error(too_long(text));
        return None;
    }
    let (tables, errors) = DeTable::parse_recoverable(text);
    let mut reported = Reported { text, lines: BTreeSet::new(), duplicate_table: None };
    let mut broken = false;
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        let kind = error.message().split(", expected").next().unwrap_or_default();
        broken |= kind != DUPLICATE;
        if reported.follows_from_earlier(kind, &span) {
            continue;
        }
        if kind.starts_with("missing comma") && reported.is_first_on_its_line(&span) {
            diagnostics.error(unclosed_above(span));
            break;
        }
        diagnostics.error(reworded(text, error.message(), span));
    }
    (!broken).then_some(tables)
}

/// The errors reported so far, to leave out what only follows from them.
struct Reported<'t> {
    text: &'t str,
    /// The starts of the lines that have an error.
    lines: BTreeSet<usize>,
    /// The start of the last table that was a duplicate; all its keys are duplicates, too.
    duplicate_table: Option<usize>,
}

impl Reported<'_> {
    fn follows_from_earlier(&mut self, kind: &str, span: &Range<usize>) -> bool {
        let line = line_start(self.text, span.start);
        if !self.lines.insert(line) {
            return true;
        }
        if kind != DUPLICATE {
            return false;
        }
        let header = |at: usize| self.text[at..].starts_with('[');
        let since = self.duplicate_table.map(|table| &self.text[table..line]);
        let same = since.is_some_and(|since| !since.contains("\n[")) && !header(line);
        if !same {
            self.duplicate_table = header(line).then_some(line);
        }
        same
    }

    fn is_first_on_its_line(&self, span: &Range<usize>) -> bool {
        let line = line_start(self.text, span.start);
        self.text.get(line..span.start).is_some_and(|before| before.trim().is_empty())
    }
}

fn unclosed_above(span: Range<usize>) -> Diagnostic {
    let message = "a list or table that began above is not closed";
    let help = "look for a missing `]` or `}` on the lines before";
    Diagnostic::new(span, message, "still inside it here").help(help)
}

const DUPLICATE: &str = "duplicate key";

fn too_long(text: &str) -> Diagnostic {
    let message = format!("this file has {} bytes", text.len());
    let help = format!("a workflow file has at most {} bytes", limits::FILE_BYTES);
    Diagnostic::new(0..0, message, "too long").help(help)
}

fn line_start(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    text.as_bytes()[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1)
}

fn reworded(text: &str, message: &str, span: Range<usize>) -> Diagnostic {
    let kind = message.split(", expected").next().unwrap_or(message);
    let literal = text.get(span.clone()).unwrap_or_default();
    let wording = match kind {
        DUPLICATE => return duplicate(text, literal, span),
        "string values must be quoted" if literal.trim().is_empty() => &NO_VALUE,
        "key with no value" if !ends_line(text, span.end) => &NO_EQUALS,
        kind if TOO_DEEP.contains(&kind) => return too_deep(span),
        kind => match WORDINGS.iter().find(|wording| wording.kinds.contains(&kind)) {
            Some(wording) => wording,
            None => return not_toml(message, span),
        },
    };
    Diagnostic::new(span, wording.message, wording.label).help(wording.help)
}

/// The diagnostic for a kind of syntax error.
struct Wording {
    /// The messages of the TOML parser that it replaces.
    kinds: &'static [&'static str],
    message: &'static str,
    label: &'static str,
    help: &'static str,
}

const TOO_DEEP: [&str; 2] = ["cannot recurse further; max recursion depth met", "recursion limit"];

const NO_VALUE: Wording = Wording {
    kinds: &["key with no value", "missing value for key", "missing value"],
    message: "this key has no value",
    label: "the value is missing",
    help: "write: key = \"value\"",
};

const NO_EQUALS: Wording = Wording {
    kinds: &[],
    message: "there is no `=` between a key and its value",
    label: "expected `=`",
    help: "write: key = \"value\"",
};

const WORDINGS: [Wording; 9] = [
    NO_VALUE,
    Wording {
        kinds: &["string values must be quoted", "invalid boolean"],
        message: "this string has no quotes",
        label: "put it in quotes",
        help: "write strings as \"…\", or as '…' if they contain double quotes or backslashes",
    },
    Wording {
        kinds: &["invalid unquoted key"],
        message: "a character of this key needs quotes",
        label: "not a letter, a digit, `-` or `_`",
        help: "put the key in quotes, as in [step.\"é\"], or choose another",
    },
    Wording {
        kinds: &["unclosed table", "unclosed array table"],
        message: "the `]` of this table's name is missing",
        label: "expected `]`",
        help: "write the name of a table in brackets, such as [step.build]",
    },
    Wording {
        kinds: &["unclosed array"],
        message: "a list is not closed",
        label: "expected `]`",
        help: "write lists as [\"a\", \"b\"]",
    },
    Wording {
        kinds: &["unclosed inline table"],
        message: "a table is not closed",
        label: "expected `}`",
        help: "write tables as { key = \"value\", other = 1 }",
    },
    Wording {
        kinds: &["missing comma between array elements", "missing comma between key-value pairs"],
        message: "there is no comma between these two",
        label: "expected `,`",
        help: "separate the entries of a list or table with commas",
    },
    Wording {
        kinds: &["invalid basic string", "invalid literal string", "missing closing quote"],
        message: "this string is not closed",
        label: "the closing quote is missing on this line",
        help: "use three quotes (\"\"\") for a string of several lines",
    },
    Wording {
        kinds: &["missing escaped value", "too few unicode value digits"],
        message: "invalid escape sequence",
        label: "not an escape sequence",
        help: "in single quotes '…' a backslash is just a backslash; in double quotes write \\\\",
    },
];

fn too_deep(span: Range<usize>) -> Diagnostic {
    let message = format!("tables and lists are nested more than {} deep", limits::NESTING);
    let help = "no key of a workflow needs more than four levels";
    Diagnostic::new(span, message, "too deep").help(help)
}

fn not_toml(message: &str, span: Range<usize>) -> Diagnostic {
    let message = format!("this is not TOML: {message}");
    let help = "a workflow is written as: [step.build], then run = \"make\" on the next line";
    Diagnostic::new(span, message, "the file cannot be read from here on").help(help)
}

/// Reports a key or a table that is in the file twice.
fn duplicate(text: &str, key: &str, span: Range<usize>) -> Diagnostic {
    let line = text.get(line_start(text, span.start)..span.start).unwrap_or_default();
    let what = match line.strip_prefix('[').and_then(|line| line.strip_suffix('.')) {
        Some(table @ ("step" | "guard" | "semaphore")) => format!("{table} `{key}`"),
        _ => format!("`{key}`"),
    };
    let message = format!("{what} is defined twice");
    let help = "keep one of the two; TOML does not merge them";
    Diagnostic::new(span, message, "already defined above").help(help)
}

fn ends_line(text: &str, at: usize) -> bool {
    text.get(at..).is_none_or(|rest| rest.lines().next().is_none_or(|rest| rest.trim().is_empty()))
}

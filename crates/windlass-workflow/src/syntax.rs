//! TOML that cannot be read, in words that say what to write instead.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::DeTable;

use crate::limits;
use crate::mistake::Mistake;
use crate::notes::Notes;

/// The tables of a text; none if it is so broken that looking further would only add noise.
pub(crate) fn read<'i>(text: &'i str, notes: &Notes) -> Option<Spanned<DeTable<'i>>> {
    if text.len() > limits::FILE_BYTES {
        notes.mistake(too_long(text));
        return None;
    }
    let (tables, errors) = DeTable::parse_recoverable(text);
    let mut told = Told { text, lines: BTreeSet::new(), repeated: None };
    let mut broken = false;
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        let kind = error.message().split(", expected").next().unwrap_or_default();
        broken |= kind != DUPLICATE;
        if told.follows_from_earlier(kind, &span) {
            continue;
        }
        if kind.starts_with("missing comma") && told.is_first_on_its_line(&span) {
            notes.mistake(unclosed_above(span));
            break;
        }
        notes.mistake(in_our_words(text, error.message(), span));
    }
    (!broken).then_some(tables)
}

/// What has been said so far, to leave out what only follows from it.
struct Told<'t> {
    text: &'t str,
    lines: BTreeSet<usize>,
    /// Where a table began whose name had been there before.
    repeated: Option<usize>,
}

impl Told<'_> {
    fn follows_from_earlier(&mut self, kind: &str, span: &Range<usize>) -> bool {
        let line = line_start(self.text, span.start);
        if !self.lines.insert(line) {
            return true;
        }
        if kind != DUPLICATE {
            return false;
        }
        let header = |at: usize| self.text[at..].starts_with('[');
        let since = self.repeated.map(|repeated| &self.text[repeated..line]);
        let same = since.is_some_and(|since| !since.contains("\n[")) && !header(line);
        if !same {
            self.repeated = header(line).then_some(line);
        }
        same
    }

    fn is_first_on_its_line(&self, span: &Range<usize>) -> bool {
        let line = line_start(self.text, span.start);
        self.text.get(line..span.start).is_some_and(|before| before.trim().is_empty())
    }
}

fn unclosed_above(span: Range<usize>) -> Mistake {
    let message = "a list or table that began above is not closed";
    let help = "look for a missing `]` or `}` on the lines before";
    Mistake::new(span, message, "still inside it here").help(help)
}

const DUPLICATE: &str = "duplicate key";

fn too_long(text: &str) -> Mistake {
    let message = format!("this file has {} bytes", text.len());
    let help = format!("a workflow file has at most {} bytes", limits::FILE_BYTES);
    Mistake::new(0..0, message, "too long").help(help)
}

fn line_start(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    text.as_bytes()[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1)
}

fn in_our_words(text: &str, message: &str, span: Range<usize>) -> Mistake {
    let short = message.split(", expected").next().unwrap_or(message);
    let key = text.get(span.clone()).unwrap_or_default();
    let (message, label, help) = match short {
        DUPLICATE => (
            format!("{} is written twice", duplicate(text, key, span.start)),
            "it stands above already",
            "keep one of the two: TOML does not add them together",
        ),
        "string values must be quoted" if key.trim().is_empty() => (
            "there is a key here, and no value".to_owned(),
            "the value is missing",
            "write: key = \"value\"",
        ),
        "key with no value" if !key_ends_line(text, span.end) => (
            "there is no `=` between a key and its value".to_owned(),
            "expected `=`",
            "write: key = \"value\"",
        ),
        "string values must be quoted" | "invalid boolean" => (
            "this text has no quotes".to_owned(),
            "put it in quotes",
            "write texts as \"…\", or as '…' if they contain double quotes or backslashes",
        ),
        "key with no value" | "missing value for key" | "missing value" => (
            "there is a key here, and no value".to_owned(),
            "the value is missing",
            "write: key = \"value\"",
        ),
        "unclosed table" | "unclosed array table" => (
            "the `]` of this table's name is missing".to_owned(),
            "expected `]`",
            "write the name of a table in brackets, such as [step.build]",
        ),
        "unclosed array" => {
            ("a list is not closed".to_owned(), "expected `]`", "write lists as [\"a\", \"b\"]")
        }
        "unclosed inline table" => (
            "a table is not closed".to_owned(),
            "expected `}`",
            "write tables as { key = \"value\", other = 1 }",
        ),
        "missing comma between array elements" | "missing comma between key-value pairs" => (
            "there is no comma between these two".to_owned(),
            "expected `,`",
            "separate the entries of a list or table with commas",
        ),
        "invalid basic string" | "invalid literal string" | "missing closing quote" => (
            "this text is not closed".to_owned(),
            "the closing quote is missing on this line",
            "use three quotes (\"\"\") for a text of several lines",
        ),
        "missing escaped value" | "too few unicode value digits" => (
            "a backslash stands before a character that it does not go with".to_owned(),
            "not an escape",
            "in single quotes '…' a backslash is just a backslash; in double quotes write \\\\",
        ),
        "cannot recurse further; max recursion depth met" | "recursion limit" => (
            format!("tables and lists are nested more than {} deep", limits::NESTING),
            "too deep",
            "no key of a workflow needs more than four levels",
        ),
        _ => (
            format!("this is not TOML: {message}"),
            "the file cannot be read from here on",
            "a workflow is written as: [step.build], then run = \"make\" on the next line",
        ),
    };
    Mistake::new(span, message, label).help(help)
}

/// A key, or the table that a header names: step `build`.
fn duplicate(text: &str, key: &str, at: usize) -> String {
    let line = text.get(line_start(text, at)..at).unwrap_or_default();
    match line.strip_prefix('[').and_then(|line| line.strip_suffix('.')) {
        Some(table @ ("step" | "guard" | "semaphore")) => format!("{table} `{key}`"),
        _ => format!("`{key}`"),
    }
}

fn key_ends_line(text: &str, at: usize) -> bool {
    text.get(at..).is_none_or(|rest| rest.lines().next().is_none_or(|rest| rest.trim().is_empty()))
}

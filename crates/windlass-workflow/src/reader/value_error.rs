//! Why a value cannot be deserialized, and the diagnostic for it.
//!
//! The error comes from serde without a path; the reader adds the path when it reports it.

use std::fmt::{self, Display};
use std::ops::Range;

use serde::de::{Error, Expected, Unexpected};

use super::KeyPath;
use crate::diagnostic::Diagnostic;
use crate::diagnostics::similar;

/// An example of a duration.
const DURATION: &str = "\"30s\"";

#[derive(Debug)]
pub(crate) struct ValueError {
    kind: ValueErrorKind,
    /// The span of a nested value, if the error is in one.
    span: Option<Range<usize>>,
}

#[derive(Debug)]
enum ValueErrorKind {
    WrongType { found: &'static str, number: Option<u64>, expected: String },
    UnknownVariant { word: String, variants: &'static [&'static str] },
    Rejected { reason: String },
}

impl ValueError {
    fn new(kind: ValueErrorKind) -> Self {
        Self { kind, span: None }
    }

    pub(super) fn nul() -> Self {
        let reason = "contains a NUL character, which cannot be passed to a command".to_owned();
        Self::new(ValueErrorKind::Rejected { reason })
    }

    pub(super) fn too_large(number: &str) -> Self {
        Self::new(ValueErrorKind::Rejected { reason: format!("is {number}, which is too large") })
    }

    pub(super) fn date(expected: &dyn Expected) -> Self {
        let expected = expected_words(expected);
        Self::new(ValueErrorKind::WrongType { found: "a date", number: None, expected })
    }

    pub(super) fn unknown_variant(word: &str, variants: &'static [&'static str]) -> Self {
        Self::new(ValueErrorKind::UnknownVariant { word: word.to_owned(), variants })
    }

    pub(super) fn not_a_string(found: &str, variants: &[&str]) -> Self {
        let found = match found {
            "integer" | "float" => "a number",
            "boolean" => "a boolean",
            "datetime" => "a date",
            "array" => "a list",
            _ => "a table",
        };
        Self::new(ValueErrorKind::WrongType { found, number: None, expected: one_of(variants) })
    }

    pub(super) fn or_at(mut self, span: Range<usize>) -> Self {
        self.span.get_or_insert(span);
        self
    }

    /// Returns the diagnostic for the value at `path`.
    pub(super) fn diagnostic(&self, path: &KeyPath<'_>, span: Range<usize>) -> Diagnostic {
        let span = self.span.clone().unwrap_or(span);
        let subject = description(&path.keys());
        match &self.kind {
            ValueErrorKind::WrongType { found, number, expected } => {
                let message = format!("{subject} is {found}, not {expected}");
                let keys = path.keys();
                let help = in_seconds(&keys, *number).or_else(|| in_quotes(&keys, found));
                let help = help.or_else(|| example(&keys));
                let help = help.unwrap_or_else(|| format!("write {expected} here"));
                Diagnostic::new(span, message, format!("expected {expected}")).help(help)
            }
            ValueErrorKind::UnknownVariant { word, variants } => {
                let whole = variants.iter().copied().find(|known| is_abbreviation(word, known));
                let near = whole.or_else(|| similar(word, variants.iter().copied()));
                let help = near.map(|near| format!("did you mean \"{near}\"?"));
                let help = help.or_else(|| example(&path.keys()));
                let message = format!("{subject} is \"{word}\", not {}", one_of(variants));
                Diagnostic::new(span, message, "unknown value").help_if(help)
            }
            ValueErrorKind::Rejected { reason } => {
                let message = format!("{subject} {reason}");
                Diagnostic::new(span, message, "invalid value").help_if(example(&path.keys()))
            }
        }
    }
}

/// Returns how to write the name of a limit of the store, which contains a dot.
fn in_quotes(keys: &[&str], found: &str) -> Option<String> {
    let is_limit = found == "a table" && matches!(keys, [.., "use", "shared"]);
    is_limit.then(|| "put the name of a limit in quotes: use = { \"shared.gpu\" = 1 }".to_owned())
}

/// Returns whether `word` is the beginning of `known`, like "str" of "string".
fn is_abbreviation(word: &str, known: &str) -> bool {
    word.len() > 1 && known.starts_with(word)
}

impl Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value cannot be read")
    }
}

impl std::error::Error for ValueError {}

impl Error for ValueError {
    fn custom<T: Display>(reason: T) -> Self {
        Self::new(ValueErrorKind::Rejected { reason: reason.to_string() })
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let number = match found {
            Unexpected::Unsigned(number) => Some(number),
            Unexpected::Signed(number) => number.try_into().ok(),
            _ => None,
        };
        let (found, expected) = (found_word(&found), expected_words(expected));
        Self::new(ValueErrorKind::WrongType { found, number, expected })
    }

    fn invalid_value(found: Unexpected<'_>, _expected: &dyn Expected) -> Self {
        let number = match found {
            Unexpected::Signed(number) => number.to_string(),
            other => other.to_string(),
        };
        let reason = match number.starts_with('-') {
            true => format!("is {number}; write 0 or more"),
            false => format!("is {number}, which is too large"),
        };
        Self::new(ValueErrorKind::Rejected { reason })
    }
}

/// Describes what a type expects, without the names of Rust types.
fn expected_words(expected: &dyn Expected) -> String {
    let words = expected.to_string();
    match words.as_str() {
        "i64" | "i32" | "u32" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        "a sequence" => "a list".to_owned(),
        _ if words.starts_with("struct ") => "a table".to_owned(),
        _ => words,
    }
}

fn found_word(found: &Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
        Unexpected::Seq => "a list",
        Unexpected::Map => "a table",
        _ => "a string",
    }
}

fn one_of(variants: &[&str]) -> String {
    let quoted: Vec<_> = variants.iter().map(|word| format!("\"{word}\"")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Describes a path: step `deploy`: `retry.count`.
pub(super) fn description(keys: &[&str]) -> String {
    match keys {
        [table @ ("step" | "guard" | "semaphore" | "resource"), name] => {
            format!("{table} `{name}`")
        }
        [table @ ("step" | "guard" | "semaphore" | "resource"), name, rest @ ..] => {
            format!("{table} `{name}`: {}", joined(rest))
        }
        ["params", name] => format!("parameter `{name}`"),
        ["params", name, rest @ ..] => format!("parameter `{name}`: {}", joined(rest)),
        [] => "a workflow".to_owned(),
        keys => joined(keys),
    }
}

fn joined(keys: &[&str]) -> String {
    match keys {
        [list @ .., KeyPath::ENTRY] => format!("an entry of {}", joined(list)),
        keys => {
            let named: Vec<_> = keys.iter().copied().filter(|key| *key != KeyPath::ENTRY).collect();
            format!("`{}`", named.join("."))
        }
    }
}

/// Returns a help text with an example for the key at the end of a path.
fn example(keys: &[&str]) -> Option<String> {
    let value = match keys {
        [.., key @ ("run" | "success" | "failure" | "escalate" | "finally"), KeyPath::ENTRY] => {
            return Some(format!("write: {key} = [\"make\", \"all\"]"));
        }
        [.., "shell", KeyPath::ENTRY] => {
            return Some("write: shell = [\"python3\", \"-c\"]".to_owned());
        }
        [list @ .., KeyPath::ENTRY] => return example(list),
        ["step"] => return Some("write each step as a table: [step.build]".to_owned()),
        ["step", key] if key_example(key).is_some() => {
            return Some(format!("give the step a name: [step.build], and `{key}` below it"));
        }
        ["step", name] => {
            return Some(format!("write [step.{name}], and below it: run = \"make\""));
        }
        ["params", _] => "{ choices = [\"staging\", \"prod\"], default = \"staging\" }",
        ["resource", _] => "4",
        [.., "retry"] if keys[0] == "guard" => "{ max = 3, interval = \"10s\" }",
        [.., "use", _] => "1",
        ["env", _] | [.., "env", _] => "\"value\"",
        [.., "each", "exclude" | "include"] => "[{ os = \"macos\" }]",
        [.., "each", _] => "[\"a\", \"b\"]",
        [.., "after", _] => "\"done\"",
        [.., key] => return key_example(key).map(|value| format!("write: {key} = {value}")),
        [] => return None,
    };
    keys.last().map(|key| format!("write: {key} = {value}"))
}

/// Returns a help text for a number in subject of a duration; users mostly mean seconds.
fn in_seconds(keys: &[&str], number: Option<u64>) -> Option<String> {
    let (key, number) = (keys.last()?, number.filter(|number| *number > 0)?);
    (key_example(key)? == DURATION).then(|| format!("write: {key} = \"{number}s\""))
}

fn key_example(key: &str) -> Option<&'static str> {
    Some(match key {
        "name" | "description" => "\"nightly build\"",
        "concurrency" | "capacity" => "4",
        "priority" | "count" | "max" | "burst" | "crash_limit" => "5",
        "run" | "success" | "failure" | "escalate" | "finally" => "\"make all\"",
        "when" | "condition" => "\"test -f ready\"",
        "deadline" | "timeout" | "grace" | "linger" | "delay" | "max_delay" | "interval"
        | "heartbeat_timeout" => DURATION,
        "after" => "[\"build\"], or after = { build = \"done\" }",
        "guard" | "ensure" => "[\"approved\"]",
        "each" => "{ os = [\"linux\", \"macos\"] }",
        "log_limit" => "\"100M\"",
        "use" => "{ memory = \"4G\" }",
        "lock" => "[\"deploy\"]",
        "semaphore" => "{ build-slots = 1 }",
        "retry" => "{ count = 3, delay = \"1s\" }",
        "backoff" => "\"exponential\"",
        "jitter" => "true",
        "on_exit" => "[6, 7]",
        "wake_on" => "[\"build:web:done\"]",
        "env" => "{ MODE = \"fast\" }",
        "pass_env" => "[\"SSH_AUTH_SOCK\"]",
        "dir" => "\"subdirectory\"",
        "shell" => "\"bash\"",
        "items" => "[\"0\", \"1\"]",
        "rate" => "\"100/min\"",
        "type" => "\"integer\"",
        _ => return None,
    })
}

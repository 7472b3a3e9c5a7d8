//! The limits of Linux on arguments and variables of a program: the bytes of one, and of all together.

use std::env;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use rustix::param::page_size;
use thiserror::Error;

use crate::command::CommandSpec;

/// How many pages one argument or variable may take.
const PAGES: usize = 32;
/// What a variable takes besides its value: its name, and two bytes.
const NAME: usize = 256;
/// How many of the largest values are named.
const NAMED: usize = 3;

/// A value that no program can be given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{what} has {bytes} bytes, and Linux takes no more than {} in one argument or variable; \
     put it into a file",
    limit()
)]
pub(crate) struct TooLarge {
    what: String,
    bytes: usize,
}

/// Returns the maximum number of bytes of a value.
fn limit() -> usize {
    page_size() * PAGES - NAME
}

/// Whether a program can be given `value` in one argument or variable.
///
/// ```
/// assert!(windlass_server::fits("small") && !windlass_server::fits(&"x".repeat(1 << 24)));
/// ```
#[must_use]
pub fn fits(value: &str) -> bool {
    value.len() <= limit()
}

/// Returns the first lines of a list, as many as fit into a variable.
pub(crate) fn fitting<'a>(lines: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = String::new();
    for line in lines {
        if text.len() + 1 + line.len() > limit() {
            break;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(line);
    }
    text
}

/// Refuses a value that no program can be given; `what` names it.
pub(crate) fn check(value: &str, what: impl FnOnce() -> String) -> Result<(), TooLarge> {
    let bytes = value.len();
    if fits(value) { Ok(()) } else { Err(TooLarge { what: what(), bytes }) }
}

/// Says what takes so much room that a program could not be started, if that is why.
pub(crate) fn explain(error: std::io::Error, order: &CommandSpec) -> std::io::Error {
    if error.raw_os_error() != Some(Errno::TOOBIG.raw_os_error()) {
        return error;
    }
    let arguments = order.arguments.iter().zip(1..);
    let arguments = arguments.map(|(text, place)| (text.len(), format!("argument {place}")));
    let own = order.env.iter().map(|(name, value)| (value.len(), format!("${name}")));
    let mut all: Vec<_> = arguments.chain(own).collect();
    let inherited = env::vars_os().map(|(name, value)| {
        (value.as_bytes().len(), format!("${} of the caller", name.display()))
    });
    all.extend(inherited);
    let sum: usize = all.iter().map(|(bytes, _)| bytes).sum();
    all.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let largest: Vec<_> =
        all.iter().take(NAMED).map(|(bytes, name)| format!("{name} ({bytes} bytes)")).collect();
    let message = format!(
        "its arguments and environment have {sum} bytes, more than the system passes on; \
         the largest are {}",
        largest.join(", ")
    );
    std::io::Error::new(error.kind(), message)
}

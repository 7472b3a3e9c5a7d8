//! Durations in keys, with what to say about those that are none.

use std::time::Duration;

use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::duration::parse_duration;
use crate::spanned::Field;

/// The duration at a key, which may be zero. `place` is how to call the key.
pub(super) fn any_time(
    written: &Field<String>,
    place: &str,
    diagnostics: &Diagnostics,
) -> Option<Duration> {
    let (text, span) = written.with_span()?;
    match parse_duration(text) {
        Ok(duration) => Some(duration),
        Err(error) => {
            let unit = text.trim().bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
            let help = if unit {
                format!("add a unit, such as \"{}s\" or \"{0}m\"", text.trim())
            } else {
                "write whole numbers with ms, s, m, h or d, such as \"250ms\" or \"1h 30m\""
                    .to_owned()
            };
            let message = format!("{place}: {error}");
            diagnostics.error(Diagnostic::new(span, message, "not a duration").help(help));
            None
        }
    }
}

/// The duration at a key, which must be longer than nothing, and without which there is no limit.
pub(super) fn some_time(
    written: &Field<String>,
    place: &str,
    diagnostics: &Diagnostics,
) -> Option<Duration> {
    positive_time(written, place, "leave the key out for no limit", diagnostics)
}

/// The duration at a key, which must be longer than nothing; `help` says what to do about one that is not.
pub(super) fn positive_time(
    written: &Field<String>,
    place: &str,
    help: &str,
    diagnostics: &Diagnostics,
) -> Option<Duration> {
    let duration = any_time(written, place, diagnostics)?;
    if duration.is_zero() {
        let (_, span) = written.with_span()?;
        let message = format!("{place} is no time at all");
        diagnostics.error(Diagnostic::new(span, message, "must be more than 0").help(help));
    }
    Some(duration)
}

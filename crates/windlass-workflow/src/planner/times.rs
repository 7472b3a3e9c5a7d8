//! Plans durations.

use std::time::Duration;

use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::duration::parse_duration;
use crate::spanned::Field;

/// Returns the duration in a field, which may be zero. `subject` names the field in an error.
pub(super) fn any_time(
    field: &Field<String>,
    subject: &str,
    diagnostics: &Diagnostics,
) -> Option<Duration> {
    let (text, span) = field.with_span()?;
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
            let message = format!("{subject}: {error}");
            diagnostics.error(Diagnostic::new(span, message, "not a duration").help(help));
            None
        }
    }
}

/// Returns the duration in a field, which must not be zero. Without the field there is no limit.
pub(super) fn some_time(
    field: &Field<String>,
    subject: &str,
    diagnostics: &Diagnostics,
) -> Option<Duration> {
    positive_time(field, subject, "leave the key out for no limit", diagnostics)
}

/// Returns the duration in a field, which must not be zero; otherwise `help` says what to do.
pub(super) fn positive_time(
    field: &Field<String>,
    subject: &str,
    help: &str,
    diagnostics: &Diagnostics,
) -> Option<Duration> {
    let duration = any_time(field, subject, diagnostics)?;
    if duration.is_zero() {
        let (_, span) = field.with_span()?;
        let message = format!("{subject} is zero");
        diagnostics.error(Diagnostic::new(span, message, "must be more than 0").help(help));
    }
    Some(duration)
}

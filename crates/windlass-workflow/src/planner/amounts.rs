//! Amounts of resources: numbers, and sizes in text.

use std::ops::Range;

use windlass_core::Amount;

use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::file::Quantity;
use crate::size::{SizeError, parse_size};
use crate::spanned::Field;

/// The amount that is written; `place` is how to call it.
pub(super) fn amount(
    written: &Quantity,
    span: Range<usize>,
    place: &str,
    diagnostics: &Diagnostics,
) -> Option<Amount> {
    let (error, help) = match read(written) {
        Ok(amount) => return Some(amount),
        Err(wrong) => wrong,
    };
    diagnostics
        .error(Diagnostic::new(span, format!("{place}: {error}"), "not an amount").help(help));
    None
}

/// The least that a log may be limited to.
const LEAST_LOG_BYTES: u64 = 1 << 10;

/// The limit of a log at a key, in bytes.
pub(super) fn log_limit(
    written: &Field<Quantity>,
    place: &str,
    diagnostics: &Diagnostics,
) -> Option<u64> {
    let (quantity, span) = written.with_span()?;
    let bytes =
        amount(quantity, span.clone(), place, diagnostics)?.steps() / Amount::from(1).steps();
    if bytes < LEAST_LOG_BYTES {
        let message = format!("{place} is less than 1 KiB");
        let help = "write a size such as \"100M\"; what is beyond it is left out of the log";
        diagnostics.error(Diagnostic::new(span, message, "too small").help(help));
    }
    Some(bytes)
}

const NUMBER: &str = "write 0 or more, with at most four decimals, or a size such as \"4G\"";
const SIZE: &str = "write K, M, G or T (powers of 1024), or kB, MB, GB or TB (powers of 1000)";

fn read(written: &Quantity) -> Result<Amount, (String, &'static str)> {
    match written {
        Quantity::Integer(number) => {
            let units =
                u64::try_from(*number).map_err(|_| (format!("{number} is negative"), NUMBER))?;
            Amount::try_from(units).map_err(|error| (error.to_string(), NUMBER))
        }
        Quantity::Float(number) => {
            Amount::try_from(*number).map_err(|_| (format!("{number} is not an amount"), NUMBER))
        }
        Quantity::Text(text) => parse_size(text).map_err(|error| match error {
            SizeError::Malformed { .. } => (error.to_string(), NUMBER),
            _ => (error.to_string(), SIZE),
        }),
    }
}

//! Plans amounts of resources and limits of logs: numbers, or sizes such as "4G".

use std::ops::Range;

use windlass_core::Amount;

use crate::diagnostic::Diagnostic;
use crate::diagnostics::Diagnostics;
use crate::file::Quantity;
use crate::size::{SizeError, parse_size};
use crate::spanned::Field;

/// Returns an amount. `subject` names it in an error.
pub(super) fn amount(
    quantity: &Quantity,
    span: Range<usize>,
    subject: &str,
    diagnostics: &Diagnostics,
) -> Option<Amount> {
    let (error, help) = match parse(quantity) {
        Ok(amount) => return Some(amount),
        Err(wrong) => wrong,
    };
    diagnostics
        .error(Diagnostic::new(span, format!("{subject}: {error}"), "not an amount").help(help));
    None
}

/// The minimum of `log_limit`.
const LEAST_LOG_BYTES: u64 = 1 << 10;

/// Returns the `log_limit` in a field, in bytes.
pub(super) fn log_limit(
    field: &Field<Quantity>,
    subject: &str,
    diagnostics: &Diagnostics,
) -> Option<u64> {
    let (quantity, span) = field.with_span()?;
    let bytes =
        amount(quantity, span.clone(), subject, diagnostics)?.steps() / Amount::from(1).steps();
    if bytes < LEAST_LOG_BYTES {
        let message = format!("{subject} is less than 1 KiB");
        let help = "write 1K or more, such as \"100M\"";
        diagnostics.error(Diagnostic::new(span, message, "too small").help(help));
    }
    Some(bytes)
}

const NUMBER: &str = "write 0 or more, with at most four decimals, or a size such as \"4G\"";
const SIZE: &str = "write K, M, G or T (powers of 1024), or kB, MB, GB or TB (powers of 1000)";

/// Returns the amount, or an error and a help text.
fn parse(quantity: &Quantity) -> Result<Amount, (String, &'static str)> {
    match quantity {
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

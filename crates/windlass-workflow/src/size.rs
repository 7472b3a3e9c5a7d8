//! Parses sizes, such as "16G", "512MiB" or "1.5GB".
//!
//! K, M, G, T and KiB… are powers of 1024; kB, MB, GB and TB are powers of 1000.

use thiserror::Error;
use windlass_core::{Amount, AmountError};

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SizeError {
    /// It is not a number with a unit.
    #[error("{text:?} is not a size")]
    Malformed {
        /// The text.
        text: String,
    },
    /// Its unit is unknown.
    #[error("{unit:?} is not a unit of size")]
    UnknownUnit {
        /// The unit.
        unit: String,
    },
    /// It exceeds the largest [`Amount`].
    #[error("{text:?} is too large")]
    TooLarge {
        /// The text.
        text: String,
    },
}

/// Parses a size in bytes: a number, with or without decimals, and a unit.
///
/// ```
/// use windlass_core::Amount;
/// use windlass_workflow::parse_size;
///
/// assert_eq!(parse_size("4K"), Ok(Amount::from(4096)));
/// assert_eq!(parse_size("1.5 kB"), Ok(Amount::from(1500)));
/// assert!(parse_size("4 apples").is_err());
/// ```
pub fn parse_size(text: &str) -> Result<Amount, SizeError> {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let malformed = || SizeError::Malformed { text: text.to_owned() };
    let too_large = || SizeError::TooLarge { text: text.to_owned() };
    let amount = number.parse::<Amount>().map_err(|error| match error {
        AmountError::TooLarge { .. } => too_large(),
        _ => malformed(),
    })?;
    let unit = unit.trim_start();
    let factor = factor(unit).ok_or_else(|| SizeError::UnknownUnit { unit: unit.to_owned() })?;
    amount.steps().checked_mul(factor).map(Amount::from_steps).ok_or_else(too_large)
}

fn factor(unit: &str) -> Option<u64> {
    Some(match unit {
        "" | "B" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        "kB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return None,
    })
}

/// Formats a number of bytes with the largest unit that leaves it a whole number.
#[must_use]
pub fn format_size(bytes: Amount) -> String {
    const UNITS: [(&str, u64); 4] =
        [("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)];
    let unit = Amount::from(1).steps();
    let fits = |(_, factor): &&(&str, u64)| {
        bytes.steps() > 0 && bytes.steps().is_multiple_of(factor * unit)
    };
    match UNITS.iter().find(fits) {
        Some((name, factor)) => format!("{}{name}", Amount::from_steps(bytes.steps() / factor)),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<u64, &str>) {
        let got = parse_size(text).map(|size| size.to_string()).map_err(|error| error.to_string());
        match expected {
            Ok(bytes) => assert_eq!(got, Ok(bytes.to_string()), "{text}"),
            Err(part) => assert!(got.as_ref().is_err_and(|e| e.contains(part)), "{text}: {got:?}"),
        }
    }

    #[test]
    fn a_size_is_a_number_of_bytes() {
        check("0", Ok(0));
        check("17", Ok(17));
        check("16G", Ok(16 << 30));
        check(" 2 TiB ", Ok(2 << 40));
        check("0.5K", Ok(512));
        check("1.5GB", Ok(1_500_000_000));
        check("3kB", Ok(3000));
    }

    #[test]
    fn sizes_are_shown_in_the_largest_unit_that_leaves_them_whole() {
        for text in ["16G", "1536M", "1K", "1023", "0", "0.5", "2T"] {
            assert_eq!(format_size(parse_size(text).expect(text)), text);
        }
    }

    #[test]
    fn everything_else_is_rejected() {
        check("", Err("not a size"));
        check("G", Err("not a size"));
        check("-1G", Err("not a size"));
        check("1.2.3G", Err("not a size"));
        check("16g", Err("\"g\" is not a unit"));
        check("16KB", Err("\"KB\" is not a unit"));
        check("1é", Err("\"é\" is not a unit"));
        check("99999999T", Err("too large"));
        check("99999999999999999999", Err("too large"));
    }
}

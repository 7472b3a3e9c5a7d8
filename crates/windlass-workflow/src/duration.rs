//! Parses durations, such as "250ms" or "1h 30m".

use std::time::Duration;

use thiserror::Error;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DurationError {
    /// It is not made of numbers with units.
    #[error("{text:?} is not a duration")]
    Malformed {
        /// The text.
        text: String,
    },
    /// It exceeds 2⁶⁴ milliseconds.
    #[error("{text:?} is too long")]
    TooLong {
        /// The text.
        text: String,
    },
}

/// Parses a duration: whole numbers with the units ms, s, m, h or d, one after the other.
///
/// ```
/// use std::time::Duration;
///
/// assert_eq!(windlass_workflow::parse_duration("1h 30m"), Ok(Duration::from_secs(5400)));
/// assert!(windlass_workflow::parse_duration("5").is_err(), "five what?");
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let malformed = || DurationError::Malformed { text: text.to_owned() };
    let too_long = || DurationError::TooLong { text: text.to_owned() };
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(malformed());
    }
    let mut sum: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(malformed)?;
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let millis = unit_millis(unit).ok_or_else(malformed)?;
        let number: u64 = match number {
            "" => return Err(malformed()),
            number => number.parse().map_err(|_| too_long())?,
        };
        let part = number.checked_mul(millis);
        sum = part.and_then(|part| sum.checked_add(part)).ok_or_else(too_long)?;
        rest = tail.trim_start();
    }
    Ok(Duration::from_millis(sum))
}

fn unit_millis(unit: &str) -> Option<u64> {
    Some(match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_duration_are_added() {
        for (text, millis) in [
            ("250ms", 250),
            ("0s", 0),
            ("1m", 60_000),
            ("1h 30m", 5_400_000),
            (" 2d1s ", 172_801_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn everything_else_is_rejected() {
        for text in ["", " ", "5", "s", "-1s", "1.5h", "1 s", "1y", "1s;"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        let many = "213503982334d ".repeat(2);
        for huge in ["18446744073709551615d", "99999999999999999999s", many.as_str()] {
            let read = parse_duration(huge);
            assert!(matches!(read, Err(DurationError::TooLong { .. })), "{huge}: {read:?}");
        }
    }
}

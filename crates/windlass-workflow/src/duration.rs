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

/// Formats a duration as in a file, in two units at most and without trailing zeros.
///
/// ```
/// use std::time::Duration;
///
/// let text = |nanos| windlass_workflow::format_duration(Duration::from_nanos(nanos));
/// assert_eq!(text(999_940_210), "1s");
/// assert_eq!(text(5_400_000_000_000), "1h 30m");
/// ```
#[must_use]
pub fn format_duration(time: Duration) -> String {
    let nanos = time.as_nanos();
    let (millis, hundredths) = (rounded(nanos, 1_000_000), rounded(nanos, 10_000_000));
    if millis < 1000 {
        format!("{millis}ms")
    } else if hundredths < 1000 {
        let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
        format!("{}s", text.trim_end_matches('0').trim_end_matches('.'))
    } else {
        whole_seconds(rounded(nanos, 1_000_000_000))
    }
}

fn whole_seconds(seconds: u128) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m"), (1, "s")];
    let place = units.iter().position(|(size, _)| seconds >= *size).unwrap_or(units.len() - 1);
    let (large, name) = units[place];
    let rest = units.get(place + 1).map(|(size, name)| (seconds % large / size, name));
    match rest {
        Some((rest @ 1.., small)) => format!("{}{name} {rest}{small}", seconds / large),
        _ => format!("{}{name}", seconds / large),
    }
}

/// Returns how often `unit` is in `amount`, to the nearest whole number.
fn rounded(amount: u128, unit: u128) -> u128 {
    (amount + unit / 2) / unit
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
    fn durations_are_formatted_without_trailing_zeros() {
        for (nanos, text) in [
            (0, "0ms"),
            (20_000_000, "20ms"),
            (499_600_000, "500ms"),
            (999_940_210, "1s"),
            (1_500_000_000, "1.5s"),
            (1_234_567_890, "1.23s"),
            (9_999_900_000, "10s"),
            (59_940_210_000, "1m"),
            (90_000_000_000, "1m 30s"),
            (3_600_000_000_000, "1h"),
            (5_400_000_000_000, "1h 30m"),
            (183_600_000_000_000, "2d 3h"),
        ] {
            assert_eq!(format_duration(Duration::from_nanos(nanos)), text, "{nanos} ns");
        }
        assert_eq!(format_duration(Duration::MAX), "213503982334601d 7h");
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

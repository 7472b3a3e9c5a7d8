//! Parses rates, such as "100/min".

use std::fmt;
use std::time::Duration;

use thiserror::Error;

/// A number of starts per unit of time.
///
/// ```
/// use std::time::Duration;
/// use windlass_workflow::StartRate;
///
/// let rate: StartRate = "100/min".parse()?;
/// assert_eq!((rate.count, rate.per), (100, Duration::from_secs(60)));
/// # Ok::<(), windlass_workflow::StartRateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartRate {
    /// The number of starts; never 0.
    pub count: u32,
    /// The unit of time; never zero.
    pub per: Duration,
}

/// Why a text is not a rate.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StartRateError {
    /// It is not a whole number, a slash and a unit.
    #[error("{text:?} is not a rate")]
    Malformed {
        /// The text.
        text: String,
    },
    /// Its unit is unknown.
    #[error("{unit:?} is not a unit of a rate")]
    UnknownUnit {
        /// The unit.
        unit: String,
    },
    /// It is zero, so that nothing could start.
    #[error("a rate of 0 lets nothing start")]
    Zero,
}

impl std::str::FromStr for StartRate {
    type Err = StartRateError;

    fn from_str(text: &str) -> Result<Self, StartRateError> {
        let malformed = || StartRateError::Malformed { text: text.to_owned() };
        let (count, unit) = text.split_once('/').ok_or_else(malformed)?;
        let count = count.trim();
        let digits = count.bytes().all(|byte| byte.is_ascii_digit());
        let count = count.parse::<u32>().ok().filter(|_| digits).ok_or_else(malformed)?;
        if count == 0 {
            return Err(StartRateError::Zero);
        }
        let unit = unit.trim();
        let seconds =
            seconds(unit).ok_or_else(|| StartRateError::UnknownUnit { unit: unit.to_owned() })?;
        Ok(StartRate { count, per: Duration::from_secs(seconds) })
    }
}

fn seconds(unit: &str) -> Option<u64> {
    UNITS.iter().find(|(known, _)| *known == unit).map(|(_, seconds)| *seconds)
}

const UNITS: [(&str, u64); 4] = [("s", 1), ("min", 60), ("h", 3600), ("d", 86_400)];

impl fmt::Display for StartRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = UNITS.iter().find(|(_, seconds)| Duration::from_secs(*seconds) == self.per);
        match unit {
            Some((unit, _)) => write!(f, "{}/{unit}", self.count),
            None => write!(f, "{} in {:?}", self.count, self.per),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_parsed_and_displayed() {
        for (text, shown) in [("1/s", "1/s"), (" 30 / h ", "30/h"), ("5/d", "5/d")] {
            assert_eq!(
                text.parse::<StartRate>().map(|rate| rate.to_string()),
                Ok(shown.to_owned())
            );
        }
    }

    #[test]
    fn everything_else_is_rejected() {
        for (text, part) in [
            ("100", "not a rate"),
            ("/s", "not a rate"),
            ("+1/s", "not a rate"),
            ("1.5/s", "not a rate"),
            ("0/s", "lets nothing start"),
            ("100/m", "\"m\" is not a unit"),
        ] {
            let error = text.parse::<StartRate>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

//! Exact amounts of a resource: fixed-point numbers in steps of 1/10 000.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// An exact amount of a resource, in steps of 1/10 000.
///
/// ```
/// use windlass_core::Amount;
///
/// let half: Amount = "0.5".parse()?;
/// assert_eq!(half.to_string(), "0.5");
/// assert!("0.00001".parse::<Amount>().is_err(), "finer than a step");
/// # Ok::<(), windlass_core::AmountError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(u64);

const STEPS: u64 = 10_000;
const DECIMALS: usize = 4;

impl Amount {
    /// The amount 0.
    pub const ZERO: Amount = Amount(0);
    /// The amount 1.
    pub const ONE: Amount = Amount(STEPS);
    /// The largest amount, a little over 10^15 units.
    pub const MAX: Amount = Amount(u64::MAX);

    /// Returns the amount of `steps` steps of 1/10 000.
    #[must_use]
    pub const fn from_steps(steps: u64) -> Self {
        Self(steps)
    }

    /// Returns the amount in steps of 1/10 000.
    #[must_use]
    pub const fn steps(self) -> u64 {
        self.0
    }
}

/// A number that is not an [`Amount`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AmountError {
    /// Not a plain decimal number: empty, signed, infinite, or with other characters in it.
    #[error("{text:?} is not an amount: use a non-negative number such as 4 or 0.5")]
    NotANumber {
        /// The text as given.
        text: String,
    },
    /// The number has more than four decimals.
    #[error("{text:?} is finer than 1/10000, the smallest step of an amount")]
    TooFine {
        /// The text as given.
        text: String,
    },
    /// The number is above [`Amount::MAX`].
    #[error("{text:?} exceeds the largest amount, {max}", max = Amount::MAX)]
    TooLarge {
        /// The text as given.
        text: String,
    },
}

impl From<u32> for Amount {
    fn from(units: u32) -> Self {
        Self(u64::from(units) * STEPS)
    }
}

impl TryFrom<u64> for Amount {
    type Error = AmountError;

    fn try_from(units: u64) -> Result<Self, AmountError> {
        let steps = units.checked_mul(STEPS);
        steps.map(Self).ok_or_else(|| AmountError::TooLarge { text: units.to_string() })
    }
}

impl TryFrom<f64> for Amount {
    type Error = AmountError;

    /// Returns the decimal that `number` prints as, so 0.1 is exactly one tenth.
    fn try_from(number: f64) -> Result<Self, AmountError> {
        number.to_string().parse()
    }
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let (units, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits(units) || !digits(decimals) {
            return Err(AmountError::NotANumber { text: text.to_owned() });
        }
        let decimals = decimals.trim_end_matches('0');
        if decimals.len() > DECIMALS {
            return Err(AmountError::TooFine { text: text.to_owned() });
        }
        let fraction = format!("{decimals:0<DECIMALS$}").parse::<u64>().expect("four digits");
        let steps = units.parse::<u64>().ok().and_then(|u| u.checked_mul(STEPS));
        let steps = steps.and_then(|s| s.checked_add(fraction));
        steps.map(Amount).ok_or_else(|| AmountError::TooLarge { text: text.to_owned() })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (units, fraction) = (self.0 / STEPS, self.0 % STEPS);
        if fraction == 0 {
            return write!(f, "{units}");
        }
        let decimals = format!("{fraction:0DECIMALS$}");
        write!(f, "{units}.{}", decimals.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let got = text.parse::<Amount>().map(|amount| amount.to_string());
        match expected {
            Ok(amount) => assert_eq!(got.as_deref(), Ok(amount), "{text}"),
            Err(part) => {
                let error = got.expect_err(text).to_string();
                assert!(error.contains(part), "{text}: {error}");
            }
        }
    }

    #[test]
    fn amounts_are_exact_decimals() {
        check("4", Ok("4"));
        check("0.5", Ok("0.5"));
        check("007.2500", Ok("7.25"));
        check("0.0001", Ok("0.0001"));
        check("1844674407370955.1615", Ok("1844674407370955.1615"));
    }

    #[test]
    fn what_is_not_an_exact_amount_is_refused() {
        check("", Err("is not an amount"));
        check("-1", Err("is not an amount"));
        check("1e3", Err("is not an amount"));
        check("NaN", Err("is not an amount"));
        check("inf", Err("is not an amount"));
        check(".5", Err("is not an amount"));
        check("0.00001", Err("finer than 1/10000"));
        check("1844674407370955.1616", Err("exceeds the largest"));
        check("99999999999999999999999", Err("exceeds the largest"));
    }

    #[test]
    fn floating_point_numbers_are_taken_as_they_print() {
        assert_eq!(Amount::try_from(0.1), "0.1".parse());
        for bad in [f64::NAN, f64::INFINITY, -1.0, 1e-9, 1e300] {
            assert!(Amount::try_from(bad).is_err(), "{bad}");
        }
    }
}

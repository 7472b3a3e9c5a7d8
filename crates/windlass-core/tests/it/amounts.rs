//! Compares amounts with integer arithmetic: a decimal is a numerator over a power of ten.

use proptest::prelude::*;
use windlass_core::{Amount, AmountError};

use crate::support::cases;

const STEPS: u128 = 10_000;

/// A number as users write it: its digits before and after the point.
fn decimal() -> impl Strategy<Value = (u64, String)> {
    let units =
        prop_oneof![0..100u64, any::<u64>(), 1_844_674_407_370_950..1_844_674_407_370_960u64];
    (units, "[0-9]{0,3}[0-9]{0,3}0{0,3}")
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn a_decimal_is_read_exactly_or_refused((units, decimals) in decimal()) {
        let text = if decimals.is_empty() { units.to_string() } else { format!("{units}.{decimals}") };
        // The number is numerator / scale, so there are numerator × 10 000 / scale steps.
        let scale = 10u128.pow(u32::try_from(decimals.len()).expect("a few digits"));
        let fraction = decimals.parse::<u128>().unwrap_or(0);
        let steps = (u128::from(units) * scale + fraction) * STEPS;
        match text.parse::<Amount>() {
            Ok(amount) => prop_assert_eq!(u128::from(amount.steps()) * scale, steps),
            Err(AmountError::TooFine { .. }) => prop_assert_ne!(steps % scale, 0),
            Err(AmountError::TooLarge { .. }) => prop_assert!(steps / scale > u128::from(u64::MAX)),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn an_amount_is_written_as_it_is_read(steps: u64) {
        let amount = Amount::from_steps(steps);
        prop_assert_eq!(amount.to_string().parse(), Ok(amount));
    }

    #[test]
    fn a_float_is_the_decimal_that_it_prints_as(steps in 0..1_000_000_000_000u64) {
        #[expect(clippy::cast_precision_loss, reason = "exact below 2^53")]
        let number = steps as f64 / 10_000.0;
        prop_assert_eq!(Amount::try_from(number), Ok(Amount::from_steps(steps)));
    }

    #[test]
    fn whole_units_are_exact_or_refused(units: u64) {
        let exact = u64::try_from(u128::from(units) * STEPS).ok().map(Amount::from_steps);
        prop_assert_eq!(Amount::try_from(units).ok(), exact);
    }
}

//! The configuration of the random runs.

use proptest::test_runner::{Config, RngSeed};

/// Returns a configuration of `cases` cases, the same in every run unless `PROPTEST_RNG_SEED` is
/// set.
pub(crate) fn cases(cases: u32) -> Config {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    match config.rng_seed {
        RngSeed::Random => Config { rng_seed: RngSeed::Fixed(1), ..config },
        RngSeed::Fixed(_) => config,
    }
}

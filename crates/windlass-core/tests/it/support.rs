//! How the random runs are made.

use proptest::test_runner::{Config, RngSeed};

/// So many cases, the same in every run unless `PROPTEST_RNG_SEED` says which others.
pub(crate) fn cases(cases: u32) -> Config {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    match config.rng_seed {
        RngSeed::Random => Config { rng_seed: RngSeed::Fixed(1), ..config },
        RngSeed::Fixed(_) => config,
    }
}

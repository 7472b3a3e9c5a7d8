//! What several files of tests use.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use futures::Future;
use proptest::test_runner::{Config, RngSeed};
use windlass::ResourceCost;

/// Amounts by name, each once.
pub(crate) fn cost<const N: usize>(pairs: [(&str, u32); N]) -> ResourceCost {
    ResourceCost::of(pairs).expect("each name once")
}

pub(crate) fn cpus(n: u32) -> ResourceCost {
    cost([("cpu", n)])
}

/// Polls a future once, with nobody to wake.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Lets everything that can run under paused time run, without time passing.
pub(crate) async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

/// So many random cases, the same in every run unless `PROPTEST_RNG_SEED` says which others.
pub(crate) fn cases(cases: u32) -> Config {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    match config.rng_seed {
        RngSeed::Random => Config { rng_seed: RngSeed::Fixed(1), ..config },
        RngSeed::Fixed(_) => config,
    }
}

//! Loom models of the pool's protocols, on the files that are shipped.
//!
//! Each model is small enough for loom to try every interleaving:
//!
//! ```text
//! RUSTFLAGS="--cfg windlass_loom" cargo test -p windlass-pool --release --lib \
//!     --target-dir target/loom
//! ```

mod cancelling;
mod forks;
mod searching;
mod sleeping;
mod tasks;

/// Runs `check` under every interleaving with at most three preemptions.
fn model(check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

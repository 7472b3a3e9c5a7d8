//! Random numbers that can be repeated by seed.

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// Creates a generator with the seed `WINDLASS_SEED`, or one from the clock.
    pub(crate) fn from_env() -> Self {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = match std::env::var("WINDLASS_SEED") {
            Ok(seed) => seed.parse().expect("WINDLASS_SEED is a number"),
            Err(_) => u64::from(clock.subsec_nanos()) ^ clock.as_secs(),
        };
        Self { seed, state: seed }
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // SplitMix64 works with any seed.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

impl Drop for Random {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat with WINDLASS_SEED={}", self.seed);
        }
    }
}

/// Returns how many rounds a test does: `in_a_storm` with `WINDLASS_STORM=1`.
pub(crate) fn rounds(usually: usize, in_a_storm: usize) -> usize {
    if std::env::var_os("WINDLASS_STORM").is_some() { in_a_storm } else { usually }
}

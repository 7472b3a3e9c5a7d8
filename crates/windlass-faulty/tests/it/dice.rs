//! Chance that can be repeated.

use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) struct Dice {
    seed: u64,
    state: u64,
}

impl Dice {
    /// By `WINDLASS_SEED`, or as nobody could guess.
    pub(crate) fn thrown() -> Self {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = match std::env::var("WINDLASS_SEED") {
            Ok(seed) => seed.parse().expect("WINDLASS_SEED is a number"),
            Err(_) => u64::from(clock.subsec_nanos()) ^ clock.as_secs(),
        };
        Self { seed, state: seed }
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // SplitMix64: every seed is as good as any other.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

impl Drop for Dice {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat with WINDLASS_SEED={}", self.seed);
        }
    }
}

/// How often to do something: more often with `WINDLASS_STORM=1`.
pub(crate) fn rounds(usually: usize, in_a_storm: usize) -> usize {
    if std::env::var_os("WINDLASS_STORM").is_some() { in_a_storm } else { usually }
}

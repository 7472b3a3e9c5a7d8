//! Kills the command again and again, at named points and at any moment, and lets it go on.
//!
//! After each kill and at the end, the records of the steps themselves and the journal have to tell
//! one story. `WINDLASS_STORM=1` kills at least 200 times at every point; `WINDLASS_SEED` repeats
//! what a failed test says it did.

mod dice;
mod flow;
mod journal;
mod lives;
mod moments;
mod points;
mod record;
#[path = "../../../windlass-cli/tests/it/surroundings.rs"]
mod surroundings;

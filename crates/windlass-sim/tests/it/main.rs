//! The engine under scenarios and random worlds, and the dependencies between crates.

mod arrows;
mod fleets;
mod scenarios;
mod worlds;

//! The real binary: scenarios, kills, locks, exit codes.

mod bench;
mod locks;
mod resume;
mod scenarios;
mod usage;

//! The real binary: scenarios, kills, locks, exit codes.

mod before_running;
mod bench;
mod locks;
mod resume;
mod scenarios;
mod usage;

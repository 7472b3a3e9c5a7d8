//! Doubts the engine: scenarios as text, and random worlds by seed.
//!
//! A [scenario] is a small file that says what is submitted, how attempts end, and what
//! must be seen when. The same files run on the bare engine here, and on every driver in that
//! driver's own tests. A [world] is made up from a seed, and holds the engine to its
//! invariants after every step.

pub mod report;
pub mod scenario;
pub mod virtual_run;
pub mod world;

//! The simulator that tests the engine: scenarios as text files, and random worlds by seed.
//!
//! A [scenario] is a small file with the works to submit, the ends of their attempts, and the trace that must
//! result. The same files run on the bare engine here, and on every driver in that driver's own tests. A
//! [world] is generated from a seed; it checks the invariants of its engines after every step. Everything
//! happens in virtual time, on one thread. A [store] that repeats transactions and loses replies stands for
//! one in a network. A [fleet] is many workers, which come and go.

pub mod fleet;
pub mod postgres;
pub mod report;
pub mod scenario;
pub mod store;
pub mod virtual_run;
pub mod world;

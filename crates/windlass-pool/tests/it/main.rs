//! Tests of the pool through its public API.

mod adversarial;
mod awaiting;
mod cancelling;
mod deadlines;
mod detached;
mod graphs;
mod idle;
mod panics;
mod parallel;
mod races;
mod rendezvous;
mod scopes;
mod shutdown;
mod stealing;
mod stress;
mod support;
mod thread_limits;

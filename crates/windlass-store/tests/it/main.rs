//! What every backend promises, and what only the embedded one has to.

mod calls;
mod conformance;
mod machines;
mod postgres;
mod sqlite;
mod stalled;
mod taking_over;

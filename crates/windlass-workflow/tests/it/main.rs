//! Whole files through the public door.

mod bytes;
mod diagnostics;
mod examples;
mod forms;
mod plans;
mod quoting;
mod scale;
mod schema;

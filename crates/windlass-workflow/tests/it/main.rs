//! Whole files through the public door.

mod bytes;
mod examples;
mod forms;
mod mistakes;
mod plans;
mod quoting;
mod scale;
mod schema;

//! Whole files through the public door.

mod bytes;
mod examples;
mod mistakes;
mod plans;
mod quoting;
mod scale;
mod schema;

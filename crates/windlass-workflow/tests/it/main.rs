//! Tests of whole files through the public API.

mod bytes;
mod diagnostics;
mod examples;
mod forms;
mod plans;
mod quoting;
mod scale;
mod schema;

//! Reads workflow files: text to [`Plan`], with a span for every mistake.
//!
//! ```
//! let text = r#"
//! name = "hello"
//!
//! [step.greet]
//! run = "echo hello"
//!
//! [step.wave]
//! run   = "echo bye"
//! after = ["greet"]
//! "#;
//! let plan = windlass_workflow::parse("hello.toml", text)?;
//! assert_eq!(plan.steps[1].name, "wave");
//! assert_eq!(plan.steps[1].after, [0]);
//! # Ok::<(), windlass_workflow::Mistakes>(())
//! ```
//!
//! Nothing is run here, and nothing is read but the text.

mod duration;
mod file;
mod mistake;
mod plan;

pub use duration::{DurationError, parse_duration};
pub use mistake::{Mistake, Mistakes};
pub use plan::{Plan, Retry, Step, parse};

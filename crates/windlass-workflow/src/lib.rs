//! Reads workflow files: text to [`Plan`], with a span for every mistake.
//!
//! ```
//! let text = r#"
//! name = "hello"
//!
//! [params]
//! whom = "world"
//!
//! [step.greet]
//! run = "echo hello {whom}"
//!
//! [step.wave]
//! run   = "echo bye"
//! after = ["greet"]
//! "#;
//! let workflow = windlass_workflow::parse("hello.toml", text)?;
//! let plan = workflow.bind([("whom", "you")])?;
//! assert_eq!(plan.steps[1].name, "wave");
//! assert_eq!(plan.steps[1].after[0].step, 0);
//! assert_eq!(plan.params["whom"], "you");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing is run here, and nothing is read but the text. A file is read in three strides: its
//! tables into typed keys with their places, those into a plan with every name resolved, and the
//! plan with values for its parameters. Each stride tells all mistakes that it finds, with the place
//! of each, so that whoever wrote the file sees all of them at once:
//!
//! ```
//! let text = "[step.build]\nrun = 'make'\n[step.test]\nafter = ['biuld']\nrun = 'make test'\ntimout = '5m'\n";
//! let mistakes = windlass_workflow::parse("flow.toml", text).unwrap_err();
//! let said = mistakes.to_string();
//! assert!(said.contains("step `test` waits for `biuld`, which does not exist"));
//! assert!(said.contains("did you mean `build`?") && said.contains("did you mean `timeout`?"));
//! ```
//!
//! A text in a plan is never handed to a shell as it is: values travel in the environment, so none of
//! them can become a command. Every key is in `docs/workflow.md` of the repository.

mod choice;
mod duration;
mod event;
mod file;
mod graph;
mod guard;
pub mod limits;
mod mistake;
mod notes;
mod order;
mod param;
mod plan;
mod planner;
mod rate;
mod reader;
mod resource;
mod schema;
mod script;
mod shape;
mod shell;
mod size;
mod step;
mod syntax;
mod template;
mod variable;
mod workflow;
mod written;

pub use choice::NoSuchStep;
pub use duration::{DurationError, format_duration, parse_duration};
pub use event::{EventPattern, EventPatternError};
pub use graph::{GraphFormat, graph};
pub use guard::{Guard, GuardAction, GuardRetry};
pub use mistake::{Mistake, Mistakes, Warnings};
pub use param::{Param, ParamError, ParamErrors, ParamType};
pub use plan::{Hooks, OnFailure, Plan};
pub use rate::{Rate, RateError};
pub use resource::{Resource, ResourceKind, SHORTEST_HEARTBEAT_TIMEOUT, Semaphore};
pub use schema::json_schema;
pub use script::{Command, Script, Shell};
pub use shell::{Misplaced, ShellPlace, ShellText, plain_words};
pub use size::{SizeError, parse_size};
pub use step::{Backoff, Edge, EdgeCondition, Jitter, Retry, Slots, Step};
pub use template::{Part, Template, Unfilled};
pub use variable::Variable;
pub use workflow::{Workflow, parse};

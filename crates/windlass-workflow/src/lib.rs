//! Parses workflow files: TOML text to a [`Plan`], with a span for every error.
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
//! Parsing has three stages. The reader turns tables into typed keys with spans, the planner turns
//! those into a plan with every name resolved, and [`Workflow::bind`] sets the parameters. Each stage
//! reports all its errors at once:
//!
//! ```
//! let text = "[step.build]\nrun = 'make'\n[step.test]\nafter = ['biuld']\nrun = 'make test'\ntimout = '5m'\n";
//! let errors = windlass_workflow::parse("flow.toml", text).unwrap_err().to_string();
//! assert!(errors.contains("step `test` waits for `biuld`, which does not exist"));
//! assert!(errors.contains("did you mean `build`?") && errors.contains("did you mean `timeout`?"));
//! ```
//!
//! Shell text in a plan refers to values through environment variables, so no value can become shell
//! code. This crate runs no command and reads no file. `docs/workflow.md` in the repository documents
//! every key.

mod diagnostic;
mod diagnostics;
mod duration;
mod event;
mod file;
mod graph;
mod guard;
pub mod limits;
mod param;
mod plan;
mod planner;
mod rate;
mod reader;
mod resource;
mod schema;
mod script;
mod selection;
mod shell;
mod size;
mod spanned;
mod step;
mod syntax;
mod template;
mod topology;
mod untagged;
mod variable;
mod workflow;

pub use diagnostic::{Diagnostic, ParseErrors, Warnings};
pub use duration::{DurationError, format_duration, parse_duration};
pub use event::{EventPattern, EventPatternError};
pub use graph::{GraphFormat, graph};
pub use guard::{Guard, GuardAction, GuardRetry};
pub use param::{Param, ParamError, ParamErrors, ParamType};
pub use plan::{Hooks, OnFailure, Plan};
pub use rate::{StartRate, StartRateError};
pub use resource::{Resource, ResourceKind, SHARED, SHORTEST_HEARTBEAT_TIMEOUT, SemaphoreSpec};
pub use schema::json_schema;
pub use script::{Command, Script, Shell};
pub use selection::NoSuchStep;
pub use shell::{MisplacedValue, ShellContext, ShellText, plain_words};
pub use size::{SizeError, format_size, parse_size};
pub use step::{
    Backoff, Execution, Jitter, Needs, Retry, SemaphoreSlots, Step, StepDependency, StepEnding,
    StepGate,
};
pub use template::{MissingValue, Template, TemplatePart};
pub use variable::Variable;
pub use workflow::{Workflow, parse};

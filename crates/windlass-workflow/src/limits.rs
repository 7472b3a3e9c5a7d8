//! How large a workflow may be; the parser rejects a larger one and names the limit.

/// The maximum size of a file, in bytes.
pub const FILE_BYTES: usize = 64 << 20;
/// The maximum nesting depth of tables and lists; the TOML parser's own limit.
pub const NESTING: usize = 80;
/// The maximum size of the name of a workflow or a step, and of a value that becomes part of one, in bytes.
pub const NAME_BYTES: usize = 1024;
/// The maximum number of steps that one `each` expands to.
pub const EACH_STEPS: usize = 10_000;
/// The maximum number of steps in a workflow.
pub const STEPS: usize = 1_000_000;
/// The maximum number of edges between the steps of a workflow.
pub const EDGES: usize = 5_000_000;
/// The maximum number of errors, and of warnings, that are kept; further errors are only counted.
pub const DIAGNOSTICS: usize = 100;

//! How large a workflow may be. Whatever is larger is refused with the limit's number.

/// The longest file, in bytes.
pub const FILE_BYTES: usize = 64 << 20;
/// The deepest nesting of tables and lists; the TOML reader's own limit.
pub const NESTING: usize = 80;
/// The most steps that one `each` may stand for.
pub const EACH_STEPS: usize = 10_000;
/// The most steps of a workflow.
pub const STEPS: usize = 1_000_000;
/// The most edges between the steps of a workflow.
pub const EDGES: usize = 5_000_000;
/// The most mistakes, and the most warnings, that are kept; the rest is counted.
pub const DIAGNOSTICS: usize = 100;

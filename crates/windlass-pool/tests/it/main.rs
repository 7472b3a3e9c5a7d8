//! The pool as its users see it, rule by rule.

mod awaiting;
mod panics;
mod parallel;
mod scopes;
mod support;

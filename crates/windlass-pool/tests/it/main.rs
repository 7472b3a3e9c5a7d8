//! The pool as its users see it, rule by rule.

mod awaiting;
mod cancelling;
mod deadlines;
mod ending;
mod graphs;
mod idle;
mod meeting;
mod panics;
mod parallel;
mod races;
mod sabotage;
mod scopes;
mod stealing;
mod stress;
mod support;

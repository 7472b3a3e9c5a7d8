//! The Tokio driver: the scenarios under paused time, and what only a driver can do wrong.

mod cpu;
mod examples;
mod inputs;
mod reasons;
mod scenarios;
mod scheduler;

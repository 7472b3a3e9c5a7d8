//! The Tokio driver: the scenarios under paused time, and what only a driver can do wrong.

mod balancer;
mod capacity;
mod cpu;
mod examples;
mod runner;
mod scenarios;
mod scheduler;
mod sources;
mod support;

//! The Tokio driver: the scenarios under paused time, the rules that users rely on, and what only a
//! driver can do wrong.

mod balancer;
mod batch;
mod cancel;
mod capacity;
mod cpu;
mod edges;
mod events;
mod examples;
mod families;
mod gates;
mod hooks;
mod inputs;
mod reasons;
mod results;
mod retries;
mod runner;
mod scenarios;
mod sources;
mod support;
mod suspension;
mod timeouts;

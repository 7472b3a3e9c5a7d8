//! The Tokio driver: the scenarios under paused time, the rules that users rely on, and what only a
//! driver can do wrong.

mod balancer;
mod batch;
mod cancel;
mod capacity;
mod causes;
mod closures;
mod cpu;
mod destructors;
mod edges;
mod events;
mod examples;
mod families;
mod faults;
mod gates;
mod handles;
mod hooks;
mod inputs;
mod limits;
#[cfg(feature = "metrics")]
mod measuring;
mod reasons;
mod results;
mod retries;
mod runner;
mod runners;
mod scenarios;
#[cfg(feature = "serde")]
mod serializing;
mod snapshots;
mod sources;
mod spans;
mod stress;
mod summaries;
mod support;
mod suspension;
mod timeouts;
mod worlds;

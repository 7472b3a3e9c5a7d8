//! The Tokio driver: the scenarios under paused time, the rules that users rely on, and what only a
//! driver can do wrong.

mod batch;
mod cancel;
mod cpu;
mod destructors;
mod edges;
mod events;
mod families;
mod faults;
mod gates;
mod handles;
mod hooks;
mod limits;
mod results;
mod retries;
mod scenarios;
mod snapshots;
mod stress;
mod support;
mod suspension;
mod timeouts;

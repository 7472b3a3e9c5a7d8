//! The real binary: scenarios, kills, locks, exit codes.

mod before_running;
mod bench;
mod commits;
mod conditions;
mod damage;
mod display;
mod docs;
mod events;
mod examples;
mod failures;
mod guards;
mod hardship;
mod holding;
mod locks;
mod looking;
mod outputs;
mod primitives;
mod processes;
mod resume;
mod scenarios;
mod shown;
mod steering;
mod storms;
mod terminal;
mod times;
mod usage;

//! What the benchmarks of the service share: the command in a directory of its own, a scheduler and a worker.

mod process;
mod sections;
mod windlass;

pub use process::{PATIENCE, Process, Service};
pub use sections::{Extent, Section, measure};
pub use windlass::{Place, Windlass};

use std::fmt::Write as _;

/// Returns a workflow with so many independent steps that run `true`, of which `slots` run at a time.
#[must_use]
pub fn flow_of_true(steps: usize, slots: usize) -> String {
    let mut flow = format!("concurrency = {slots}\n");
    for step in 0..steps {
        let _ = writeln!(flow, "[step.s{step}]\nrun = 'true'");
    }
    flow
}

//! What the benchmarks of the service share: the command in a directory of its own, a scheduler and a worker.

mod flow;
mod process;
mod sections;
mod windlass;

pub use flow::{flow_of_true, time_in_foreground, time_submitted};
pub use process::{PATIENCE, Process, Service};
pub use sections::{Extent, Section, measure};
pub use windlass::{Place, Windlass};

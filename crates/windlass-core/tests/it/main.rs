//! What windlass-core promises, through its public interface, also against naive models.

mod graph;
mod graph_properties;
mod passing_over;
//! The parts of the engine against naive models, over random runs.
mod amounts;
mod balancer;
mod capacity;
mod extremes;
mod support;

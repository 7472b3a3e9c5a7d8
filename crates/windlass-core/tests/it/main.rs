//! Tests of windlass-core through its public interface, partly against naive models.

mod amounts;
mod balancer;
mod capacity;
mod coordination;
mod extremes;
mod graph;
mod graph_properties;
mod limits;
mod passing_over;
mod support;

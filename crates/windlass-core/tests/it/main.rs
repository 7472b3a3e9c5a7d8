//! What windlass-core promises, through its public interface, also against naive models.

mod graph;
mod graph_properties;
mod passing_over;

//! windlass-sim.

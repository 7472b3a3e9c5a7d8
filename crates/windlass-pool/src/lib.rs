//! windlass-pool.

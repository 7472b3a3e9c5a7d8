//! windlass-core.

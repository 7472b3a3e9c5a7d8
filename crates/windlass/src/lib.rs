//! windlass.

//! windlass-store.

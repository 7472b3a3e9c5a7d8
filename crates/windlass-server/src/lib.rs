//! windlass-server.

//! windlass-workflow.

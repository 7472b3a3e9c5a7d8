//! Random calls from several tasks and levels.

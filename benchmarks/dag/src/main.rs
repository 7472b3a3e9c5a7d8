//! Graphs of no-op works: Windlass against what people write by hand.
fn main() {}

//! The bare engine on one thread: what a work costs from submission to its end.
//!
//! `cargo run --release -p windlass-bench-engine` runs the five shapes at 100k and 1M works, plain
//! and with everything on, and then two cases that would show a linear scan: every cost different, and 10M
//! queued works. It prints one JSON object: nanoseconds and bytes per work, as median and spread;
//! `-- --quick` does a little of it.

mod memory;
mod run;
mod shapes;

use serde_json::{Value, json};

use crate::run::{Setup, run};
use crate::shapes::SHAPES;

#[global_allocator]
static MEMORY: memory::Counting = memory::Counting;

const ROUNDS: usize = 5;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let (rounds, results) = match &arguments[..] {
        [works, shape, setup] => {
            return once(works.parse().expect("a number of works"), shape, setup);
        }
        [flag] if flag == "--quick" => (1, shapes_of(&[10_000], 1)),
        _ => (ROUNDS, everything()),
    };
    println!("{:#}", json!({ "benchmark": "engine", "rounds": rounds, "results": results }));
}

fn everything() -> Vec<Value> {
    let mut results = shapes_of(&[100_000, 1_000_000], ROUNDS);
    for works in [10_000, 100_000] {
        let setup = Setup::EVERY_COST_DIFFERENT;
        results.push(measure("independent", works, &setup, ROUNDS, |_, _| Vec::new()));
    }
    results.push(measure("independent", 10_000_000, &Setup::PLAIN, 1, |_, _| Vec::new()));
    results
}

/// Measures all shapes, plain and with everything on.
fn shapes_of(sizes: &[usize], rounds: usize) -> Vec<Value> {
    let mut results = Vec::new();
    for works in sizes {
        for (shape, sources) in SHAPES {
            for setup in [Setup::PLAIN, Setup::EVERYTHING] {
                results.push(measure(shape, *works, &setup, rounds, sources));
            }
        }
    }
    results
}

/// Runs one shape once, for a profiler: `-- 100000 chain plain`.
fn once(works: usize, shape: &str, setup: &str) {
    let (_, sources) = SHAPES.iter().find(|(name, _)| *name == shape).expect("a shape");
    let setups = [Setup::PLAIN, Setup::EVERYTHING, Setup::EVERY_COST_DIFFERENT];
    let setup = setups.iter().find(|known| known.name == setup).expect("a setup");
    measure(shape, works, setup, 1, *sources);
}

fn measure(
    shape: &str,
    works: usize,
    setup: &Setup,
    rounds: usize,
    sources: fn(usize, usize) -> Vec<usize>,
) -> Value {
    let graph: Vec<_> = (0..works).map(|work| sources(works, work)).collect();
    let mut times = Vec::new();
    let mut bytes = 0;
    for _ in 0..rounds {
        let result = run(&graph, setup);
        times.push(result.nanos / works as f64);
        bytes = result.peak_bytes / works;
    }
    times.sort_by(f64::total_cmp);
    let at = |place: usize| times[place].round();
    let (median, min, max) = (at(times.len() / 2), at(0), at(times.len() - 1));
    eprintln!("{shape:>12} {works:>9} {:>22} {median:>6} ns {bytes:>5} bytes", setup.name);
    json!({
        "shape": shape,
        "works": works,
        "setup": setup.name,
        "ns_per_work": { "median": median, "min": min, "max": max },
        "bytes_per_work": bytes,
    })
}

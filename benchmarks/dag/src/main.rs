//! Graphs of no-op works: Windlass against what people write by hand, in one run.
//!
//! `cargo run --release -p windlass-bench-dag -- [NODES] [ROUNDS]` runs every shape on every
//! contender, interleaved, checks that every node ran once and after those it follows, and writes
//! one JSON object: nanoseconds per node for build, run and drop together, as median and spread.

mod contenders;
mod graph;

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use crate::contenders::CONTENDERS;
use crate::graph::{Ran, SHAPES};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let nodes: usize = arguments.next().unwrap_or(100_000);
    let rounds: usize = arguments.next().unwrap_or(5);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    let mut results = Vec::new();
    for (shape, make) in SHAPES {
        let graph = Arc::new(make(nodes));
        let mut times = vec![Vec::new(); CONTENDERS.len()];
        for _ in 0..rounds {
            for (contender, times) in CONTENDERS.iter().zip(&mut times) {
                let ran = Arc::new(Ran::new(&graph));
                let began = Instant::now();
                (contender.run)(&runtime, &graph, &ran);
                times.push(began.elapsed().as_secs_f64() * 1e9 / graph.len() as f64);
                ran.check(&graph);
            }
        }
        let figures = CONTENDERS.iter().zip(times).map(|(c, times)| figure(c.name, times));
        results.push(json!({
            "shape": shape,
            "nodes": graph.len(),
            "ns_per_node": figures.collect::<Vec<_>>(),
        }));
    }
    let commit = option_env!("WINDLASS_COMMIT").unwrap_or("unknown");
    let report =
        json!({ "benchmark": "dag", "commit": commit, "rounds": rounds, "results": results });
    println!("{report:#}");
}

fn figure(name: &str, mut times: Vec<f64>) -> Value {
    times.sort_by(f64::total_cmp);
    let rounded = |time: f64| time.round();
    json!({
        "contender": name,
        "median": rounded(times[times.len() / 2]),
        "min": rounded(times[0]),
        "max": rounded(times[times.len() - 1]),
    })
}

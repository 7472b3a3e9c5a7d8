//! The times of the contenders, measured in turn.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use crate::case::{Body, Case, Machine};
use crate::graph::{Graph, Shape};
use crate::options::Options;
use crate::sections::{Row, SECTIONS, Section};
use crate::spread::Spread;

/// Measures the selected sections.
pub(crate) fn measure(options: &Options) -> Value {
    let machine = Machine::new(options.threads());
    let sections = SECTIONS.iter().filter(|section| options.wants(section));
    let sections = sections.map(|section| {
        let results = section
            .shapes(options)
            .into_iter()
            .map(|shape| shape_of(section, &machine, options, shape));
        json!({
            "section": section.name,
            "body": section.body.name(),
            "results": results.collect::<Vec<_>>(),
        })
    });
    json!({
        "threads": machine.threads,
        "rounds": options.rounds(5),
        "sections": sections.collect::<Vec<_>>(),
    })
}

/// Measures one shape on all contenders in turn, so that a slowdown of the machine affects all alike.
fn shape_of(section: &Section, machine: &Machine, options: &Options, shape: &Shape) -> Value {
    eprintln!("{}: {}", section.name, shape.name);
    let rows = section.rows(options);
    let mut graphs = Graphs { shape, nodes: options.size(section.nodes), made: HashMap::new() };
    let mut times = vec![Vec::new(); rows.len()];
    for _ in 0..options.rounds(5) {
        for (row, times) in rows.iter().zip(&mut times) {
            times.push(time(section.body, machine, row, &graphs.of(row)));
        }
    }
    let figures = rows.iter().zip(times).map(|(row, times)| {
        figure(section.body, machine, row, graphs.of(row).len(), Spread::of(times))
    });
    json!({ "column": shape.name, "figures": figures.collect::<Vec<_>>() })
}

/// Returns the nanoseconds per node to build, run and drop.
fn time(body: Body, machine: &Machine, row: &Row, graph: &Arc<Graph>) -> f64 {
    let case = Case::new(graph, body, row.setting);
    let began = Instant::now();
    (row.run)(machine, &case);
    let took = began.elapsed().as_secs_f64() * 1e9 / graph.len() as f64;
    assert_eq!(case.ran(), graph.len(), "{}: not every node has run", row.name());
    took
}

fn figure(body: Body, machine: &Machine, row: &Row, nodes: usize, times: Spread) -> Value {
    let mut figure = json!({
        "contender": row.name(),
        "nodes": nodes,
        "median": times.median.round() as u64,
        "min": times.min.round() as u64,
        "max": times.max.round() as u64,
    });
    if let Body::Busy(time) = body {
        let ideal = time.as_secs_f64() * 1e9 / machine.threads as f64;
        figure["efficiency_percent"] = json!((1000.0 * ideal / times.median).round() / 10.0);
    }
    figure
}

/// A shape in the selected sizes.
struct Graphs<'a> {
    shape: &'a Shape,
    nodes: usize,
    made: HashMap<usize, Arc<Graph>>,
}

impl Graphs<'_> {
    fn of(&mut self, row: &Row) -> Arc<Graph> {
        let nodes = self.nodes.min(row.contender.most);
        Arc::clone(self.made.entry(nodes).or_insert_with(|| Arc::new((self.shape.make)(nodes))))
    }
}

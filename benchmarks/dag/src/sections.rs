//! What is measured: which shapes, how large, with which bodies, on whom.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Wish;
use crate::case::{Body, Case, Machine};
use crate::contenders::{Contender, Kind};
use crate::graph::{Graph, SHAPES, Shape};
use crate::memory;

pub(crate) struct Section {
    pub(crate) name: &'static str,
    shapes: &'static [&'static str],
    nodes: usize,
    body: Body,
    who: fn(&Contender) -> bool,
    /// Whether it is left out unless it is asked for.
    pub(crate) on_demand: bool,
}

const ALL: &[&str] = &["independent", "chain", "tree", "layered", "wavefront"];
/// Those that can keep several threads busy.
const WIDE: &[&str] = &["independent", "tree", "layered", "wavefront"];
const TWO: &[&str] = &["independent", "layered"];

pub(crate) const SECTIONS: [Section; 5] = [
    Section {
        name: "no-op",
        shapes: ALL,
        nodes: 100_000,
        body: Body::NoOp,
        who: |_| true,
        on_demand: false,
    },
    Section {
        name: "yield",
        shapes: TWO,
        nodes: 100_000,
        body: Body::Yield,
        who: |contender| contender.kind == Kind::Futures,
        on_demand: false,
    },
    Section {
        name: "1us",
        shapes: WIDE,
        nodes: 50_000,
        body: Body::Busy(Duration::from_micros(1)),
        who: |contender| contender.kind != Kind::Aside,
        on_demand: false,
    },
    Section {
        name: "10us",
        shapes: WIDE,
        nodes: 10_000,
        body: Body::Busy(Duration::from_micros(10)),
        who: |contender| contender.kind != Kind::Aside,
        on_demand: false,
    },
    Section {
        name: "million",
        shapes: TWO,
        nodes: 1_000_000,
        body: Body::NoOp,
        who: |contender| contender.kind != Kind::Aside,
        on_demand: true,
    },
];

impl Section {
    pub(crate) fn run(&self, machine: &Machine, wish: &Wish, all: &[&Contender]) -> Value {
        let contenders: Vec<_> = all.iter().copied().filter(|who| (self.who)(who)).collect();
        let shapes = SHAPES.iter().filter(|shape| self.shapes.contains(&shape.name));
        let shapes = shapes.filter(|shape| wish.wants_shape(shape.name));
        let results = shapes.map(|shape| self.measure(machine, wish.rounds, shape, &contenders));
        json!({
            "section": self.name,
            "body": self.body.name(),
            "results": results.collect::<Vec<_>>(),
        })
    }

    /// One shape on all contenders in turn, so that a slow moment of the machine hits all alike.
    fn measure(
        &self,
        machine: &Machine,
        rounds: usize,
        shape: &Shape,
        contenders: &[&Contender],
    ) -> Value {
        let mut graphs = Graphs::new(shape, self.nodes);
        let mut times = vec![Vec::new(); contenders.len()];
        for _ in 0..rounds {
            for (contender, times) in contenders.iter().zip(&mut times) {
                times.push(self.time(machine, contender, &graphs.of(contender)));
            }
        }
        let figures = contenders.iter().zip(times).map(|(contender, times)| {
            self.figure(machine, contender, graphs.of(contender).len(), times)
        });
        json!({ "shape": shape.name, "figures": figures.collect::<Vec<_>>() })
    }

    /// Nanoseconds per node to build, run and drop.
    fn time(&self, machine: &Machine, contender: &Contender, graph: &Arc<Graph>) -> f64 {
        let case = Case::new(graph, self.body);
        let began = Instant::now();
        (contender.run)(machine, &case);
        let took = began.elapsed().as_secs_f64() * 1e9 / graph.len() as f64;
        case.check();
        took
    }

    fn figure(
        &self,
        machine: &Machine,
        contender: &Contender,
        nodes: usize,
        mut times: Vec<f64>,
    ) -> Value {
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        let mut figure = json!({
            "contender": contender.name,
            "nodes": nodes,
            "median": median.round() as u64,
            "min": times[0].round() as u64,
            "max": times[times.len() - 1].round() as u64,
        });
        if let Body::Busy(time) = self.body {
            let ideal = time.as_secs_f64() * 1e9 / machine.threads as f64;
            figure["efficiency_percent"] = json!((100.0 * ideal / median).round() as u64);
        }
        figure
    }
}

/// A shape in the sizes that are asked for.
struct Graphs<'a> {
    shape: &'a Shape,
    nodes: usize,
    made: HashMap<usize, Arc<Graph>>,
}

impl<'a> Graphs<'a> {
    fn new(shape: &'a Shape, nodes: usize) -> Self {
        Self { shape, nodes, made: HashMap::new() }
    }

    fn of(&mut self, contender: &Contender) -> Arc<Graph> {
        let nodes = self.nodes.min(contender.most);
        Arc::clone(self.made.entry(nodes).or_insert_with(|| Arc::new((self.shape.make)(nodes))))
    }
}

/// The shape of the graph for which memory is measured.
pub(crate) const MEASURED: &str = "layered";

/// The most bytes that were allocated at once, per node, beyond what its user gave. To be measured in a fresh
/// process: memory that is there to be used again is not seen.
pub(crate) fn memory(machine: &Machine, contender: &Contender) -> Value {
    let shape = SHAPES.iter().find(|shape| shape.name == MEASURED).expect("it is there");
    let case = Case::new(&Graphs::new(shape, 100_000).of(contender), Body::NoOp);
    let nodes = case.graph.len();
    let bytes = memory::peak(|| (contender.run)(machine, &case)) / nodes;
    json!({
        "contender": contender.name,
        "nodes": nodes,
        "bytes_per_node": bytes,
        "beyond_its_body": bytes.saturating_sub(contender.body_bytes),
    })
}

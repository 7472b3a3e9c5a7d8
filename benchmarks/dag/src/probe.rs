//! One run of one case in a process of its own, so that tools can watch it from outside.
//!
//! The process of a probe is fresh: it cannot reuse memory of an earlier run.

use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::case::{Case, Machine, Setting};
use crate::graph::SHAPES;
use crate::memory;
use crate::sections::Section;

/// The first argument of a probe's process.
pub(crate) const FLAG: &str = "--probe";
/// The name of a row that builds a case and does not run it.
const NOTHING: &str = "nothing";

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Probe {
    pub(crate) section: &'static str,
    pub(crate) shape: &'static str,
    pub(crate) row: String,
    pub(crate) nodes: usize,
    pub(crate) threads: usize,
}

impl Probe {
    /// Returns the same probe without the run, to measure what starting and building the case cost.
    pub(crate) fn without_run(&self) -> Self {
        Self { row: NOTHING.to_owned(), ..self.clone() }
    }

    /// Returns the command of this probe, under `tool` if there is one.
    pub(crate) fn command(&self, tool: &[&str]) -> Command {
        let program = std::env::current_exe().expect("this program has a path");
        let mut command = match tool {
            [] => Command::new(program),
            [tool, flags @ ..] => {
                let mut command = Command::new(tool);
                command.args(flags).arg(program);
                command
            }
        };
        let (nodes, threads) = (self.nodes.to_string(), self.threads.to_string());
        command.args([FLAG, self.section, self.shape, &self.row, &nodes, &threads]);
        command
    }
}

/// Runs the case that the arguments of a probe's process name, and returns how many nodes it has and how
/// many bytes were allocated at the peak, if `bytes` follows the probe's own arguments.
pub(crate) fn run(arguments: &[String]) -> Option<Value> {
    let [section, shape, row, nodes, threads, bytes @ ..] = arguments else { return None };
    let section = Section::named(section)?;
    let shape = SHAPES.iter().find(|known| known.name == shape)?;
    let row = section.row(row);
    let setting = row.map_or(Setting::Plain, |row| row.setting);
    let machine = Machine::new(threads.parse().ok()?);
    let graph = Arc::new((shape.make)(nodes.parse().ok()?));
    let case = Case::new(&graph, section.body, setting);
    let run = || row.into_iter().for_each(|row| (row.run)(&machine, &case));
    let peak = if bytes.is_empty() {
        run();
        0
    } else {
        memory::peak(run)
    };
    let expected = if row.is_some() { graph.len() } else { 0 };
    assert_eq!(case.ran(), expected, "not every node has run");
    Some(json!({ "nodes": graph.len(), "peak": peak }))
}

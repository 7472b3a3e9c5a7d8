//! Draws a plan for the terminal, one line per declared step.
//!
//! A step is drawn to the right of all its dependencies. A rail, a vertical line, leads down from it to
//! the last step that depends on it. If the rails would be wider than a terminal, each line lists names
//! instead.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use windlass_core::EdgeKind;

use crate::plan::Plan;
use crate::step::Step;

/// The maximum number of rails side by side.
const RAILS: usize = 24;

pub(super) fn draw(plan: &Plan) -> String {
    let nodes = nodes(plan);
    rails(&nodes).unwrap_or_else(|| listed(&nodes))
}

/// Replaces the characters of the rails. Names of steps contain none of them.
pub(super) fn in_ascii(drawing: &str) -> String {
    let ascii = |c: char| match c {
        '●' => '*',
        '│' | '├' => '|',
        '╰' => '`',
        '┴' | '┼' => '+',
        '─' => '-',
        '×' => 'x',
        other => other,
    };
    drawing.chars().map(ascii).collect()
}

/// A declared step.
struct StepNode<'p> {
    name: &'p str,
    first: &'p Step,
    /// The number of its instances.
    count: usize,
    /// The nodes that it depends on.
    sources: BTreeMap<usize, EdgeKind>,
}

fn nodes(plan: &Plan) -> Vec<StepNode<'_>> {
    let mut positions: HashMap<&str, usize> = HashMap::new();
    let mut nodes: Vec<StepNode<'_>> = Vec::new();
    for step in &plan.steps {
        let position = *positions.entry(&step.declared).or_insert(nodes.len());
        if position == nodes.len() {
            let (name, sources) = (step.declared.as_str(), BTreeMap::new());
            nodes.push(StepNode { name, first: step, count: 0, sources });
        }
        nodes[position].count += 1;
        for edge in &step.after {
            let source = positions[plan.steps[edge.step].declared.as_str()];
            if source != position {
                nodes[position].sources.insert(source, edge.kind);
            }
        }
    }
    nodes
}

/// Draws with rails, or returns none if the drawing would be too wide.
fn rails(nodes: &[StepNode<'_>]) -> Option<String> {
    let mut open = Rails::new(nodes);
    let mut out = String::new();
    for (position, node) in nodes.iter().enumerate() {
        let line = open.row(position, node)?;
        out.push_str(&format!("{line} {}\n", caption(node, nodes)));
    }
    Some(out)
}

struct Rails {
    /// The node whose rail is in each column.
    columns: Vec<Option<usize>>,
    /// How many dependents of each node have not been drawn.
    missing: Vec<usize>,
}

impl Rails {
    fn new(nodes: &[StepNode<'_>]) -> Self {
        let mut missing = vec![0; nodes.len()];
        nodes.iter().flat_map(|node| node.sources.keys()).for_each(|&source| missing[source] += 1);
        Self { columns: Vec::new(), missing }
    }

    /// Returns the line of a node up to its dot, or none if it is too wide.
    fn row(&mut self, position: usize, node: &StepNode<'_>) -> Option<String> {
        let joined: BTreeSet<usize> = (0..self.columns.len())
            .filter(|&column| self.columns[column].is_some_and(|at| node.sources.contains_key(&at)))
            .collect();
        let right_of = joined.last().map_or(0, |last| last + 1);
        let free = |column: &usize| self.columns.get(*column).copied().flatten().is_none();
        let own = (right_of..).find(free).unwrap_or(right_of);
        if own >= RAILS {
            return None;
        }
        node.sources.keys().for_each(|&source| self.missing[source] -= 1);
        let line = self.line(&joined, own);
        self.close(&joined, own, position);
        Some(line)
    }

    fn line(&self, joined: &BTreeSet<usize>, own: usize) -> String {
        let first = joined.first().copied();
        let mut line = String::new();
        for column in 0..own {
            let rail = self.columns.get(column).copied().flatten();
            let within = first.is_some_and(|first| first < column);
            let ends = rail.is_some_and(|node| self.missing[node] == 0);
            let symbol = match (rail, joined.contains(&column)) {
                (Some(_), true) => match (ends, within) {
                    (true, false) => '╰',
                    (true, true) => '┴',
                    (false, false) => '├',
                    (false, true) => '┼',
                },
                (Some(_), false) => '│',
                (None, _) if within => '─',
                (None, _) => ' ',
            };
            let along = first.is_some_and(|first| first <= column);
            line.push(symbol);
            line.push(if along { '─' } else { ' ' });
        }
        line.push('●');
        let rest = self.columns.iter().skip(own + 1).map(|rail| match rail {
            Some(_) => " │",
            None => "  ",
        });
        line + rest.collect::<String>().trim_end()
    }

    fn close(&mut self, joined: &BTreeSet<usize>, own: usize, position: usize) {
        for &column in joined {
            if self.columns[column].is_some_and(|node| self.missing[node] == 0) {
                self.columns[column] = None;
            }
        }
        if self.columns.len() <= own {
            self.columns.resize(own + 1, None);
        }
        self.columns[own] = (self.missing[position] > 0).then_some(position);
        while self.columns.last() == Some(&None) {
            self.columns.pop();
        }
    }
}

fn listed(nodes: &[StepNode<'_>]) -> String {
    let mut out = String::new();
    for node in nodes {
        out.push_str(&caption(node, nodes));
        let names: Vec<_> = node.sources.keys().map(|&source| nodes[source].name).collect();
        if !names.is_empty() {
            out.push_str(&format!("  <- {}", names.join(", ")));
        }
        out.push('\n');
    }
    out
}

/// Returns the name of a node, and what the rails do not show.
fn caption(node: &StepNode<'_>, nodes: &[StepNode<'_>]) -> String {
    let mut parts = Vec::new();
    if !node.first.each.is_empty() {
        let names: Vec<_> = node.first.each.iter().map(|(name, _)| name.as_str()).collect();
        parts.push(format!("{} of {}", node.count, names.join(" × ")));
    }
    for (&source, kind) in &node.sources {
        if *kind != EdgeKind::Success {
            parts.push(format!("{} {}", nodes[source].name, kind.word()));
        }
    }
    let marks = [
        (node.first.gate.when.is_some(), "when"),
        (!node.first.gate.guards.is_empty(), "guard"),
        (!node.first.ending.ensures.is_empty(), "ensure"),
        (!node.first.needs.locks.is_empty(), "lock"),
        (!node.first.needs.semaphores.is_empty(), "semaphore"),
    ];
    parts.extend(marks.iter().filter(|(set, _)| *set).map(|(_, mark)| (*mark).to_owned()));
    match parts.as_slice() {
        [] => node.name.to_owned(),
        parts => format!("{}  ({})", node.name, parts.join(", ")),
    }
}

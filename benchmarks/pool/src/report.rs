//! What was measured, as a table and as JSON.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use serde_json::json;

/// One contender's run: does the work once and returns a result to check.
pub(crate) type Run<'a> = Box<dyn FnMut() -> u64 + 'a>;

/// A row of the table: the same work for several contenders.
pub(crate) struct Row<'a> {
    pub(crate) name: &'static str,
    /// How many operations one run consists of; the table says how long one of them takes.
    pub(crate) operations: u64,
    /// What every contender must return.
    pub(crate) expected: u64,
    pub(crate) contenders: Vec<(&'static str, Run<'a>)>,
}

/// Measurements of one contender, in nanoseconds.
struct Figures {
    row: &'static str,
    contender: &'static str,
    sorted: Vec<f64>,
    tail: bool,
}

impl Figures {
    fn quantile(&self, fraction: f64) -> f64 {
        let last = self.sorted.len() - 1;
        self.sorted[(last as f64 * fraction).round() as usize]
    }
}

/// All measurements so far.
pub(crate) struct Report {
    names: Vec<String>,
    rounds: usize,
    figures: Vec<Figures>,
}

impl Report {
    pub(crate) fn new(names: Vec<String>, rounds: usize) -> Self {
        Self { names, rounds, figures: Vec::new() }
    }

    /// Whether nothing was left out.
    pub(crate) fn is_complete(&self) -> bool {
        self.names.is_empty()
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds
    }

    pub(crate) fn wants(&self, row: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| row.contains(name.as_str()))
    }

    /// Runs a row, contenders in turn, after one run of each that is not counted.
    pub(crate) fn measure(&mut self, mut row: Row<'_>) {
        if !self.wants(row.name) {
            return;
        }
        let mut times = vec![Vec::new(); row.contenders.len()];
        for round in 0..=self.rounds {
            for ((name, run), times) in row.contenders.iter_mut().zip(&mut times) {
                let began = Instant::now();
                let result = run();
                let took = began.elapsed();
                assert_eq!(result, row.expected, "{}: {name}", row.name);
                if round > 0 {
                    times.push(took.as_nanos() as f64 / row.operations as f64);
                }
            }
        }
        for ((contender, _), times) in row.contenders.iter().zip(times) {
            self.add(row.name, contender, times, false);
        }
    }

    /// Adds single delays, of which the tail matters as much as the middle.
    pub(crate) fn add_delays(
        &mut self,
        row: &'static str,
        contender: &'static str,
        delays: &[Duration],
    ) {
        let times = delays.iter().map(|delay| delay.as_nanos() as f64).collect();
        self.add(row, contender, times, true);
    }

    fn add(&mut self, row: &'static str, contender: &'static str, times: Vec<f64>, tail: bool) {
        let mut sorted = times;
        sorted.sort_by(f64::total_cmp);
        let figures = Figures { row, contender, sorted, tail };
        eprintln!("{}", line(&figures));
        self.figures.push(figures);
    }

    pub(crate) fn markdown(&self) -> String {
        let mut table = String::from(
            "| work | contender | median ns | quartiles | p99 |\n|---|---|--:|--:|--:|\n",
        );
        for figures in &self.figures {
            let _ = writeln!(table, "{}", line(figures));
        }
        table
    }

    pub(crate) fn json(&self) -> String {
        let rows: Vec<_> = self.figures.iter().map(entry).collect();
        let mut text = serde_json::to_string_pretty(&rows).expect("numbers and names");
        text.push('\n');
        text
    }
}

fn line(figures: &Figures) -> String {
    let digits = if figures.quantile(0.5) < 1000.0 { 1 } else { 0 };
    let number = |fraction| format!("{:.digits$}", figures.quantile(fraction));
    let tail = if figures.tail { number(0.99) } else { String::new() };
    let (row, contender) = (figures.row, figures.contender);
    let (low, median, high) = (number(0.25), number(0.5), number(0.75));
    format!("| {row} | {contender} | {median} | {low}–{high} | {tail} |")
}

fn entry(figures: &Figures) -> serde_json::Value {
    let rounded = |fraction| (figures.quantile(fraction) * 10.0).round() / 10.0;
    let mut entry = json!({
        "work": figures.row,
        "contender": figures.contender,
        "median_ns": rounded(0.5),
        "first_quartile_ns": rounded(0.25),
        "third_quartile_ns": rounded(0.75),
        "samples": figures.sorted.len(),
    });
    if figures.tail {
        entry["p99_ns"] = json!(rounded(0.99));
    }
    entry
}

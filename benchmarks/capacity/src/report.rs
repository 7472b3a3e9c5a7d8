//! What was measured, as a table and as JSON.

use std::{fmt::Write as _, time::Instant};

use rustix::time::{ClockId, clock_gettime};
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
    /// The processor time that all threads together used.
    processor: f64,
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
    rounds: Rounds,
    figures: Vec<Figures>,
}

/// How often each contender runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounds {
    /// Once, and nothing is measured: for tools that count instructions.
    Once,
    Measured(usize),
}

impl Report {
    pub(crate) fn new(names: Vec<String>, rounds: Rounds) -> Self {
        Self { names, rounds, figures: Vec::new() }
    }

    /// Whether nothing was left out.
    pub(crate) fn is_complete(&self) -> bool {
        self.names.is_empty()
    }

    fn wants(&self, row: &str, contender: &str) -> bool {
        let text = format!("{row}: {contender}");
        self.names.is_empty() || self.names.iter().any(|name| text.contains(name.as_str()))
    }

    /// Runs a row, contenders in turn, after one run of each that is not counted.
    pub(crate) fn measure(&mut self, mut row: Row<'_>) {
        row.contenders.retain(|(contender, _)| self.wants(row.name, contender));
        match self.rounds {
            Rounds::Once => row.contenders.iter_mut().for_each(|(_, run)| _ = run()),
            Rounds::Measured(rounds) => self.measure_rounds(row, rounds),
        }
    }

    fn measure_rounds(&mut self, mut row: Row<'_>, rounds: usize) {
        let mut samples = vec![(Vec::new(), Vec::new()); row.contenders.len()];
        for round in 0..=rounds {
            for ((name, run), (times, uses)) in row.contenders.iter_mut().zip(&mut samples) {
                let (began, used_before) = (Instant::now(), processor_time());
                let result = run();
                let (took, used) = (began.elapsed(), processor_time());
                assert_eq!(result, row.expected, "{}: {name}", row.name);
                if round > 0 {
                    times.push(took.as_nanos() as f64 / row.operations as f64);
                    uses.push((used - used_before) as f64 / row.operations as f64);
                }
            }
        }
        for ((contender, _), (times, uses)) in row.contenders.iter().zip(samples) {
            self.add(row.name, contender, times, uses);
        }
    }

    /// Adds what was measured.
    fn add(
        &mut self,
        row: &'static str,
        contender: &'static str,
        mut sorted: Vec<f64>,
        mut uses: Vec<f64>,
    ) {
        sorted.sort_by(f64::total_cmp);
        uses.sort_by(f64::total_cmp);
        let processor = uses[uses.len() / 2];
        let figures = Figures { row, contender, sorted, processor };
        eprintln!("{}", line(&figures));
        self.figures.push(figures);
    }

    pub(crate) fn markdown(&self) -> String {
        let mut table = String::from(
            "| work | contender | median ns | quartiles | processor ns |\n\
             |---|---|--:|--:|--:|\n",
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
    let (row, contender) = (figures.row, figures.contender);
    let (low, median, high) = (number(0.25), number(0.5), number(0.75));
    let processor = format!("{:.1}", figures.processor);
    format!("| {row} | {contender} | {median} | {low}–{high} | {processor} |")
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
    entry["processor_ns"] = json!((figures.processor * 10.0).round() / 10.0);
    entry
}

/// How long all threads of this process together have been running, in nanoseconds, also those that
/// have ended. On a machine that others use too, it says more than the clock on the wall.
fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("time is not negative")
}

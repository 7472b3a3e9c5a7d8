//! Measures contenders in turn, and reports the results as a table and as JSON.

mod table;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs};

use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

pub use table::{Row as TableRow, Table};

/// One contender's run: does the work once and returns a result to check.
pub type Run<'a> = Box<dyn FnMut() -> u64 + 'a>;

/// A row of the table: the same work for several contenders.
pub struct Row<'a> {
    /// The name of the work.
    pub name: &'static str,
    /// The number of operations in one run; the table has the time of one operation.
    pub operations: u64,
    /// The result that every contender must return.
    pub expected: u64,
    /// The contenders, by name.
    pub contenders: Vec<(&'static str, Run<'a>)>,
}

/// The measurements of one contender, in nanoseconds.
struct Figures {
    row: &'static str,
    contender: &'static str,
    sorted: Vec<f64>,
    /// The processor time of all threads together; empty for delays, for which the tail is reported.
    processor: Option<f64>,
}

impl Figures {
    fn quantile(&self, fraction: f64) -> f64 {
        let last = self.sorted.len() - 1;
        self.sorted[(last as f64 * fraction).round() as usize]
    }
}

/// The measurements so far.
pub struct Report {
    names: Vec<String>,
    rounds: Rounds,
    figures: Vec<Figures>,
}

/// How often each contender runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rounds {
    /// Once, without measuring, for tools that count instructions.
    Once,
    Measured(usize),
}

const USUAL: Rounds = Rounds::Measured(11);
const QUICK: Rounds = Rounds::Measured(3);

/// Measures the rows that the arguments of the program select, prints a table, and writes the figures as
/// JSON: to the file of `--json`, else to `results.json` in `dir` if all rows were measured.
pub fn report(dir: &str, measure: impl FnOnce(&mut Report)) {
    let (flags, names): (Vec<_>, Vec<_>) =
        env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let has = |wanted: &str| flags.iter().any(|flag| flag == wanted);
    let rounds = match () {
        () if has("--once") => Rounds::Once,
        () if has("--quick") => QUICK,
        () => USUAL,
    };
    let whole = rounds == USUAL && names.is_empty();
    let mut report = Report { names, rounds, figures: Vec::new() };
    measure(&mut report);
    println!("{}", report.markdown());
    let told = flags.iter().find_map(|flag| flag.strip_prefix("--json=")).map(PathBuf::from);
    let usual = || Path::new(dir).join("results.json");
    if let Some(file) = told.or_else(|| whole.then(usual)) {
        fs::write(file, report.json()).expect("the results can be written");
    }
}

impl Report {
    /// How often each contender runs.
    #[must_use]
    pub fn rounds(&self) -> usize {
        match self.rounds {
            Rounds::Once => 1,
            Rounds::Measured(rounds) => rounds,
        }
    }

    /// Returns whether the arguments select this row.
    #[must_use]
    pub fn wants(&self, row: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|name| row.contains(name.as_str()))
    }

    /// Runs a row, contenders in turn, after one warm-up run of each.
    pub fn measure(&mut self, mut row: Row<'_>) {
        row.contenders.retain(|(contender, _)| self.wants(&format!("{}: {contender}", row.name)));
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
        for ((contender, _), (times, mut uses)) in row.contenders.iter().zip(samples) {
            uses.sort_by(f64::total_cmp);
            self.add(row.name, contender, times, Some(uses[uses.len() / 2]));
        }
    }

    /// Adds single delays, of which the tail matters as much as the median.
    pub fn add_delays(&mut self, row: &'static str, contender: &'static str, delays: &[Duration]) {
        if self.rounds != Rounds::Once {
            let times = delays.iter().map(|delay| delay.as_nanos() as f64).collect();
            self.add(row, contender, times, None);
        }
    }

    fn add(
        &mut self,
        row: &'static str,
        contender: &'static str,
        mut sorted: Vec<f64>,
        processor: Option<f64>,
    ) {
        sorted.sort_by(f64::total_cmp);
        let figures = Figures { row, contender, sorted, processor };
        eprintln!("{}", line(&figures));
        self.figures.push(figures);
    }

    fn markdown(&self) -> String {
        let mut table = String::from(
            "| work | contender | median ns | quartiles | p99 | processor ns |\n\
             |---|---|--:|--:|--:|--:|\n",
        );
        for figures in &self.figures {
            let _ = writeln!(table, "{}", line(figures));
        }
        table
    }

    fn json(&self) -> String {
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
    let (tail, processor) = match figures.processor {
        None => (number(0.99), String::new()),
        Some(used) => (String::new(), format!("{used:.1}")),
    };
    format!("| {row} | {contender} | {median} | {low}–{high} | {tail} | {processor} |")
}

fn entry(figures: &Figures) -> serde_json::Value {
    let rounded = |number: f64| (number * 10.0).round() / 10.0;
    let mut entry = json!({
        "work": figures.row,
        "contender": figures.contender,
        "median_ns": rounded(figures.quantile(0.5)),
        "first_quartile_ns": rounded(figures.quantile(0.25)),
        "third_quartile_ns": rounded(figures.quantile(0.75)),
        "samples": figures.sorted.len(),
    });
    match figures.processor {
        None => entry["p99_ns"] = json!(rounded(figures.quantile(0.99))),
        Some(used) => entry["processor_ns"] = json!(rounded(used)),
    }
    entry
}

/// Returns the processor time of all threads of this process, including ended ones, in nanoseconds. On a
/// shared machine it says more than the wall clock.
fn processor_time() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).expect("time is not negative")
}

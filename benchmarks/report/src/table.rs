//! Measurements in units of their own, as a table and as JSON.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use serde_json::json;

/// The measurements so far.
#[derive(Default)]
pub struct Table {
    rows: Vec<Row>,
}

/// The measurements of one work by one contender.
pub struct Row {
    work: String,
    contender: String,
    unit: &'static str,
    /// Sorted.
    samples: Vec<f64>,
    /// The load average of the last minute, after the measurement.
    load: String,
    /// What the median should be; empty if it does not matter.
    goal: &'static str,
}

impl Table {
    /// Adds delays, in milliseconds.
    pub fn add_delays(&mut self, work: &str, contender: &str, delays: &[Duration]) -> &mut Row {
        let millis = delays.iter().map(|delay| delay.as_secs_f64() * 1e3).collect();
        self.add(work, contender, "ms", millis)
    }

    /// Adds samples of which there is at least one.
    pub fn add(
        &mut self,
        work: &str,
        contender: &str,
        unit: &'static str,
        mut samples: Vec<f64>,
    ) -> &mut Row {
        samples.sort_by(f64::total_cmp);
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().unwrap_or_default().to_owned();
        let (work, contender) = (work.to_owned(), contender.to_owned());
        let row = Row { work, contender, unit, samples, load, goal: "" };
        eprintln!("{}", row.line());
        self.rows.push(row);
        self.rows.last_mut().expect("it was added just now")
    }

    /// Prints the table, and writes the JSON: to the file of the argument `--json`, else to
    /// `results.json` in `dir` unless there is the argument `--quick`.
    pub fn finish(&self, dir: &str) {
        println!("{}", self.markdown());
        let told = env::args().find_map(|flag| flag.strip_prefix("--json=").map(PathBuf::from));
        let usual = || Path::new(dir).join("results.json");
        let is_quick = env::args().any(|flag| flag == "--quick");
        if let Some(file) = told.or_else(|| (!is_quick).then(usual)) {
            fs::write(file, self.json()).expect("the results can be written");
        }
    }

    fn markdown(&self) -> String {
        let mut table = String::from(
            "| work | contender | unit | median | quartiles | p90 | p99 |\n\
             |---|---|---|--:|--:|--:|--:|\n",
        );
        for row in &self.rows {
            let _ = writeln!(table, "{}", row.line());
        }
        table
    }

    fn json(&self) -> String {
        let rows: Vec<_> = self.rows.iter().map(Row::entry).collect();
        let mut text = serde_json::to_string_pretty(&rows).expect("numbers and names");
        text.push('\n');
        text
    }
}

impl Row {
    /// Notes what the median should be.
    pub fn goal(&mut self, goal: &'static str) {
        self.goal = goal;
    }

    fn quantile(&self, fraction: f64) -> f64 {
        let last = self.samples.len() - 1;
        self.samples[(last as f64 * fraction).round() as usize]
    }

    fn line(&self) -> String {
        let Row { work, contender, unit, .. } = self;
        let number = |fraction| format!("{:.2}", self.quantile(fraction));
        let (low, median, high) = (number(0.25), number(0.5), number(0.75));
        let (slow, tail) = (number(0.9), number(0.99));
        format!("| {work} | {contender} | {unit} | {median} | {low}–{high} | {slow} | {tail} |")
    }

    fn entry(&self) -> serde_json::Value {
        let rounded = |fraction| (self.quantile(fraction) * 1000.0).round() / 1000.0;
        json!({
            "work": self.work,
            "contender": self.contender,
            "unit": self.unit,
            "goal": self.goal,
            "median": rounded(0.5),
            "first_quartile": rounded(0.25),
            "third_quartile": rounded(0.75),
            "p90": rounded(0.9),
            "p99": rounded(0.99),
            "samples": self.samples.len(),
            "load": self.load,
        })
    }
}

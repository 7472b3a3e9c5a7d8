//! The measurements, as a table and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::json;

struct Row {
    work: String,
    contender: String,
    unit: &'static str,
    /// Sorted.
    samples: Vec<f64>,
}

/// The measurements so far.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn add_delays(&mut self, work: &str, contender: &str, delays: &[Duration]) {
        let millis = delays.iter().map(|delay| delay.as_secs_f64() * 1e3).collect();
        self.add(work, contender, "ms", millis);
    }

    pub(crate) fn add(
        &mut self,
        work: &str,
        contender: &str,
        unit: &'static str,
        mut samples: Vec<f64>,
    ) {
        samples.sort_by(f64::total_cmp);
        let row = Row { work: work.to_owned(), contender: contender.to_owned(), unit, samples };
        eprintln!("{}", row.line());
        self.rows.push(row);
    }

    pub(crate) fn markdown(&self) -> String {
        let mut table = String::from(
            "| work | contender | unit | median | quartiles | p99 |\n|---|---|---|--:|--:|--:|\n",
        );
        for row in &self.rows {
            let _ = writeln!(table, "{}", row.line());
        }
        table
    }

    pub(crate) fn json(&self) -> String {
        let rows: Vec<_> = self.rows.iter().map(Row::entry).collect();
        let mut text = serde_json::to_string_pretty(&rows).expect("numbers and names");
        text.push('\n');
        text
    }
}

impl Row {
    fn quantile(&self, fraction: f64) -> f64 {
        let last = self.samples.len() - 1;
        self.samples[(last as f64 * fraction).round() as usize]
    }

    fn line(&self) -> String {
        let Row { work, contender, unit, .. } = self;
        let number = |fraction| format!("{:.2}", self.quantile(fraction));
        let (low, median, high, tail) = (number(0.25), number(0.5), number(0.75), number(0.99));
        format!("| {work} | {contender} | {unit} | {median} | {low}–{high} | {tail} |")
    }

    fn entry(&self) -> serde_json::Value {
        let rounded = |fraction| (self.quantile(fraction) * 1000.0).round() / 1000.0;
        json!({
            "work": self.work,
            "contender": self.contender,
            "unit": self.unit,
            "median": rounded(0.5),
            "first_quartile": rounded(0.25),
            "third_quartile": rounded(0.75),
            "p99": rounded(0.99),
            "samples": self.samples.len(),
        })
    }
}

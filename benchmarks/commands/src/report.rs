//! The measurements, as a table and as JSON.

use std::fmt::Write as _;
use std::fs;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::contenders::Contender;
use crate::measure::Measurement;
use crate::works::Work;

struct Row {
    work: String,
    contender: &'static str,
    /// Microseconds per step, sorted.
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

/// The measurements so far.
pub(crate) struct Report {
    missing: Vec<&'static str>,
    rows: Vec<Row>,
}

impl Report {
    pub(crate) fn new<'a>(missing: impl Iterator<Item = &'a Contender>) -> Self {
        Self { missing: missing.map(Contender::name).collect(), rows: Vec::new() }
    }

    pub(crate) fn add(&mut self, work: Work, contender: &'static str, samples: &[Measurement]) {
        let per_step = |of: fn(&Measurement) -> Duration| {
            let micros = |sample| of(sample).as_secs_f64() * 1e6 / work.steps as f64;
            let mut micros: Vec<_> = samples.iter().map(micros).collect();
            micros.sort_by(f64::total_cmp);
            micros
        };
        let (wall, cpu) = (per_step(|sample| sample.wall), per_step(|sample| sample.cpu));
        let row = Row { work: work.to_string(), contender, wall, cpu };
        eprintln!("{}", row.line());
        self.rows.push(row);
    }

    pub(crate) fn markdown(&self) -> String {
        let mut table = String::from(
            "µs per step\n\n| work | contender | best | median | worst | processor, median |\n\
             |---|---|--:|--:|--:|--:|\n",
        );
        for row in &self.rows {
            let _ = writeln!(table, "{}", row.line());
        }
        if !self.missing.is_empty() {
            let _ = writeln!(table, "\nNot installed: {}", self.missing.join(", "));
        }
        table
    }

    /// Returns all rows, with those of `before` whose works were not measured.
    pub(crate) fn json(&self, before: &str) -> String {
        let before: Value = serde_json::from_str(before).unwrap_or_default();
        let measured = |row: &&Value| self.rows.iter().any(|own| row["work"] == own.work.as_str());
        let kept = before["rows"].as_array().into_iter().flatten().filter(|row| !measured(row));
        let mut rows: Vec<_> = kept.cloned().chain(self.rows.iter().map(Row::entry)).collect();
        // In the order of a complete measurement.
        let order = ["one step", "1000 ind", "chain of 1000", "10000 ind", "chain of 10000"];
        let place = |row: &Value| {
            let work = row["work"].as_str().unwrap_or_default().to_owned();
            order.iter().rposition(|beginning| work.starts_with(beginning))
        };
        rows.sort_by_key(place);
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let report = json!({
            "unit": "microseconds per step",
            "processors": thread::available_parallelism().map_or(1, usize::from),
            "load_average_at_the_end": load.split(' ').take(3).collect::<Vec<_>>().join(" "),
            "missing": self.missing,
            "rows": rows,
        });
        let mut text = serde_json::to_string_pretty(&report).expect("numbers and names");
        text.push('\n');
        text
    }
}

impl Row {
    fn line(&self) -> String {
        let Row { work, contender, wall, cpu } = self;
        let [best, median, worst] = [0.0, 0.5, 1.0].map(|fraction| quantile(wall, fraction));
        let cpu = quantile(cpu, 0.5);
        format!("| {work} | {contender} | {best:.0} | {median:.0} | {worst:.0} | {cpu:.0} |")
    }

    fn entry(&self) -> Value {
        let [best, median, worst] =
            [0.0, 0.5, 1.0].map(|fraction| quantile(&self.wall, fraction).round());
        json!({
            "work": self.work,
            "contender": self.contender,
            "best": best,
            "median": median,
            "worst": worst,
            "processor_median": quantile(&self.cpu, 0.5).round(),
            "samples": self.wall.len(),
        })
    }
}

fn quantile(samples: &[f64], fraction: f64) -> f64 {
    samples[((samples.len() - 1) as f64 * fraction).round() as usize]
}

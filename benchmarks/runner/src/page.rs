//! The page of tables, made from the JSON alone.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::plan::BENCHMARKS;

/// Makes the page, with a section for each benchmark that has results in this directory.
pub(crate) fn make(dir: &Path) -> Result<String, Box<dyn Error>> {
    let mut page =
        "# Results\n\nMade by `benchmarks/run` from the JSON beside each benchmark; the \
        front page picks from it.\nEach table has the spread within its run. On a machine with \
        other load, differences below a third mean nothing.\n"
            .to_owned();
    for benchmark in BENCHMARKS {
        let (name, file) = (benchmark.name, benchmark.results(dir));
        if !file.exists() {
            continue;
        }
        let wrong = |source: &dyn Error| format!("{}: {source}", file.display());
        let results = read(&file).map_err(|source| wrong(&*source))?;
        let when = read(&benchmark.when(dir)).unwrap_or_default();
        let _ = write!(page, "\n## {name}\n\n{}\n\n", context(&when));
        page += &match name {
            "dag" | "dag-counts" | "dag-futex" => dag(&file)?,
            "engine" => engine(&results),
            "pool" | "capacity" => nanoseconds(&results),
            "coordination" => coordination(&results),
            "service" | "cluster" => service(&results),
            _ => commands(&results),
        };
    }
    Ok(page)
}

fn read(file: &Path) -> Result<Value, Box<dyn Error>> {
    Ok(serde_json::from_str(&fs::read_to_string(file)?)?)
}

/// Returns the machine and the time of a measurement, in one sentence.
fn context(when: &Value) -> String {
    let text = |key: &str| when[key].as_str().unwrap_or("unknown");
    if when.is_null() {
        return "The machine and the time of this measurement were not stored.".to_owned();
    }
    let took = when["seconds"].as_u64().map(|seconds| format!(", in {seconds} s"));
    let short = if when["quick"] == true { " A short run, with few rounds." } else { "" };
    format!(
        "{}, commit {}{}; {} × {}, {}, {}, {}; load before {}, after {}.{short}",
        text("date"),
        text("commit"),
        took.unwrap_or_default(),
        when["processors"],
        text("processor"),
        text("memory"),
        text("system"),
        text("compiler"),
        text("load_before"),
        text("load_after"),
    )
}

/// Returns the tables for graphs, which their program formats.
fn dag(file: &Path) -> Result<String, Box<dyn Error>> {
    let program = crate::program("dag")?;
    let output = Command::new(&program).arg("--table").arg(file).output();
    let output = output.map_err(|source| format!("{}: {source}", program.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn engine(results: &Value) -> String {
    let heads = ["shape", "works", "setup", "ns per work", "lowest–highest", "bytes per work"];
    table(&heads, 3, list(&results["results"]), |row| {
        let time = &row["ns_per_work"];
        let spread = format!("{}–{}", number(&time["min"]), number(&time["max"]));
        let (median, bytes) = (number(&time["median"]), number(&row["bytes_per_work"]));
        vec![name(&row["shape"]), number(&row["works"]), name(&row["setup"]), median, spread, bytes]
    })
}

fn nanoseconds(results: &Value) -> String {
    let heads = ["work", "contender", "median ns", "quartiles", "processor ns", "rounds"];
    table(&heads, 2, list(results), |row| {
        let quartiles = spread(row, "first_quartile_ns", "third_quartile_ns");
        let [median, processor] = ["median_ns", "processor_ns"].map(|key| number(&row[key]));
        vec![
            name(&row["work"]),
            name(&row["contender"]),
            median,
            quartiles,
            processor,
            number(&row["samples"]),
        ]
    })
}

fn coordination(results: &Value) -> String {
    let heads = ["work", "contender", "unit", "median", "quartiles", "p99", "samples"];
    table(&heads, 3, list(results), |row| {
        let quartiles = spread(row, "first_quartile", "third_quartile");
        let [work, contender, unit] = ["work", "contender", "unit"].map(|key| name(&row[key]));
        let [median, p99, samples] = ["median", "p99", "samples"].map(|key| number(&row[key]));
        vec![work, contender, unit, median, quartiles, p99, samples]
    })
}

fn service(results: &Value) -> String {
    let heads =
        ["work", "contender", "unit", "goal", "median", "quartiles", "p90", "samples", "load"];
    table(&heads, 4, list(results), |row| {
        let quartiles = spread(row, "first_quartile", "third_quartile");
        let [work, contender, unit, goal] =
            ["work", "contender", "unit", "goal"].map(|key| name(&row[key]));
        let [median, slow, samples] = ["median", "p90", "samples"].map(|key| number(&row[key]));
        let load = name(&row["load"]);
        vec![work, contender, unit, goal, median, quartiles, slow, samples, load]
    })
}

fn commands(results: &Value) -> String {
    let heads = ["work", "contender", "median µs per step", "best–worst", "processor", "rounds"];
    table(&heads, 2, list(&results["rows"]), |row| {
        let [median, processor, samples] =
            ["median", "processor_median", "samples"].map(|key| number(&row[key]));
        let spread = spread(row, "best", "worst");
        vec![name(&row["work"]), name(&row["contender"]), median, spread, processor, samples]
    })
}

fn spread(row: &Value, low: &str, high: &str) -> String {
    format!("{}–{}", number(&row[low]), number(&row[high]))
}

/// Returns a table whose first `names` columns are texts and whose others are numbers.
fn table(
    heads: &[&str],
    names: usize,
    rows: &[Value],
    cells: impl Fn(&Value) -> Vec<String>,
) -> String {
    let marks = (0..heads.len()).map(|column| if column < names { "---|" } else { "--:|" });
    let mut text = format!("| {} |\n|{}\n", heads.join(" | "), marks.collect::<String>());
    for row in rows {
        let _ = writeln!(text, "| {} |", cells(row).join(" | "));
    }
    text
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn name(value: &Value) -> String {
    value.as_str().unwrap_or("?").replace('|', "\\|")
}

/// Formats a number with its significant digits; empty if it was not measured.
fn number(value: &Value) -> String {
    match value.as_f64() {
        None => String::new(),
        Some(number) if number.abs() >= 100.0 || number.fract() == 0.0 => format!("{number:.0}"),
        Some(number) if number.abs() >= 10.0 => format!("{number:.1}"),
        Some(number) => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_row_has_a_cell_for_each_head_whatever_is_missing() {
        for table in [
            engine(&json!({ "results": [{}] })),
            nanoseconds(&json!([{ "work": "a|b", "median_ns": 1234.5 }])),
            coordination(&json!([{}])),
            service(&json!([{}])),
            commands(&json!({ "rows": [{}] })),
        ] {
            let bars = |line: &str| line.replace("\\|", "").matches('|').count();
            let counts: Vec<_> = table.lines().map(bars).collect();
            assert!(counts.len() == 3 && counts.iter().all(|count| *count == counts[0]), "{table}");
        }
    }

    #[test]
    fn numbers_have_three_digits_or_so() {
        for (value, text) in [
            (json!(1234.56), "1235"),
            (json!(100_000), "100000"),
            (json!(12.34), "12.3"),
            (json!(2.345), "2.35"),
            (json!(0.0), "0"),
            (json!(null), ""),
        ] {
            assert_eq!(number(&value), text);
        }
    }

    #[test]
    fn a_missing_time_and_machine_are_reported() {
        assert!(context(&Value::Null).contains("were not stored"));
        assert!(context(&json!({ "quick": true, "seconds": 3 })).contains("A short run"));
    }
}

//! The figures as Markdown.

use std::fmt::Write as _;

use serde_json::Value;

/// Returns a table for each section, one row per contender.
pub(crate) fn markdown(report: &Value) -> String {
    let mut text =
        format!("Commit {}, {} threads.\n", text_of(&report["commit"]), report["threads"]);
    for section in list(&report["sections"]) {
        let _ = write!(text, "\n{}\n\n", title(section));
        text += &rows(list(&section["results"]));
    }
    text
}

fn title(section: &Value) -> String {
    let body = text_of(&section["body"]);
    match section["count"].as_str() {
        Some("instructions") => {
            format!("body {body}: instructions per node on two threads (on one)")
        }
        Some("futex") => {
            format!("body {body}: futex calls per node on two threads (lowest–highest)")
        }
        Some(_) => "bytes per node beyond its closure and its name".to_owned(),
        None if body.starts_with("computes") => format!("body {body}: percent of ideal"),
        None => format!("body {body}: ns per node, median (lowest–highest)"),
    }
}

/// Writes a row for each contender that has a figure in any of the columns.
fn rows(columns: &[Value]) -> String {
    let heads: Vec<_> = columns.iter().map(|column| text_of(&column["column"])).collect();
    let mut text = format!("| contender | {} |\n", heads.join(" | "));
    text += &format!("|---|{}\n", "--:|".repeat(heads.len()));
    for figure in first_of_each(columns) {
        let name = text_of(&figure["contender"]);
        let cells = columns.iter().map(|column| {
            let mut figures = list(&column["figures"]).iter();
            figures
                .find(|figure| text_of(&figure["contender"]) == name)
                .map_or_else(String::new, cell)
        });
        let cells: Vec<_> = cells.collect();
        let _ = writeln!(text, "| {name} ({}) | {} |", size(&figure["nodes"]), cells.join(" | "));
    }
    text
}

/// Returns the first figure of each contender.
fn first_of_each(columns: &[Value]) -> Vec<&Value> {
    let mut found: Vec<&Value> = Vec::new();
    for figure in columns.iter().flat_map(|column| list(&column["figures"])) {
        if found.iter().all(|known| known["contender"] != figure["contender"]) {
            found.push(figure);
        }
    }
    found
}

fn cell(figure: &Value) -> String {
    let number = |key: &str| figure.get(key).and_then(Value::as_f64);
    let [min, max] = ["min", "max"].map(|key| number(key).unwrap_or_default());
    if let Some(percent) = number("efficiency_percent") {
        format!("{percent:.1}")
    } else if let Some(count) = number("instructions") {
        format!("{count} ({})", figure["on_one_thread"])
    } else if let Some(calls) = number("futex_calls") {
        format!("{calls:.4} ({min:.4}–{max:.4})")
    } else if let Some(bytes) = number("beyond_its_body") {
        bytes.to_string()
    } else {
        format!("{} ({min}–{max})", figure["median"])
    }
}

fn size(nodes: &Value) -> String {
    match nodes.as_u64().unwrap_or_default() {
        nodes if nodes < 1000 => nodes.to_string(),
        nodes => format!("{}k", nodes / 1000),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_contender_without_a_figure_has_an_empty_cell() {
        let figure =
            |name, bytes| json!({ "contender": name, "nodes": 20_000, "beyond_its_body": bytes });
        let columns = [
            json!({ "column": "waiting", "figures": [figure("a", 1)] }),
            json!({ "column": "resting", "figures": [figure("b", 2), figure("a", 3)] }),
        ];
        let lines = [
            "| contender | waiting | resting |",
            "|---|--:|--:|",
            "| a (20k) | 1 | 3 |",
            "| b (20k) |  | 2 |\n",
        ];
        assert_eq!(rows(&columns), lines.join("\n"));
    }
}

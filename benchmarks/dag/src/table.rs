//! The figures as Markdown.

use std::fmt::Write as _;

use serde_json::Value;

/// A table for each section, one row per contender.
pub(crate) fn markdown(report: &Value) -> String {
    let mut text =
        format!("Commit {}, {} threads.\n", text_of(&report["commit"]), report["threads"]);
    for section in list(&report["sections"]) {
        let body = text_of(&section["body"]);
        let unit = match body {
            "no-op" | "yields once" => "ns per node, median (lowest–highest)",
            _ => "percent of ideal",
        };
        let _ = write!(text, "\n{}: {unit}\n\n", text_of(&section["section"]));
        text += &rows(list(&section["results"]), cell);
    }
    if let Some(memory) = report.get("memory") {
        text += "\nmemory: bytes per node beyond its body\n\n";
        text += &rows(std::slice::from_ref(memory), |figure| figure["beyond_its_body"].to_string());
    }
    text
}

fn rows(results: &[Value], cell: impl Fn(&Value) -> String) -> String {
    let shapes: Vec<_> = results.iter().map(|result| text_of(&result["shape"])).collect();
    let mut text = format!("| contender | {} |\n", shapes.join(" | "));
    text += &format!("|---|{}\n", "--:|".repeat(shapes.len()));
    for (row, figure) in list(&results[0]["figures"]).iter().enumerate() {
        let cells: Vec<_> = results.iter().map(|result| cell(&result["figures"][row])).collect();
        let name = text_of(&figure["contender"]);
        let _ =
            writeln!(text, "| {name} ({}) | {} |", thousands(&figure["nodes"]), cells.join(" | "));
    }
    text
}

fn cell(figure: &Value) -> String {
    match figure.get("efficiency_percent") {
        Some(percent) => percent.to_string(),
        None => format!("{} ({}–{})", figure["median"], figure["min"], figure["max"]),
    }
}

fn thousands(nodes: &Value) -> String {
    format!("{}k", nodes.as_u64().unwrap_or_default() / 1000)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

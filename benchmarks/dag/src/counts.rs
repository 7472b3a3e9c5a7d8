//! What a contender needs, besides time: instructions, bytes and futex calls per node.
//!
//! Each figure comes from probes, processes that run one case each. Instructions and bytes hardly depend on
//! the machine and its load. Futex calls do: they depend on how threads meet, so their spread is wide.

mod futex;
mod instructions;

use std::process::Output;

use serde_json::{Value, json};
use windlass::pool;

use self::instructions::Instructions;
use crate::case::{Body, Setting};
use crate::probe::Probe;
use crate::sections::{Row, SECTIONS, Section};
use crate::wish::{Count, Wish};

/// How many threads the runtime has, whatever the machine has: figures of different machines can be compared.
const THREADS: usize = 2;

/// Counts everything that was asked for.
pub(crate) fn measure(wish: &Wish, tools: &Tools) -> Result<Value, String> {
    let mut sections = Vec::new();
    for count in &wish.counts {
        match count {
            Count::Instructions => {
                let instructions = Instructions::default();
                // Valgrind needs one processor for each process.
                let figures = |probes: &[Probe]| {
                    pool::map(probes, |probe| instructions.figure(wish, probe).inspect(progress))
                };
                sections.extend(each_section(wish, "instructions", figures)?);
            }
            Count::Futex => {
                let tool = tools.futex.expect("it was looked for");
                let figures = |probes: &[Probe]| {
                    probes
                        .iter()
                        .map(|probe| futex::figure(tool, wish, probe).inspect(progress))
                        .collect()
                };
                sections.extend(each_section(wish, "futex", figures)?);
            }
            Count::Bytes => sections.push(bytes(wish)?),
        }
    }
    Ok(json!({ "threads": THREADS, "sections": sections }))
}

/// Shows what was counted, because all of it takes minutes.
fn progress(figure: &Value) {
    eprintln!("{figure}");
}

/// What was found on this machine.
pub(crate) struct Tools {
    futex: Option<&'static futex::Tool>,
}

impl Tools {
    /// Returns an error if a program is missing that one of the counts needs.
    pub(crate) fn find(counts: &[Count]) -> Result<Self, String> {
        if counts.contains(&Count::Instructions) {
            instructions::check()?;
        }
        let futex = counts.contains(&Count::Futex).then(futex::find).transpose()?;
        Ok(Self { futex })
    }
}

/// Counts each section that was asked for; `figures` returns a figure for each probe.
fn each_section(
    wish: &Wish,
    count: &str,
    figures: impl Fn(&[Probe]) -> Vec<Result<Value, String>>,
) -> Result<Vec<Value>, String> {
    let mut sections = Vec::new();
    for section in SECTIONS.iter().filter(|section| wish.wants(section)) {
        let Some(counted) = section.counted else { continue };
        let mut results = Vec::new();
        for shape in counted.shapes(wish) {
            eprintln!("{count}: {}: {}", section.name, shape.name);
            let probe = |row: &Row| probe(section, shape.name, row, wish.size(counted.nodes));
            let mut rows = section.rows(wish);
            rows.retain(|row| counted.settings.contains(&row.setting));
            let probes: Vec<_> = rows.iter().map(probe).collect();
            let figures: Vec<_> = figures(&probes).into_iter().collect::<Result<_, _>>()?;
            results.push(json!({ "column": shape.name, "figures": figures }));
        }
        sections.push(json!({
            "count": count,
            "section": section.name,
            "body": section.body.name(),
            "results": results,
        }));
    }
    Ok(sections)
}

fn probe(section: &Section, shape: &'static str, row: &Row, nodes: usize) -> Probe {
    let nodes = nodes.min(row.contender.most);
    Probe { section: section.name, shape, row: row.name(), nodes, threads: THREADS }
}

/// Counts the bytes at the peak: of nodes that all wait at the same time, and of nodes that rest until
/// their turn comes, which a limit on how many run does not change.
fn bytes(wish: &Wish) -> Result<Value, String> {
    let mut results = Vec::new();
    for (column, body, shape) in
        [("waiting", Body::WaitForAll, "independent"), ("resting", Body::NoOp, "layered")]
    {
        eprintln!("bytes: {column}");
        let section = SECTIONS.iter().find(|section| section.body == body).expect("it is there");
        let peak = |row: &Row| peak(&probe(section, shape, row, wish.size(section.nodes)), row);
        let mut rows = section.rows(wish);
        rows.retain(|row| !matches!(row.setting, Setting::AtMost(_)));
        let figures: Vec<_> = rows.iter().map(peak).collect::<Result<_, _>>()?;
        results.push(json!({ "column": column, "figures": figures }));
    }
    Ok(json!({ "count": "bytes", "section": "bytes", "results": results }))
}

fn peak(probe: &Probe, row: &Row) -> Result<Value, String> {
    let answer = answer(&output(probe, &[], &["bytes"])?);
    let nodes = answer["nodes"].as_u64().expect("a number");
    let bytes = answer["peak"].as_u64().expect("a number") / nodes;
    Ok(json!({
        "contender": row.name(),
        "nodes": nodes,
        "bytes_per_node": bytes,
        "beyond_its_body": bytes.saturating_sub(row.contender.body_bytes as u64),
    }))
}

/// Runs a probe under a tool.
fn output(probe: &Probe, tool: &[&str], more: &[&str]) -> Result<Output, String> {
    let output = probe.command(tool).args(more).output();
    let output = output.map_err(|error| format!("cannot start {tool:?} {probe:?}: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let told = String::from_utf8_lossy(&output.stderr);
    Err(format!("{tool:?} {probe:?} failed with {}:\n{told}", output.status))
}

/// Returns what the probe has printed.
fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("what a probe prints")
}

/// Returns the first number that `parse` finds in a line that the tool has printed.
fn told(output: &Output, parse: fn(&str) -> Option<u64>) -> Result<u64, String> {
    let told = String::from_utf8_lossy(&output.stderr);
    told.lines().find_map(parse).ok_or_else(|| format!("the tool has not told its count:\n{told}"))
}

//! Counts instead of times: instructions, bytes and futex calls per node.
//!
//! Each figure comes from probes, processes that run one case each. Instructions and bytes hardly depend
//! on the machine and its load. Futex calls depend on how threads interleave, so their spread is wide.

mod futex;
mod instructions;

use std::process::Output;

use serde_json::{Value, json};
use windlass::pool;

use self::instructions::Instructions;
use crate::case::{Body, Setting};
use crate::options::{Count, Options};
use crate::probe::Probe;
use crate::sections::{Row, SECTIONS, Section};

/// The number of threads of the runtime, fixed so that the figures of different machines can be compared.
const THREADS: usize = 2;

/// Counts everything that the options select.
pub(crate) fn measure(options: &Options, tools: &Tools) -> Result<Value, String> {
    let mut sections = Vec::new();
    for count in &options.counts {
        match count {
            Count::Instructions => {
                let instructions = Instructions::default();
                // Valgrind needs one processor for each process.
                let figures = |probes: &[Probe]| {
                    pool::map(probes, |probe| instructions.figure(options, probe).inspect(progress))
                };
                sections.extend(each_section(options, "instructions", figures)?);
            }
            Count::Futex => {
                let tool = tools.futex.expect("it was looked for");
                let figures = |probes: &[Probe]| {
                    probes
                        .iter()
                        .map(|probe| futex::figure(tool, options, probe).inspect(progress))
                        .collect()
                };
                sections.extend(each_section(options, "futex", figures)?);
            }
            Count::Bytes => sections.push(bytes(options)?),
        }
    }
    Ok(json!({ "threads": THREADS, "sections": sections }))
}

/// Prints progress, because all of it takes minutes.
fn progress(figure: &Value) {
    eprintln!("{figure}");
}

/// The tools that this machine has.
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

/// Counts the selected sections; `figures` returns a figure for each probe.
fn each_section(
    options: &Options,
    count: &str,
    figures: impl Fn(&[Probe]) -> Vec<Result<Value, String>>,
) -> Result<Vec<Value>, String> {
    let mut sections = Vec::new();
    for section in SECTIONS.iter().filter(|section| options.wants(section)) {
        let Some(counted) = section.counted else { continue };
        let mut results = Vec::new();
        for shape in counted.shapes(options) {
            eprintln!("{count}: {}: {}", section.name, shape.name);
            let probe = |row: &Row| probe(section, shape.name, row, options.size(counted.nodes));
            let mut rows = section.rows(options);
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
/// their turn comes. A limit on running nodes does not change the latter.
fn bytes(options: &Options) -> Result<Value, String> {
    let mut results = Vec::new();
    for (column, body, shape) in
        [("waiting", Body::WaitForAll, "independent"), ("resting", Body::NoOp, "layered")]
    {
        eprintln!("bytes: {column}");
        let section = SECTIONS.iter().find(|section| section.body == body).expect("it is there");
        let peak = |row: &Row| peak(&probe(section, shape, row, options.size(section.nodes)), row);
        let mut rows = section.rows(options);
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{tool:?} {probe:?} failed with {}:\n{stderr}", output.status))
}

/// Returns what the probe has printed.
fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("a probe prints JSON")
}

/// Returns the first number that `parse` finds in a line that the tool has printed.
fn count_in(output: &Output, parse: fn(&str) -> Option<u64>) -> Result<u64, String> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    stderr.lines().find_map(parse).ok_or_else(|| format!("the tool printed no count:\n{stderr}"))
}

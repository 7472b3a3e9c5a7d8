//! Graphs of works: compares Windlass with hand-written code and with other crates, in one run.
//!
//! It prints one JSON object with times or counts; `--help` has the arguments. When times are measured,
//! contenders take turns. Every run is checked: each node ran once, and after its dependencies.

mod barrier;
mod case;
mod contenders;
mod counts;
mod graph;
mod memory;
mod options;
mod probe;
mod sections;
mod spread;
mod table;
mod times;

use std::process::{Command, ExitCode};

use serde_json::{Value, json};

use crate::counts::Tools;
use crate::options::Options;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let printed = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--help" | "-h"] => Ok(options::HELP.to_owned()),
        ["--table", file] => table_of(file),
        [probe::FLAG, ..] => probe::run(&arguments[1..])
            .map(|answer| format!("{answer}\n"))
            .ok_or_else(|| refuse("not a probe")),
        _ => measure(&arguments).map(|report| format!("{report:#}\n")),
    };
    match printed {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(Failure { message, code }) => {
            eprintln!("{message}");
            ExitCode::from(code)
        }
    }
}

struct Failure {
    message: String,
    code: u8,
}

/// Returns the failure for invalid arguments.
fn refuse(message: impl Into<String>) -> Failure {
    Failure { message: message.into(), code: 2 }
}

fn fail(message: impl Into<String>) -> Failure {
    Failure { message: message.into(), code: 1 }
}

fn table_of(file: &str) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| fail(format!("{file}: {error}")))?;
    let report = serde_json::from_str(&text).map_err(|error| fail(format!("{file}: {error}")))?;
    Ok(table::markdown(&report))
}

fn measure(arguments: &[String]) -> Result<Value, Failure> {
    let options = Options::parse(arguments)
        .map_err(|error| refuse(format!("{error}\n\n{}", options::HELP)))?;
    let tools = Tools::find(&options.counts).map_err(refuse)?;
    let mut report = match options.counts[..] {
        [] => times::measure(&options),
        _ => counts::measure(&options, &tools).map_err(fail)?,
    };
    report["benchmark"] = json!("dag");
    report["commit"] = json!(commit());
    Ok(report)
}

/// Returns the commit that was built, if it is known.
fn commit() -> String {
    let given = std::env::var("WINDLASS_COMMIT").ok();
    let asked = || {
        let git = Command::new("git").args(["describe", "--always", "--dirty"]).output().ok()?;
        Some(String::from_utf8_lossy(&git.stdout).trim().to_owned())
    };
    given.or_else(asked).filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

//! Graphs of works: Windlass against what people write by hand and against crates, in one run.
//!
//! `cargo run --release -p windlass-bench-dag -- [ROUNDS] [SECTION…] [--who=CONTENDER…] [--shape=SHAPE…]`
//! writes one JSON object: nanoseconds per node for building, running and dropping a graph, as median and
//! spread. Contenders take turns, and every run is checked: each node ran once, and after those it
//! follows. Without sections it runs all but `million`. A part of a contender's name is enough, or
//! `--who==NAME` means that one alone. `-- --table FILE` prints the figures of such a file as Markdown.

mod case;
mod contenders;
mod graph;
mod memory;
mod sections;
mod table;

use std::process::Command;

use serde_json::{Value, json};

use crate::case::Machine;
use crate::contenders::{CONTENDERS, Contender};
use crate::sections::SECTIONS;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [flag, file] if flag == "--table" => {
            let text = std::fs::read_to_string(file).expect("a file that can be read");
            let report = serde_json::from_str(&text).expect("what this program has written");
            print!("{}", table::markdown(&report));
        }
        _ => println!("{:#}", measure(&Wish::parse(arguments))),
    }
}

/// What to measure.
struct Wish {
    rounds: usize,
    /// Parts of the names of contenders, or with `=` before them whole names; none means all.
    who: Vec<String>,
    /// Names of shapes; none means all.
    shapes: Vec<String>,
    sections: Vec<String>,
}

impl Wish {
    fn parse(arguments: Vec<String>) -> Self {
        let (who, shapes, sections) = (Vec::new(), Vec::new(), Vec::new());
        let mut wish = Self { rounds: 5, who, shapes, sections };
        for argument in arguments {
            if let Ok(rounds) = argument.parse() {
                wish.rounds = rounds;
            } else if let Some(name) = argument.strip_prefix("--who=") {
                wish.who.push(name.to_owned());
            } else if let Some(shape) = argument.strip_prefix("--shape=") {
                wish.shapes.push(shape.to_owned());
            } else {
                wish.sections.push(argument);
            }
        }
        wish
    }

    fn wants(&self, section: &str, on_demand: bool) -> bool {
        match self.sections.as_slice() {
            [] => !on_demand,
            names => names.iter().any(|name| name == section),
        }
    }

    fn wants_shape(&self, shape: &str) -> bool {
        self.shapes.is_empty() || self.shapes.iter().any(|name| name == shape)
    }

    fn wants_of(&self, contender: &Contender) -> bool {
        let is_meant = |wish: &String| match wish.strip_prefix('=') {
            Some(name) => contender.name == name,
            None => contender.name.contains(wish),
        };
        self.who.is_empty() || self.who.iter().any(is_meant)
    }
}

fn measure(wish: &Wish) -> Value {
    let machine = Machine::new();
    let contenders: Vec<_> = CONTENDERS.iter().filter(|who| wish.wants_of(who)).collect();
    let sections = SECTIONS.iter().filter(|section| wish.wants(section.name, section.on_demand));
    let sections = sections.map(|section| section.run(&machine, wish, &contenders));
    let mut report = json!({
        "benchmark": "dag",
        "commit": commit(),
        "threads": machine.threads,
        "rounds": wish.rounds,
        "sections": sections.collect::<Vec<_>>(),
    });
    if wish.wants("memory", false) {
        let figures: Vec<_> = match contenders.as_slice() {
            [alone] if wish.sections == ["memory"] => vec![sections::memory(&machine, alone)],
            all => all.iter().map(|contender| memory_of(contender)).collect(),
        };
        report["memory"] = json!({ "shape": sections::MEASURED, "figures": figures });
    }
    report
}

/// The memory that a contender takes in a process of its own.
fn memory_of(contender: &Contender) -> Value {
    let program = std::env::current_exe().expect("this program");
    let who = format!("--who=={}", contender.name);
    let told = Command::new(program).args([who.as_str(), "memory"]).output().expect("it starts");
    let report: Value = serde_json::from_slice(&told.stdout).expect("what this program writes");
    report["memory"]["figures"][0].clone()
}

/// The commit that was built, as far as it is known.
fn commit() -> String {
    let told = std::env::var("WINDLASS_COMMIT").ok();
    let asked = || {
        let git = Command::new("git").args(["describe", "--always", "--dirty"]).output().ok()?;
        Some(String::from_utf8_lossy(&git.stdout).trim().to_owned())
    };
    told.or_else(asked).filter(|name| !name.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

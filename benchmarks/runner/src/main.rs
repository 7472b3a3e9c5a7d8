//! Runs the benchmarks one after the other and stores their results.
//!
//! Each benchmark is a program of its own that prints or writes JSON. This one builds all of them,
//! runs them in turn, so that none disturbs another, stores their JSON with the machine and the time, and
//! makes one page of tables from it.

mod environment;
mod page;
mod plan;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::plan::{Benchmark, Plan};

const HELP: &str = "\
Builds and runs the benchmarks one after the other.

usage: benchmarks/run [--quick] [--only NAME]... [--page]

  --only NAME  one of those below; may be given several times
  --quick      fewer rounds, to see that everything works; writes to target/benchmarks
  --page       runs nothing, and makes RESULTS.md anew from the JSON that is there

  dag, engine, pool, capacity, coordination, commands, service, cluster: times
  dag-counts: instructions and bytes per node of a graph; needs valgrind
  dag-futex: futex calls per node of a graph; needs perf or strace

Without --quick it refreshes the JSON beside each benchmark and benchmarks/RESULTS.md. The machine
should have nothing else to do: the page tells its load before and after each benchmark. Only
dag-counts says nearly the same on a busy machine.
";

fn main() -> ExitCode {
    let plan = match Plan::parse(std::env::args().skip(1)) {
        Ok(Some(plan)) => plan,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(mistake) => {
            eprint!("{mistake}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match carry_out(&plan) {
        Ok(page) => {
            eprintln!("written: {}", page.display());
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the root of the repository.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn carry_out(plan: &Plan) -> Result<PathBuf, Box<dyn Error>> {
    let to = root().join(if plan.quick { "target/benchmarks" } else { "benchmarks" });
    build(&plan.benchmarks)?;
    for benchmark in &plan.benchmarks {
        eprintln!("\n== {}", benchmark.name);
        measure(benchmark, plan.quick, &to)?;
    }
    let page = to.join("RESULTS.md");
    fs::write(&page, page::make(&to)?)?;
    Ok(page)
}

/// Builds everything first, so that nothing compiles during a measurement. The page also needs the program
/// for graphs, to format its figures.
fn build(benchmarks: &[&Benchmark]) -> Result<(), Box<dyn Error>> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "-p", "windlass-bench-dag"]).current_dir(root());
    for benchmark in benchmarks {
        cargo.args(["-p", &format!("windlass-bench-{}", benchmark.package)]);
        cargo.args(if benchmark.commands { &["-p", "windlass-cli"][..] } else { &[] });
    }
    if cargo.status()?.success() { Ok(()) } else { Err("the benchmarks do not build".into()) }
}

/// Returns the path of a program beside this one.
fn program(name: &str) -> Result<PathBuf, Box<dyn Error>> {
    Ok(std::env::current_exe()?.with_file_name(format!("windlass-bench-{name}")))
}

/// Runs one benchmark; its earlier results stay if it fails.
fn measure(benchmark: &Benchmark, quick: bool, to: &Path) -> Result<(), Box<dyn Error>> {
    let results = benchmark.results(to);
    fs::create_dir_all(to.join(benchmark.package))?;
    let fresh = results.with_extension("new.json");
    let mut command = Command::new(program(benchmark.package)?);
    command.args(if quick { benchmark.quick } else { benchmark.whole }).current_dir(root());
    if benchmark.prints {
        command.stdout(fs::File::create(&fresh)?);
    } else {
        command.arg(format!("--json={}", fresh.display()));
    }
    let (before, began) = (environment::load(), Instant::now());
    if !command.status()?.success() {
        return Err(
            format!("{} failed; its earlier results are as they were", benchmark.name).into()
        );
    }
    let when = environment::now(&before, began.elapsed(), quick);
    fs::write(benchmark.when(to), format!("{when:#}\n"))?;
    Ok(fs::rename(fresh, results)?)
}

//! Measures runs of no-op commands, compared with make, ninja, xargs and GNU parallel, which store nothing
//! durably, and with bare processes, with and without a sync for each.
//!
//! `cargo run --release -p windlass-bench-commands` needs `target/release/windlass` beside it
//! (`cargo build --release -p windlass-cli`), prints a Markdown table and writes `results.json`
//! beside this package's manifest; `-- --quick` does less and writes nothing; with names, as in
//! `-- "chain of 1000"`, only those works are measured, and the rows of the others stay as they are.
//! Contenders take turns within each round; one that is not installed is reported as missing. State and
//! files are beside this program, on the disk of the build.

mod contenders;
mod floor;
mod measure;
mod report;
mod works;

use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::contenders::Contender;
use crate::measure::{Measurement, measure};
use crate::report::Report;
use crate::works::{Shape, Work};

fn main() {
    let (options, words): (Vec<_>, Vec<_>) =
        env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let quick = options.iter().any(|option| option == "--quick");
    let program = env::current_exe().expect("this program lies somewhere");
    let windlass = program.with_file_name("windlass");
    assert!(windlass.exists(), "build it first: cargo build --release -p windlass-cli");
    let dir = tempfile::tempdir_in(program.parent().expect("it lies in a directory"));
    let dir = dir.expect("a directory");
    let contenders = Contender::all(&windlass);
    let mut report = Report::new(contenders.iter().filter(|contender| !contender.is_installed()));
    let (few, many) = if quick { (100, 300) } else { (1000, 10_000) };
    let rounds = if quick { (3, 1) } else { (5, 2) };
    for (work, rounds) in [
        (Work { shape: Shape::Independent, steps: 1, jobs: 2 }, rounds.0 * 3),
        (Work { shape: Shape::Independent, steps: few, jobs: 2 }, rounds.0),
        (Work { shape: Shape::Chain, steps: few, jobs: 2 }, rounds.0),
        (Work { shape: Shape::Independent, steps: many, jobs: 64 }, rounds.1),
        (Work { shape: Shape::Chain, steps: many, jobs: 2 }, rounds.1),
    ] {
        let name = work.to_string();
        if !words.is_empty() && !words.contains(&name) {
            continue;
        }
        measure_all(work, rounds, &contenders, dir.path(), &mut report);
    }
    println!("{}", report.markdown());
    let told = options.iter().find_map(|option| option.strip_prefix("--json="));
    let usual = || Path::new(env!("CARGO_MANIFEST_DIR")).join("results.json");
    if let Some(file) = told.map(PathBuf::from).or_else(|| (!quick).then(usual)) {
        let before = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, report.json(&before)).expect("the results can be written");
    }
}

fn measure_all(
    work: Work,
    rounds: usize,
    contenders: &[Contender],
    dir: &Path,
    report: &mut Report,
) {
    let files = dir.join(format!("{work}").replace(' ', "-"));
    fs::create_dir(&files).expect("it can be made");
    work.write(&files);
    let able = contenders.iter().filter(|c| c.is_installed() && c.can(work));
    let mut runs: Vec<(&Contender, Vec<Measurement>)> =
        able.map(|contender| (contender, Vec::new())).collect();
    for round in 0..rounds {
        for (contender, samples) in &mut runs {
            samples.push(measure(contender, work, &files, round));
        }
    }
    for (contender, samples) in runs {
        report.add(work, contender.name(), &samples);
    }
}

//! A lock around a no-op command, compared with `flock` and with no lock.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use windlass_bench_report::Table;

pub(crate) fn run(windlass: &Path, rounds: usize, table: &mut Table) {
    let dir = tempfile::tempdir().expect("a directory");
    let (state, file) = (dir.path().join("state"), dir.path().join("file"));
    let mut contenders = [
        ("true", Command::new("true")),
        ("flock", Command::new("flock")),
        ("windlass lock", Command::new(windlass)),
    ];
    contenders[1].1.arg(&file).arg("true");
    contenders[2].1.args(["lock", "x", "--", "true"]).env("WINDLASS_STATE", &state);
    let mut delays = vec![Vec::new(); contenders.len()];
    for round in 0..=rounds {
        for ((name, command), delays) in contenders.iter_mut().zip(&mut delays) {
            let took = timed(name, command);
            // The first round creates the files.
            if round > 0 {
                delays.push(took);
            }
        }
    }
    for ((name, _), delays) in contenders.iter().zip(&delays) {
        table.add_delays("uncontended, around `true`", name, delays);
    }
}

fn timed(name: &str, command: &mut Command) -> Duration {
    let began = Instant::now();
    let status = command.status().unwrap_or_else(|error| panic!("{name}: {error}"));
    let took = began.elapsed();
    assert!(status.success(), "{name}: {status}");
    took
}

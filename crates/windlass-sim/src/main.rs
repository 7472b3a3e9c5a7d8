//! Simulates random worlds: `cargo run --release -p windlass-sim -- --seeds 20000`.

use std::process::ExitCode;

use windlass_sim::report::Report;
use windlass_sim::world;

const USAGE: &str = "usage: windlass-sim --seeds COUNT [--from SEED] | --seed SEED";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(seeds) = seeds(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let mut total = Report::default();
    for seed in seeds {
        match std::panic::catch_unwind(|| world::simulate(seed)) {
            Ok(report) => total.merge(&report),
            Err(_) => return ExitCode::FAILURE,
        }
    }
    print!("{total}");
    ExitCode::SUCCESS
}

fn seeds(arguments: &[String]) -> Option<std::ops::Range<u64>> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (from, count) = match words[..] {
        ["--seed", seed] => (seed.parse().ok()?, 1),
        ["--seeds", count] => (0, count.parse().ok()?),
        ["--seeds", count, "--from", from] => (from.parse().ok()?, count.parse().ok()?),
        _ => return None,
    };
    Some(from..u64::checked_add(from, count)?)
}

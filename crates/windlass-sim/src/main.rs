//! Simulates random worlds: `cargo run --release -p windlass-sim -- --seeds 20000`; or a large fleet of workers:
//! `-- --fleet 1000 --works 1000000`.

use std::process::ExitCode;

use windlass_sim::fleet::{FleetSize, simulate as simulate_fleet};
use windlass_sim::report::Report;
use windlass_sim::world;

const USAGE: &str =
    "usage: windlass-sim --seeds COUNT [--from SEED] | --seed SEED | --fleet WORKERS --works COUNT";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(size) = fleet(&arguments) {
        print!("{}", simulate_fleet(1, size));
        return ExitCode::SUCCESS;
    }
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

fn fleet(arguments: &[String]) -> Option<FleetSize> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--fleet", workers, "--works", works] => Some(FleetSize {
            workers: workers.parse().ok()?,
            works: works.parse().ok()?,
            runs: 100,
        }),
        _ => None,
    }
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

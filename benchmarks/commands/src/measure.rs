//! One run of one contender.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::contenders::Contender;
use crate::floor;
use crate::works::Work;

/// The time of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measurement {
    pub(crate) wall: Duration,
    /// The processor time, with all children, in steps of 10 ms.
    pub(crate) cpu: Duration,
}

pub(crate) fn measure(contender: &Contender, work: Work, dir: &Path, round: usize) -> Measurement {
    contender.prepare(dir, round);
    let command = contender.command(work, dir, round);
    let notes = contender.notes(dir);
    let (began, used) = (Instant::now(), cpu());
    match command {
        None => floor::run(work, notes),
        Some(mut command) => {
            let name = contender.name();
            let status = command.status().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(status.success(), "{name}: {status}");
        }
    }
    let measurement = Measurement { wall: began.elapsed(), cpu: cpu().saturating_sub(used) };
    contender.forget(dir);
    measurement
}

/// Returns the processor time of this process and of all children that it has waited for.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("this is Linux");
    let fields = stat[stat.rfind(')').expect("a name") + 1..].split_whitespace();
    let ticks: u64 =
        fields.skip(11).take(4).map(|field| field.parse::<u64>().expect("a number")).sum();
    // The kernel reports times to programs in this unit, whatever it uses itself.
    Duration::from_millis(10) * u32::try_from(ticks).expect("not for years")
}

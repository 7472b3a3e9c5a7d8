//! The scenarios of the simulator, through the real binary.
//!
//! What a scenario says of works becomes a workflow file, and what is done from outside becomes
//! calls of the binary at the same times, stretched. A few scenarios run at a time. One whose trace
//! does not fit runs again, alone and slower: a busy machine confuses one try, a mistake all.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use windlass_sim::scenario::Scenario;

mod drive;
mod flow;

use self::drive::drive;

/// How many scenarios run at a time.
const WIDTH: usize = 8;
/// How many real milliseconds a scenario's millisecond takes, at each try.
const STRETCHES: [u32; 3] = [10, 30, 90];

#[test]
fn every_scenario_runs_on_the_command() {
    let mut scenarios = Scenario::all();
    scenarios.retain(|scenario| !scenario.not_on.contains_key("command"));
    let [first, slower @ ..] = STRETCHES;
    let odd = misfits(&scenarios, first);
    let fits_later = |scenario: &Scenario| slower.iter().any(|&stretch| fits(scenario, stretch));
    let failed = odd.into_iter().filter(|scenario| !fits_later(scenario));
    let failed: Vec<_> = failed.map(|scenario| scenario.name.as_str()).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

/// Runs all of them, a few at a time; those that do not fit.
fn misfits(scenarios: &[Scenario], stretch: u32) -> Vec<&Scenario> {
    let next = AtomicUsize::new(0);
    let odd = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..WIDTH {
            scope.spawn(|| {
                // Only the number counts: nothing else hangs on it.
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if !fits(scenario, stretch) {
                        odd.lock().expect("no thread panics with it").push(scenario);
                    }
                }
            });
        }
    });
    odd.into_inner().expect("no thread panics with it")
}

fn fits(scenario: &Scenario, stretch: u32) -> bool {
    let result = drive(scenario, stretch);
    if let Err(why) = &result {
        eprintln!("{}, {stretch} times slower: {why}", scenario.name);
    }
    result.is_ok()
}

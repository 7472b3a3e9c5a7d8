//! Schedulers and workers that are suspended and killed at random: two of each, so that others take over.
//!
//! Whether two attempts overlap is judged by locks of the kernel, which the steps take.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::flow::Names;
use crate::random::{Random, rounds};
use crate::served_run::{Role, ServedRun};

/// The lease, and how long a process is suspended at most: three leases.
const LEASE: &str = "1s";
const LONGEST: u64 = 3_000_000;

/// What one run has been through.
#[derive(Default)]
struct Suffered {
    kills: usize,
    suspensions: usize,
}

fn one_run(random: &mut Random, most: usize) -> Suffered {
    let mut run = ServedRun::submit(Names::random(random), LEASE);
    let mut suffered = Suffered::default();
    let mut suspended: BTreeMap<Role, Instant> = BTreeMap::new();
    while !run.is_over() && suffered.kills + suffered.suspensions < most {
        run.start(&Role::ALL);
        thread::sleep(Duration::from_micros(20_000 + random.below(200_000)));
        let now = Instant::now();
        for (role, _) in suspended.extract_if(.., |_, until| *until <= now) {
            run.signal(role, Signal::CONT);
        }
        let role = Role::ALL[usize::try_from(random.below(4)).expect("it is small")];
        if random.below(4) == 0 {
            suspended.remove(&role);
            run.kill(role);
            suffered.kills += 1;
        } else if let Entry::Vacant(place) = suspended.entry(role) {
            run.signal(role, Signal::STOP);
            place.insert(now + Duration::from_micros(random.below(LONGEST)));
            suffered.suspensions += 1;
        }
    }
    for role in suspended.into_keys() {
        run.signal(role, Signal::CONT);
    }
    run.check_end();
    suffered
}

#[test]
fn a_service_whose_processes_are_suspended_and_killed_runs_no_attempt_twice_at_a_time() {
    let mut random = Random::from_env();
    let (wanted, mut all, mut runs) = (rounds(15, 600), Suffered::default(), 0);
    while all.kills + all.suspensions < wanted {
        let Suffered { kills, suspensions } = one_run(&mut random, 30);
        all.kills += kills;
        all.suspensions += suspensions;
        runs += 1;
    }
    println!("{runs} runs, {} kills, {} suspensions", all.kills, all.suspensions);
}

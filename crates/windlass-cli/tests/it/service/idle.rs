//! A service with nothing to do: it sleeps.

use std::thread;
use std::time::Duration;

use super::*;

/// How long the service is watched.
const WATCHED: Duration = Duration::from_secs(6);

/// Returns how often a process has gone to sleep by itself, and its processor time in clock ticks.
fn effort(pid: u32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    let switches = line.and_then(|count| count.trim().parse().ok()).expect("a number");
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<_> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
    let ticks = |place: usize| fields[place].parse::<u64>().expect("a number");
    (switches, ticks(11) + ticks(12))
}

#[test]
fn an_idle_service_sleeps() {
    let service = Service::with("[step.a]\nrun = 'true'\n", "1");
    let run = service.submit(&[]);
    service.wait(&run, 0);
    let worker = &service.processes[1];
    let guardian = fencing::guardian_of(worker).expect("it has one").parse().expect("a number");
    let pids = [service.processes[0].id(), worker.id(), guardian];
    // What follows from the run is over by then.
    thread::sleep(Duration::from_secs(1));
    let before = pids.map(effort);
    thread::sleep(WATCHED);
    for (pid, (switches, ticks)) in pids.into_iter().zip(before) {
        let (switches_now, ticks_now) = effort(pid);
        let woken = switches_now - switches;
        assert!(woken <= WATCHED.as_secs(), "process {pid} was woken {woken} times");
        assert!(ticks_now - ticks <= 6, "process {pid} took {} ticks", ticks_now - ticks);
    }
}

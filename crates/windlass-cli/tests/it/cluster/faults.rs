//! Faults, and what is promised for them.

use super::*;
use crate::bench::rounds;

/// What happens to a worker.
#[derive(Clone, Copy, Debug)]
enum WorkerFault {
    Killed,
    Cut,
    Paused,
    PowerLost,
}

#[test]
fn a_holder_whose_network_is_cut_loses_its_lock_after_its_command_was_ended() {
    let Some(mut cluster) = Cluster::new() else { return };
    let (one, two) = (cluster.machine("one"), cluster.machine("two"));
    for _ in 0..rounds(1, 50) {
        cluster.hold(&one);
        cluster.wait_for_lock(&two);
        cluster.network.cut(&one);
        cluster.await_line("held", |line| line.starts_with("two"));
        cluster.check_history();
        cluster.network.mend(&one);
        cluster.finish(&two);
        // The other one may not have found its way back into the network.
        cluster.start_over(&[&two, &one]);
    }
}

#[test]
fn a_holder_whose_machine_has_lost_its_power_loses_its_lock() {
    let Some(mut cluster) = Cluster::new() else { return };
    let (one, two) = (cluster.machine("one"), cluster.machine("two"));
    cluster.hold(&one);
    cluster.wait_for_lock(&two);
    one.lose_power();
    cluster.await_line("held", |line| line.starts_with("two"));
    cluster.finish(&two);
    cluster.check_history();
}

#[test]
fn the_steps_of_a_killed_worker_run_elsewhere() {
    check_worker(WorkerFault::Killed, rounds(1, 200));
}

#[test]
fn the_steps_of_a_worker_whose_network_is_cut_end_and_run_elsewhere() {
    check_worker(WorkerFault::Cut, rounds(1, 200));
}

#[test]
fn the_steps_of_a_worker_that_is_suspended_end_and_run_elsewhere() {
    check_worker(WorkerFault::Paused, rounds(1, 50));
}

#[test]
fn the_steps_of_a_machine_without_power_run_elsewhere() {
    check_worker(WorkerFault::PowerLost, 1);
}

fn check_worker(fault: WorkerFault, rounds: usize) {
    let Some(mut cluster) = Cluster::new() else { return };
    let lead = cluster.machine("lead");
    cluster.scheduler(&lead);
    for _ in 0..rounds {
        let machines = [cluster.machine("one"), cluster.machine("two")];
        let workers: Vec<_> = machines.iter().map(|machine| cluster.worker(machine)).collect();
        let run = cluster.says(&lead, &["submit", "flow.toml"]).trim().to_owned();
        let first = cluster.await_line("begun", |_| true);
        let place = usize::from(first.starts_with("two"));
        let [one, two] = machines;
        let (hit, other) = if place == 0 { (one, two) } else { (two, one) };
        let (hit_name, hit_worker) = (hit.name().to_owned(), &workers[place]);
        let mut hit = Some(hit);
        match fault {
            WorkerFault::Killed => hit_worker.signal(Signal::KILL),
            WorkerFault::Cut => cluster.network.cut(hit.as_ref().expect("it is there")),
            WorkerFault::Paused => hit_worker.signal(Signal::STOP),
            WorkerFault::PowerLost => hit.take().expect("it is there").lose_power(),
        }
        cluster.await_line("begun", |line| line.starts_with(other.name()));
        cluster.check_history();
        match fault {
            WorkerFault::Paused => hit_worker.signal(Signal::CONT),
            WorkerFault::Cut => cluster.network.mend(hit.as_ref().expect("it is there")),
            _ => {}
        }
        cluster.bench.write("go", "");
        cluster.says(&lead, &["wait", &run]);
        assert_eq!(cluster.bench.read("ended").trim(), other.name());
        let shown = cluster.says(&lead, &["show", &run]);
        assert!(shown.contains("succeeded"), "{shown}");
        if matches!(fault, WorkerFault::Paused | WorkerFault::Cut) {
            let is_up = || {
                let said = cluster.says(&lead, &["workers"]);
                let mut lines = said.lines();
                lines.any(|line| line.starts_with(&hit_name) && line.contains("up"))
            };
            cluster.eventually("the worker begins another life", is_up);
        }
        workers.iter().for_each(Process::kill);
        cluster.start_over(&[&lead]);
    }
}

#[test]
fn a_worker_whose_machine_was_rebooted_begins_once_its_last_life_is_over() {
    let Some(mut cluster) = Cluster::new() else { return };
    let (lead, one) = (cluster.machine("lead"), cluster.machine("one"));
    cluster.scheduler(&lead);
    cluster.worker(&one);
    let run = cluster.says(&lead, &["submit", "flow.toml"]).trim().to_owned();
    cluster.await_line("begun", |_| true);
    one.lose_power();
    let one = cluster.machine("one");
    cluster.worker(&one);
    cluster
        .eventually("the step begins again", || cluster.bench.read("begun").lines().count() == 2);
    cluster.bench.write("go", "");
    cluster.says(&lead, &["wait", &run]);
    cluster.check_history();
}

/// What happens to a scheduler.
#[derive(Clone, Copy, Debug)]
enum SchedulerFault {
    Killed,
    Cut,
    Paused,
}

#[test]
fn a_standby_leads_when_the_scheduler_is_killed_and_no_step_notices() {
    check_scheduler(SchedulerFault::Killed, rounds(1, 200));
}

#[test]
fn a_standby_leads_when_the_network_of_the_scheduler_is_cut_and_no_step_notices() {
    check_scheduler(SchedulerFault::Cut, rounds(1, 200));
}

#[test]
fn a_standby_leads_when_the_scheduler_stands_still_and_no_step_notices() {
    check_scheduler(SchedulerFault::Paused, rounds(1, 200));
}

fn check_scheduler(fault: SchedulerFault, rounds: usize) {
    let Some(mut cluster) = Cluster::new() else { return };
    let worker = cluster.machine("worker");
    cluster.worker_with_lease(&worker, LONG_LEASE);
    for _ in 0..rounds {
        let (one, two) = (cluster.machine("one"), cluster.machine("two"));
        let leader = cluster.scheduler(&one);
        let run = cluster.says(&worker, &["submit", "flow.toml"]).trim().to_owned();
        cluster.await_line("begun", |_| true);
        let standby = cluster.scheduler(&two);
        match fault {
            SchedulerFault::Killed => leader.signal(Signal::KILL),
            SchedulerFault::Cut => cluster.network.cut(&one),
            SchedulerFault::Paused => leader.signal(Signal::STOP),
        }
        cluster.bench.write("other.toml", "[step.a]\nrun = 'true'");
        let other = cluster.says(&worker, &["submit", "other.toml"]).trim().to_owned();
        cluster.says(&worker, &["wait", &other]);
        match fault {
            SchedulerFault::Killed => {}
            SchedulerFault::Cut => cluster.network.mend(&one),
            SchedulerFault::Paused => leader.signal(Signal::CONT),
        }
        cluster.bench.write("go", "");
        cluster.says(&worker, &["wait", &run]);
        assert_eq!(cluster.bench.read("begun").lines().count(), 1, "{}", cluster.said());
        [leader, standby].iter().for_each(Process::kill);
        cluster.start_over(&[&worker]);
    }
}

#[test]
fn no_step_notices_that_the_database_is_restarted() {
    let Some(mut cluster) = Cluster::with_lease(LONG_LEASE) else { return };
    let (lead, one) = (cluster.machine("lead"), cluster.machine("one"));
    cluster.scheduler(&lead);
    cluster.worker(&one);
    for _ in 0..rounds(1, 50) {
        let run = cluster.says(&lead, &["submit", "flow.toml"]).trim().to_owned();
        cluster.await_line("begun", |_| true);
        cluster.database.crash();
        cluster.database.start();
        let killed = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE application_name = 'windlass'";
        cluster.database.sql(killed);
        cluster.bench.write("go", "");
        cluster.says(&lead, &["wait", &run]);
        assert_eq!(cluster.bench.read("begun").lines().count(), 1, "{}", cluster.said());
        cluster.start_over(&[&lead, &one]);
    }
}

#[test]
fn all_workers_go_on_when_the_database_was_away_for_longer_than_a_lease() {
    let Some(mut cluster) = Cluster::new() else { return };
    let (lead, one, two) =
        (cluster.machine("lead"), cluster.machine("one"), cluster.machine("two"));
    cluster.scheduler(&lead);
    cluster.worker(&one);
    cluster.worker(&two);
    for _ in 0..rounds(1, 20) {
        let run = cluster.says(&lead, &["submit", "flow.toml"]).trim().to_owned();
        cluster.await_line("begun", |_| true);
        cluster.database.crash();
        let free = || {
            let mut tried = Command::new("flock");
            tried.arg("-n").arg(cluster.bench.path("overlap.lock")).arg("true");
            tried.status().expect("util-linux is installed").success()
        };
        cluster.eventually("the step is ended", free);
        cluster.database.start();
        cluster
            .eventually("it is tried again", || cluster.bench.read("begun").lines().count() == 2);
        cluster.check_history();
        cluster.bench.write("go", "");
        cluster.says(&lead, &["wait", &run]);
        let all_up = || {
            let said = cluster.says(&lead, &["workers"]);
            said.lines().filter(|line| line.contains(" up ")).count() == 2
        };
        cluster.eventually("all workers are there", all_up);
        cluster.start_over(&[&lead, &one, &two]);
    }
}

#[test]
fn a_run_in_the_foreground_is_resumed_on_its_own_machine() {
    let Some(mut cluster) = Cluster::new() else { return };
    let (one, two) = (cluster.machine("one"), cluster.machine("two"));
    cluster.start(&one, &["run", "flow.toml"]);
    cluster.await_line("begun", |_| true);
    one.lose_power();
    let refused = cluster.call(&two, &["resume", "last"]);
    let said = stderr(&refused);
    assert!(!refused.status.success() && said.contains("on one"), "{said}");
    cluster.bench.write("go", "");
    let one = cluster.machine("one");
    cluster.says(&one, &["resume", "last"]);
    assert_eq!(cluster.bench.read("ended").trim(), "one");
    cluster.check_history();
}

#[test]
fn clocks_that_jump_change_nothing() {
    let Some(mut cluster) = Cluster::with_clocks() else { return };
    let (one, two) = (cluster.machine("one"), cluster.machine("two"));
    cluster.scheduler(&one);
    cluster.worker(&two);
    let run = cluster.says(&one, &["submit", "flow.toml"]).trim().to_owned();
    cluster.await_line("begun", |_| true);
    let held =
        cluster.start(&one, &["lock", "y", "--heartbeat-timeout", LEASE, "--", "sleep", "1000"]);
    cluster.eventually("the lock is held", || cluster.says(&two, &["holders"]).contains("\"y\""));
    cluster.start(&two, &["lock", "y", "--", "touch", "stolen"]);
    for ahead in [3600, 0, -3600, 7200] {
        cluster.set_clocks(ahead);
        // All holders are heard of again and again, by whatever clock.
        let beat = || {
            cluster.database.sql(
                "SELECT min(heartbeat_ns) FROM windlass.lease WHERE kind IN ('lock', 'worker')",
            )
        };
        for _ in 0..8 {
            let last = beat();
            cluster.eventually("heartbeats go on", || beat() != last);
        }
        assert!(!cluster.bench.path("stolen").exists(), "{ahead}");
    }
    cluster.bench.write("go", "");
    cluster.says(&one, &["wait", &run]);
    assert_eq!(cluster.bench.read("begun").lines().count(), 1, "{}", cluster.said());
    held.signal(Signal::TERM);
    cluster.bench.await_file("stolen");
    cluster.check_history();
}

//! A limit that the steps of a fleet share, while its processes die.

use super::*;
use crate::bench::rounds;

const STEPS: usize = 16;
/// A step that holds one of two file locks for as long as any process of it is left.
const USE: &str = r#"
use = { "shared.gpu" = 1 }
run = '''
exec 8> slot.1 9> slot.2
flock -n 8 || flock -n 9 || echo "$(hostname)" >> overlaps
me=$(cat /proc/sys/kernel/random/uuid)
note() { echo "gpu/2 $me $1 $(cut -d' ' -f1 /proc/uptime)" >> intervals; }
note begin
sleep 0.2
note end
'''
"#;

/// What happens while the steps run, each once some more have begun.
#[derive(Clone, Copy, Debug)]
enum Fault {
    WorkerKilled,
    SchedulerKilled,
    DatabaseCrashed,
    WorkerPaused,
}

const FAULTS: [Fault; 4] =
    [Fault::WorkerKilled, Fault::SchedulerKilled, Fault::DatabaseCrashed, Fault::WorkerPaused];

#[test]
fn no_more_steps_than_a_limit_allows_run_while_processes_die() {
    let Some(mut cluster) = Cluster::new() else { return };
    let (lead, one, two) =
        (cluster.machine("lead"), cluster.machine("one"), cluster.machine("two"));
    cluster.says(&lead, &["limits", "set", "gpu=2"]);
    let steps = (0..STEPS).map(|number| format!("[step.s{number}]{USE}"));
    cluster.bench.write("flow.toml", &steps.collect::<String>());
    let mut scheduler = cluster.scheduler(&lead);
    let mut worker = cluster.worker(&one);
    let paused = cluster.worker(&two);
    for _ in 0..rounds(1, 30) {
        let run = cluster.says(&lead, &["submit", "flow.toml"]).trim().to_owned();
        for (number, fault) in FAULTS.into_iter().enumerate() {
            let begun = || cluster.bench.read("intervals").matches("begin").count();
            cluster.eventually("steps begin", || begun() > 2 * number);
            match fault {
                Fault::WorkerKilled => {
                    worker.signal(Signal::KILL);
                    worker = cluster.worker(&one);
                }
                Fault::SchedulerKilled => {
                    scheduler.signal(Signal::KILL);
                    scheduler = cluster.scheduler(&lead);
                }
                Fault::DatabaseCrashed => {
                    cluster.database.crash();
                    cluster.database.start();
                }
                Fault::WorkerPaused => paused.signal(Signal::STOP),
            }
        }
        let ended = || cluster.bench.read("intervals").matches("end").count();
        cluster.eventually("others go on", || ended() >= STEPS / 2);
        paused.signal(Signal::CONT);
        cluster.says(&lead, &["wait", &run]);
        assert!(ended() >= STEPS, "{}", cluster.bench.read("intervals"));
        cluster.start_over(&[&lead]);
    }
}

//! Disks of the database that are full for a while.

use super::*;
use crate::bench::rounds;

/// How many events are emitted while the disk is full. Eight fill a page of the database.
const EVENTS: usize = 24;
/// A step that prints a megabyte when the test wants it to end.
const PRINT: &str = r#"
[step.work]
run = '''
echo "$(hostname) $WINDLASS_ATTEMPT" >> begun
while [ ! -e go ]; do sleep 0.05; done
seq 100000 250000
'''
"#;

/// Returns a command that emits events one after the other, and tells of each that was acknowledged.
fn emitter(round: usize) -> String {
    let windlass = env!("CARGO_BIN_EXE_windlass");
    let padding = "x".repeat(900);
    format!(
        "for i in $(seq {EVENTS}); do {windlass} emit {round}-$i-{padding} || exit; echo $i >> emitted; done; \
         touch all-emitted"
    )
}

#[test]
fn no_step_notices_that_the_disk_of_the_database_is_full() {
    let Some(mut cluster) = Cluster::with_lease(LONG_LEASE) else { return };
    cluster.database.move_to_small_disk();
    let (lead, standby, one) =
        (cluster.machine("lead"), cluster.machine("standby"), cluster.machine("one"));
    cluster.bench.write("flow.toml", PRINT);
    cluster.scheduler(&lead);
    cluster.worker(&one);
    for round in 0..rounds(1, 50) {
        let run = cluster.says(&lead, &["submit", "flow.toml"]).trim().to_owned();
        cluster.await_line("begun", |_| true);
        cluster.database.fill_disk();
        let emitter = emitter(round);
        let lock = format!("events-{round}");
        cluster.start(&one, &["lock", &lock, "--", "sh", "-c", &emitter]);
        let other = cluster.scheduler(&standby);
        let waits = |machine: &Machine| cluster.said_by(machine).matches("No space left").count();
        cluster.eventually("the events wait", || waits(&one) > round);
        // The step ends meanwhile. There is no room for its end, unless a page has some left from the last round.
        let refused = || cluster.database.has_said("INSERT INTO report");
        let before = refused();
        cluster.bench.write("go", "");
        let has_ended = || cluster.says(&lead, &["show", &run]).contains("succeeded");
        cluster.eventually("its end waits", || refused() > before || has_ended());
        assert!(!cluster.bench.path("all-emitted").exists());
        cluster.database.free_disk();
        cluster.says(&lead, &["wait", &run]);
        cluster.bench.await_file("all-emitted");
        let events = cluster.says(&lead, &["events"]);
        for number in 1..=EVENTS {
            let event = format!("{round}-{number}-x");
            assert_eq!(events.matches(&event).count(), 1, "{event}: {events}");
        }
        assert_eq!(cluster.bench.read("begun").lines().count(), 1, "{}", cluster.said());
        let lines = || cluster.says(&lead, &["log", &format!("{run}/work")]).lines().count();
        cluster.eventually("the log is complete", || lines() == 150_001);
        other.signal(Signal::TERM);
        for file in ["all-emitted", "emitted"] {
            let _ = fs::remove_file(cluster.bench.path(file));
        }
        cluster.start_over(&[&lead, &one]);
    }
}

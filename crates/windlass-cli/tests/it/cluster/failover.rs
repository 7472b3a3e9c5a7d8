//! Fail-overs: a standby takes the place of the database.

use super::database::Standby;
use super::*;
use crate::bench::rounds;

/// A cluster whose database has a standby.
fn cluster(standby: Standby) -> Option<(Cluster, Database)> {
    let mut cluster = Cluster::with_lease("8s")?;
    let other = cluster.network.machine("standby");
    let other = Database::standby_of(&cluster.database, other, standby);
    cluster.url = url_of(&[&cluster.database, &other]);
    Some((cluster, other))
}

fn token(cluster: &Cluster, machine: &Machine, lock: &str) -> u64 {
    let fence = cluster.says(machine, &["lock", lock, "--", "sh", "-c", "echo $WINDLASS_FENCE"]);
    fence.trim().parse().expect("a token")
}

#[test]
fn a_synchronous_standby_has_all_that_was_acknowledged_and_no_step_notices() {
    for _ in 0..rounds(1, 50) {
        let Some((mut cluster, standby)) = cluster(Standby::Synchronous) else { return };
        let (one, two) = (cluster.machine("one"), cluster.machine("two"));
        cluster.scheduler(&one);
        cluster.worker(&two);
        let run = cluster.says(&one, &["submit", "flow.toml"]).trim().to_owned();
        cluster.await_line("begun", |_| true);
        let before = token(&cluster, &one, "y");
        for number in 0..20 {
            cluster.says(&one, &["emit", &format!("event-{number}")]);
        }
        cluster.database.crash();
        standby.promote();
        cluster.bench.write("go", "");
        cluster.says(&one, &["wait", &run]);
        assert_eq!(cluster.bench.read("begun").lines().count(), 1, "{}", cluster.said());
        let events = cluster.says(&one, &["events"]);
        assert!((0..20).all(|number| events.contains(&format!("event-{number}"))), "{events}");
        assert!(token(&cluster, &one, "y") > before);
        cluster.check_history_in(&standby);
    }
}

#[test]
fn what_an_asynchronous_standby_lacks_is_ended_and_done_again() {
    for _ in 0..rounds(1, 20) {
        let Some((mut cluster, standby)) = cluster(Standby::Asynchronous) else { return };
        let (one, two) = (cluster.machine("one"), cluster.machine("two"));
        cluster.bench.write("flow.toml", &format!("{STEP}lock = \"gate\"\n"));
        cluster.scheduler(&one);
        cluster.worker(&two);
        let gate = ["lock", "gate", "--heartbeat-timeout", LEASE, "--", "sleep", "1000"];
        let gate = cluster.start(&one, &gate);
        cluster.eventually("the lock is held", || {
            cluster.says(&two, &["holders"]).contains("\"gate\"")
        });
        let run = cluster.says(&one, &["submit", "flow.toml"]).trim().to_owned();
        cluster
            .eventually("the step waits", || cluster.says(&one, &["holders"]).contains("wanted"));
        cluster.says(&one, &["emit", "kept"]);
        let at = cluster.database.sql("SELECT pg_current_wal_lsn()");
        let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{at}'");
        cluster.eventually("the standby has that", || standby.sql(&replayed) == "t");
        cluster.network.cut(standby.machine());
        // From here on everything is lost: the end of the hold, the start of the step, a token.
        gate.signal(Signal::TERM);
        cluster.await_line("begun", |_| true);
        let before = token(&cluster, &one, "y");
        cluster.database.crash();
        cluster.network.mend(standby.machine());
        standby.promote();
        cluster.eventually("the step begins again", || {
            cluster.bench.read("begun").lines().count() == 2
        });
        cluster.bench.write("go", "");
        cluster.says(&one, &["wait", &run]);
        assert_eq!(cluster.bench.read("ended").lines().count(), 1, "{}", cluster.said());
        assert!(token(&cluster, &one, "y") > before);
        let events = cluster.says(&one, &["events"]);
        assert!(events.contains("kept"), "{events}");
        cluster.check_history_in(&standby);
    }
}

#[test]
fn a_step_whose_end_an_asynchronous_standby_lacks_runs_again() {
    let Some((mut cluster, standby)) = cluster(Standby::Asynchronous) else { return };
    let (one, two) = (cluster.machine("one"), cluster.machine("two"));
    cluster.scheduler(&one);
    cluster.worker(&two);
    let run = cluster.says(&one, &["submit", "flow.toml"]).trim().to_owned();
    cluster.await_line("begun", |_| true);
    let at = cluster.database.sql("SELECT pg_current_wal_lsn()");
    let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{at}'");
    cluster.eventually("the standby has that", || standby.sql(&replayed) == "t");
    cluster.network.cut(standby.machine());
    cluster.bench.write("go", "");
    cluster.says(&one, &["wait", &run]);
    // A worker that has not heard that its report was taken reports again, and nothing would be lost.
    let store = cluster.database.sql("SELECT id FROM windlass.meta");
    let ledger = format!("home-two/windlass/databases/{store}/workers/two/ends");
    let length = || fs::metadata(cluster.bench.path(&ledger)).map(|file| file.len());
    cluster.eventually("the worker knows that its report was taken", || {
        length().is_ok_and(|length| length == 0)
    });
    cluster.database.crash();
    cluster.network.mend(standby.machine());
    standby.promote();
    cluster.says(&one, &["wait", &run]);
    assert_eq!(cluster.bench.read("ended").lines().count(), 2, "{}", cluster.said());
    cluster.check_history_in(&standby);
    let said = cluster.says(&one, &["workers"]);
    assert!(said.contains(" up "), "{said}");
    assert!(!cluster.said().contains("begins again"), "{}", cluster.said());
}

#[test]
fn a_run_in_the_foreground_ends_with_a_fail_over_and_can_be_resumed() {
    let Some((mut cluster, standby)) = cluster(Standby::Synchronous) else { return };
    let one = cluster.machine("one");
    cluster.start(&one, &["run", "flow.toml"]);
    cluster.await_line("begun", |_| true);
    cluster.database.crash();
    standby.promote();
    cluster.bench.write("go", "");
    let mut run = cluster.children.pop().expect("it was started");
    let code = run.wait().expect("it ends").code();
    assert_eq!(code, Some(69), "{}", cluster.said());
    cluster.says(&one, &["resume", "last"]);
    cluster.check_history_in(&standby);
    let shown = cluster.says(&one, &["show", "last"]);
    assert!(shown.contains("succeeded"), "{shown}");
}

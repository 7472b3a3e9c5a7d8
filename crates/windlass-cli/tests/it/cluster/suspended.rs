//! A scheduler that is suspended in the middle of a transaction, which keeps out all other writers.

use super::*;
use crate::bench::rounds;

/// Has a transaction that orders something stand still, until a table is empty.
const HOLD_UP: &str = r"
CREATE TABLE public.held_up (one INTEGER);
CREATE FUNCTION public.hold_up() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WHILE EXISTS (SELECT FROM public.held_up) LOOP PERFORM pg_sleep(0.01); END LOOP;
    RETURN NULL;
END $$;
CREATE TRIGGER hold_up AFTER INSERT ON windlass.work_order
    FOR EACH STATEMENT EXECUTE FUNCTION public.hold_up()";
/// Within how many leases a standby leads, and as much again for this machine, which may be busy.
const PROMISED: u32 = 2;
const ROOM: u32 = 2;

/// Suspends `leader` while the database executes a statement of a transaction in which it orders something.
/// Returns the number of the transaction, which has written and cannot have ended.
fn suspend_inside(cluster: &Cluster, leader: &Process, machine: &Machine) -> String {
    let sql = |statement: &str| cluster.database.sql(statement);
    let held_up = format!(
        "SELECT backend_xid FROM pg_stat_activity WHERE client_addr = '{}' AND wait_event = 'PgSleep'",
        machine.address()
    );
    cluster.eventually("the scheduler orders something", || !sql(&held_up).is_empty());
    leader.signal(Signal::STOP);
    let number = sql(&held_up);
    sql("DELETE FROM public.held_up");
    number
}

#[test]
fn a_standby_leads_when_the_scheduler_is_suspended_inside_a_transaction_and_no_step_notices() {
    let Some(mut cluster) = Cluster::new() else { return };
    let worker = cluster.machine("worker");
    cluster.worker_with_lease(&worker, LONG_LEASE);
    cluster.database.sql(HOLD_UP);
    cluster.bench.write("other.toml", "[step.a]\nrun = 'echo $WINDLASS_ATTEMPT >> other'");
    for round in 0..rounds(1, 200) {
        let mut machine = |name: &str| cluster.machine(&format!("{name}-{round}"));
        let (one, two) = (machine("one"), machine("two"));
        let leader = cluster.scheduler(&one);
        let run = cluster.says(&worker, &["submit", "flow.toml"]).trim().to_owned();
        cluster.await_line("begun", |_| true);
        let standby = cluster.scheduler(&two);
        cluster.eventually("the other stands by", || cluster.said_by(&two).contains("stands by"));
        let lead = || {
            let held = "SELECT max(token) FROM windlass.lease WHERE kind = 'scheduler'";
            cluster.database.sql(held)
        };
        let before = lead();
        cluster.database.sql("INSERT INTO public.held_up VALUES (1)");
        let other = cluster.says(&worker, &["submit", "other.toml"]).trim().to_owned();
        let number = suspend_inside(&cluster, &leader, &one);
        let began = Instant::now();
        cluster.eventually("the standby leads", || lead() != before);
        let took = began.elapsed();
        assert!(took < lease() * (PROMISED + ROOM), "{took:?}: {}", cluster.said());
        cluster.says(&worker, &["wait", &other]);
        leader.signal(Signal::CONT);
        cluster
            .eventually("the first one stands by", || cluster.said_by(&one).contains("stands by"));
        let outcome = format!("SELECT pg_xact_status('{number}'::xid8)");
        assert_eq!(
            cluster.database.sql(&outcome),
            "aborted",
            "what the first one wrote is refused"
        );
        cluster.bench.write("go", "");
        cluster.says(&worker, &["wait", &run]);
        assert_eq!(cluster.bench.read("begun").lines().count(), 1, "{}", cluster.said());
        assert_eq!(cluster.bench.read("other"), "1\n", "{}", cluster.said());
        [leader, standby].iter().for_each(Process::kill);
        cluster.start_over(&[&worker]);
    }
}

fn lease() -> Duration {
    let seconds = LEASE.strip_suffix('s').and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.expect("it has seconds"))
}

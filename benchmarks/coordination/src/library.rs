//! Acquiring and releasing through the library, with several processes at once.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use windlass_store::{Answer, Claim, Claimed, Durability, HolderId, Name, Need, Store};

use windlass_bench_report::Table;

pub(crate) fn run(pairs: usize, table: &mut Table) {
    for (durability, word) in [("full", "durable"), ("process", "as leases are")] {
        for processes in [1, 4, 8] {
            let rates = (0..5).map(|_| rate(processes, pairs / processes, durability)).collect();
            let work = format!("acquire + release, {word}, {processes} processes");
            table.add(&work, "windlass-store", "pairs/s", rates);
        }
    }
    let slowest = (0..5).map(|_| slowest(8, pairs / 8)).collect();
    table.add("worst wait for the store, 8 busy processes", "windlass-store", "ms", slowest);
}

fn start(dir: &Path, number: usize, pairs: usize, durability: &str) -> std::process::Child {
    let this = env::current_exe().expect("this program lies somewhere");
    let mut command = Command::new(this);
    command.arg("worker").arg(dir).arg(number.to_string()).arg(pairs.to_string()).arg(durability);
    command.stdout(Stdio::piped()).spawn().expect("this program starts")
}

/// Measures acquire–release pairs per second of all processes together, each with a lock of its own.
fn rate(processes: usize, pairs: usize, durability: &str) -> f64 {
    let dir = tempfile::tempdir().expect("a directory");
    drop(Store::open(dir.path()).expect("a store"));
    let began = Instant::now();
    let workers: Vec<_> =
        (0..processes).map(|number| start(dir.path(), number, pairs, durability)).collect();
    for worker in workers {
        assert!(worker.wait_with_output().expect("it ends").status.success());
    }
    (processes * pairs) as f64 / began.elapsed().as_secs_f64()
}

fn slowest(processes: usize, pairs: usize) -> f64 {
    let dir = tempfile::tempdir().expect("a directory");
    drop(Store::open(dir.path()).expect("a store"));
    let workers: Vec<_> =
        (0..processes).map(|number| start(dir.path(), number, pairs, "full")).collect();
    let slowest = workers.into_iter().map(|worker| {
        let output = worker.wait_with_output().expect("it ends");
        let text = String::from_utf8(output.stdout).expect("a number");
        text.trim().parse::<f64>().expect("a number")
    });
    slowest.fold(0.0, f64::max)
}

/// Acquires and releases a lock of its own, and prints the longest wait in milliseconds.
pub(crate) fn worker(arguments: &[String]) {
    let [dir, number, pairs, durability] = arguments else { panic!("four arguments") };
    let mut store = Store::open(Path::new(dir)).expect("a store");
    let (holder, name) = (HolderId::new(format!("w{number}")), Name::Lock(format!("n{number}")));
    let needs = [Need::one(name.clone())];
    let durability = if durability == "full" { Durability::Full } else { Durability::Process };
    let mut slowest = 0.0_f64;
    for _ in 0..pairs.parse::<usize>().expect("a number") {
        let began = Instant::now();
        let claim = Claim::new(&holder, &needs);
        let claimed =
            store.transact_with(durability, |t| t.leases().claim(&claim)).expect("it works");
        slowest = slowest.max(began.elapsed().as_secs_f64() * 1e3);
        let Claimed::Held(holds) = claimed else { panic!("no other process uses this lock") };
        let token = holds[0].token;
        let released =
            store.transact_with(durability, |t| t.leases().release(&name, &holder, token));
        assert_eq!(released.expect("it works"), Answer::Released);
    }
    println!("{slowest}");
}

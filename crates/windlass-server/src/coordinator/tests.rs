use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use windlass_store::{Answer, HolderId, Process, StoreError};

use super::*;

mod order;
mod power;
mod watched;

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process runs; one that only waits to be reaped has no command line any more.
fn runs(pid: &str) -> bool {
    let line = fs::read(format!("/proc/{}/cmdline", pid.trim()));
    line.is_ok_and(|line| !line.is_empty())
}

/// Takes the run away from whoever leads it in this process.
fn depose(store: &mut Store, run: &str) {
    let process = Process::current().expect("this is Linux");
    let holder = HolderId::new(format!("windlass[{}.{}]", process.pid, process.started));
    let name = Name::Run(run.to_owned());
    let released = store.transact(|transaction| transaction.release(&name, &holder, Token(1)));
    assert_eq!(released.expect("the store works"), Answer::Released, "it was led");
}

#[test]
fn a_run_that_cannot_go_on_leaves_no_step_running() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = || Store::open(&dir.path().join("state")).expect("a store");
    let text = "concurrency = 2\n\
        [step.a]\nrun = 'while ! test -e go; do sleep 0.01; done'\n\
        [step.b]\nrun = 'echo $$ > pid; touch begun; sleep 600'\n";
    let order = RunRecord {
        file: "flow.toml".to_owned(),
        text: text.to_owned(),
        dir: dir.path().to_owned(),
        ..RunRecord::default()
    };
    let coordinator = Coordinator::submit(open(), order);
    let coordinator = coordinator.expect("it can be submitted");
    let run = coordinator.run_id().to_owned();
    let leading = thread::spawn(move || coordinator.lead(|_| {}));
    let path = |name: &str| -> PathBuf { Path::new(dir.path()).join(name) };
    eventually("step b has begun", || path("begun").exists());

    depose(&mut open(), &run);
    fs::write(path("go"), "").expect("a file");
    let failed = leading.join().expect("it does not panic").expect_err("it was deposed");
    assert!(matches!(failed, RunError::Store(StoreError::StaleEpoch { .. })), "{failed}");
    let pid = fs::read_to_string(path("pid")).expect("step b wrote it");
    eventually("step b has ended", || !runs(&pid));
}

#[test]
fn a_request_is_heard_however_early_it_comes() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = || Store::open(&dir.path().join("state")).expect("a store");
    let order = RunRecord {
        file: "flow.toml".to_owned(),
        text: "[step.a]\nrun = 'touch begun; sleep 600'\n".to_owned(),
        dir: dir.path().to_owned(),
        ..RunRecord::default()
    };
    let coordinator = Coordinator::submit(open(), order).expect("it can be submitted");
    let run = coordinator.run_id().to_owned();
    let mut store = open();
    let leading = thread::spawn(move || coordinator.lead(|_| {}));
    // The step runs, and the bells of the run may not hang yet.
    let begun = dir.path().join("begun");
    while !begun.exists() {
        thread::yield_now();
    }
    ask(&mut store, &run, &Ask::Cancel(None)).expect("the store works");
    let end = leading.join().expect("it does not panic").expect("it is led to its end");
    assert_eq!(end, End::Cancelled);
}

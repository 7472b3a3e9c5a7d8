use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use windlass_store::{Answer, HolderId, Process, RunOutcome, StoreError};

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

/// A run of this file in `dir`, with its store beside it.
fn submitted(dir: &Path, text: &str) -> (Coordinator, Store) {
    let open = || Store::open(&dir.join("state")).expect("a store");
    let order = RunRecord {
        file: "flow.toml".to_owned(),
        text: text.to_owned(),
        dir: dir.to_owned(),
        ..RunRecord::default()
    };
    (Coordinator::submit(open(), order).expect("it can be submitted"), open())
}

#[test]
fn what_was_asked_of_a_run_ends_with_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut coordinator, mut store) = submitted(dir.path(), "[step.a]\nrun = 'true'\n");
    let run = coordinator.run_id().to_owned();
    let asked = |store: &mut Store| {
        let target = format!("run/{run}");
        store.look(|transaction| transaction.requests(&target)).expect("the store works").len()
    };
    ask(&mut store, &run, &Ask::Cancel(None)).expect("it has not ended");
    assert_eq!(asked(&mut store), 1);
    let end = RunEnd { at_ms: 1, outcome: RunOutcome::Failed };
    coordinator.give_up(Some(end)).expect("the store works");
    assert_eq!(asked(&mut store), 0, "whoever tries it again did not mean that");
    let late = ask(&mut store, &run, &Ask::Cancel(None)).expect_err("it has ended");
    assert!(matches!(late, RunError::Over { outcome: RunOutcome::Failed, .. }), "{late}");
    assert_eq!(asked(&mut store), 0);
}

#[test]
fn a_run_that_ended_or_was_forgotten_a_moment_ago_is_not_led_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = "[step.a]\nrun = 'true'\n[on]\nsuccess = 'echo called >> record'\n";
    let (coordinator, mut store) = submitted(dir.path(), text);
    // Those who will resume it have looked, and do not lead it yet.
    let looked = store.run(coordinator.run_id()).expect("it is stored");
    assert_eq!(coordinator.lead(|_| {}).expect("it is led to its end"), End::Succeeded);
    let resume = |store: &Store| {
        let store = store.another().expect("the store works");
        Coordinator::take_over_open(store, looked.clone()).err().expect("it is over")
    };
    for _ in 0..2 {
        let over = resume(&store);
        assert!(matches!(over, RunError::Over { outcome: RunOutcome::Succeeded, .. }), "{over}");
    }
    assert_eq!(fs::read_to_string(dir.path().join("record")).expect("it was called"), "called\n");
    store.transact(|transaction| transaction.delete_run(&looked.id)).expect("the store works");
    let gone = resume(&store);
    assert!(matches!(gone, RunError::Store(StoreError::UnknownRun { .. })), "{gone}");
}

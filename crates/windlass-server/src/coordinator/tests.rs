use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use windlass_core::{Name, Token};
use windlass_store::{Answer, HolderId, Process, RunOutcome, StoreError, Transaction};

use super::journal::Start;
use super::*;

mod doubles;
mod order;
mod power;
mod repeated;
mod run_loop;
mod stalled;
mod watched;

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns whether a process runs; one that only waits to be reaped has no command line any more.
fn runs(pid: &str) -> bool {
    let line = fs::read(format!("/proc/{}/cmdline", pid.trim()));
    line.is_ok_and(|line| !line.is_empty())
}

/// Takes the lead of the run away from this process.
fn depose(store: &mut Store, run: &str) {
    let process = Process::current().expect("this is Linux");
    let holder = HolderId::new(format!("windlass[{}]", process.id()));
    let name = Name::Run(run.to_owned());
    let released =
        store.transact(|transaction| transaction.leases().release(&name, &holder, Token(1)));
    assert_eq!(released.expect("the store works"), Answer::Released, "it was led");
}

#[test]
fn a_run_that_an_error_stops_leaves_no_step_running() {
    let dir = tempfile::tempdir().expect("a directory");
    let open = || Store::open(&dir.path().join("state")).expect("a store");
    let text = "concurrency = 2\n\
        [step.a]\nrun = 'while ! test -e go && kill -0 $PPID; do sleep 0.01; done'\n\
        [step.b]\nrun = 'echo $$ > pid; touch begun; while kill -0 $PPID; do sleep 0.01; done'\n";
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
    let path = |name: &str| dir.path().join(name);
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
        text: "[step.a]\nrun = 'touch begun; while kill -0 $PPID; do sleep 0.01; done'\n"
            .to_owned(),
        dir: dir.path().to_owned(),
        ..RunRecord::default()
    };
    let coordinator = Coordinator::submit(open(), order).expect("it can be submitted");
    let run = coordinator.run_id().to_owned();
    let mut store = open();
    let leading = thread::spawn(move || coordinator.lead(|_| {}));
    // The step runs, and the run may not have registered its wake-ups yet.
    let begun = dir.path().join("begun");
    while !begun.exists() {
        thread::yield_now();
    }
    ask(&mut store, &run, &[Ask::Cancel(None)]).expect("the store works");
    let end = leading.join().expect("it does not panic").expect("it is led to its end");
    assert_eq!(end, End::Cancelled);
}

/// Submits a run of `text` to the store in `state`, and returns its coordinator and its id.
fn submitted(dir: &Path, text: &str) -> (Coordinator, String) {
    let order = RunRecord {
        file: "flow.toml".to_owned(),
        text: text.to_owned(),
        dir: dir.to_owned(),
        ..RunRecord::default()
    };
    let store = Store::open(&dir.join("state")).expect("a store");
    let coordinator = Coordinator::submit(store, order).expect("it can be submitted");
    let run = coordinator.run_id().to_owned();
    (coordinator, run)
}

#[test]
fn a_run_that_ends_while_a_user_resumes_it_is_not_led_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let (coordinator, run) = submitted(dir.path(), "[step.a]\nrun = 'true'\n");
    let mut store = Store::open(&dir.path().join("state")).expect("a store");
    let record = store.run(&run).expect("it was submitted");
    let plan = plan_of(&record).expect("it can be read");
    let process = Process::current().expect("this is Linux");
    assert_eq!(coordinator.lead(|_| {}).expect("it is led to its end"), End::Succeeded);

    let mut go_on = |record: &RunRecord, expected| {
        store.transact(|transaction| {
            let (record, process) = (record.clone(), process.clone());
            let led = Leader::take_over(transaction, record, &plan, expected, process)?;
            Ok(led.map(drop))
        })
    };
    let over = go_on(&record, Expected::Open).expect("the store works").expect_err("it has ended");
    assert!(matches!(over, RunError::Over { .. }), "{over}");
    let pruned = RunRecord { id: "0".to_owned(), ..record };
    let gone = go_on(&pruned, Expected::Open).expect_err("there is no such run");
    assert!(matches!(gone, StoreError::UnknownRun { .. }), "{gone}");
    assert!(store.overview().expect("the store works").is_empty(), "no process leads anything");
}

#[test]
fn a_run_that_has_not_ended_is_left_alone_by_a_retry() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut coordinator, run) = submitted(dir.path(), "[step.a]\nrun = 'true'\n");
    coordinator.run.abandon(None).expect("the store works");
    let mut store = Store::open(&dir.path().join("state")).expect("a store");
    let before = store.facts(&run).expect("the store works");

    let again = Store::open(&dir.path().join("state")).expect("a store");
    let refused = Coordinator::retry(again, &run, &[]).err().expect("it has not ended");
    assert!(matches!(refused, RunError::NotOver { .. }), "{refused}");
    assert_eq!(store.facts(&run).expect("the store works"), before);
    assert!(store.overview().expect("the store works").is_empty(), "no process leads it");
}

#[test]
fn what_was_asked_of_a_run_too_late_is_not_left_for_its_retry() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut coordinator, run) = submitted(dir.path(), "[step.a]\nrun = 'true'\n");
    let mut store = Store::open(&dir.path().join("state")).expect("a store");
    let cancel = [Ask::Cancel(None)];
    ask(&mut store, &run, &cancel).expect("it has not ended");
    let end = RunEnd { at_ms: 1, outcome: RunOutcome::Failed };
    coordinator.run.abandon(Some(end)).expect("the store works");

    let asked = store.read(|transaction| transaction.requests().pending(&format!("run/{run}")));
    assert_eq!(asked.expect("the store works"), []);
    let refused = ask(&mut store, &run, &cancel).expect_err("it has ended");
    assert!(matches!(refused, RunError::Over { outcome: RunOutcome::Failed, .. }), "{refused}");
}

#[test]
fn a_step_whose_lock_was_lost_before_it_began_does_not_begin() {
    for lost in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let text = "[step.a]\nlock = 'x'\nrun = 'touch begun'\n";
        let (mut coordinator, _) = submitted(dir.path(), text);
        coordinator.run.take_in(&mut |_| {}).expect("the store works");
        let starts = coordinator.run.commit(&mut |_| {}).expect("the store works");
        // This process is stopped for a minute, and another process takes the lock.
        coordinator.run.state_mut().backdate_decisions(Duration::from_secs(60));
        for Start { grant, names, .. } in starts.iter().filter(|_| lost) {
            let (name, token) = &names[0];
            let holder = coordinator.run.state().identity().holder(*grant);
            let release =
                |transaction: &Transaction<'_>| transaction.leases().release(name, &holder, *token);
            let released = coordinator.run.journal_mut().store().transact(release);
            assert_eq!(released.expect("the store works"), Answer::Released);
        }
        coordinator.run.act(starts).expect("it goes on");
        let end = coordinator.lead(|_| {}).expect("it is led to its end");
        assert_eq!(end == End::Failed, lost);
        assert_eq!(dir.path().join("begun").exists(), !lost);
    }
}

#[test]
fn a_process_that_has_lost_the_lead_of_a_run_does_not_end_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (mut coordinator, run) = submitted(dir.path(), "[step.a]\nrun = 'true'\n");
    let mut store = Store::open(&dir.path().join("state")).expect("a store");
    depose(&mut store, &run);
    let end = RunEnd { at_ms: 1, outcome: RunOutcome::Failed };
    let refused = coordinator.run.abandon(Some(end)).expect_err("another process may lead it");
    assert!(matches!(refused, RunError::Store(StoreError::StaleEpoch { .. })), "{refused}");
    let stored = store.read(|transaction| transaction.runs().end(&run)).expect("the store works");
    assert_eq!(stored, None);
}

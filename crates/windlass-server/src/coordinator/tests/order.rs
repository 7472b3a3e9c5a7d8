//! In which order the disk, the steps and the watcher learn of an end.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::symlink;

use windlass_store::{DiskFault, Memory};

use super::super::journal::Pace;
use super::*;

const SYNCED: &str = "synced";

fn note(record: &Path, line: &str) {
    let file = File::options().create(true).append(true).open(record);
    writeln!(file.expect("a file"), "{line}").expect("room for a line");
}

/// Submits a run of this file in `dir`, where the steps write to `record`, and so does the store when it
/// is synced. Beside a file called `broken` the store cannot be synced.
fn coordinator(dir: &Path, text: &str) -> Coordinator {
    let (record, path) = (dir.join("record"), dir.join("broken"));
    let store = watched::store(&dir.join("state"), Memory::default(), move || {
        if path.exists() {
            let reason = DiskFault::Failing("the disk is gone".to_owned());
            return Err(StoreError::Fatal { path: path.clone(), reason });
        }
        note(&record, SYNCED);
        Ok(())
    });
    let order = RunRecord {
        file: "flow.toml".to_owned(),
        text: text.to_owned(),
        dir: dir.to_owned(),
        ..RunRecord::default()
    };
    Coordinator::submit(store, order).expect("it can be submitted")
}

/// Returns what happened in a run of this file, whose steps write their names: every step, every sync,
/// and every end that the watcher saw.
fn record_of(text: &str) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let record = dir.path().join("record");
    let end = coordinator(dir.path(), text).lead(|update| match update {
        Update::Changed(change) if change.state == WorkState::Success => {
            note(&record, &format!("{} is told", change.step));
        }
        _ => {}
    });
    assert_eq!(end.expect("it is led to its end"), End::Succeeded);
    let record = fs::read_to_string(&record).expect("the steps wrote there");
    record.lines().map(str::to_owned).collect()
}

#[track_caller]
fn assert_synced_between(record: &[String], first: &str, then: &str) {
    let place = |wanted: &str| record.iter().position(|line| line == wanted);
    let (first, then) = (place(first).expect("it ran"), place(then).expect("it followed"));
    assert!(record[first..then].iter().any(|line| line == SYNCED), "{record:#?}");
}

#[test]
fn what_follows_an_end_waits_until_the_disk_is_sure_of_it() {
    let chain = "[step.a]\nrun = 'echo a >> record'\n\
        [step.b]\nrun = 'echo b >> record'\nafter = ['a']\n";
    // The end of the first step is in the store, and not yet synced, when the other one begins.
    let beside = "concurrency = 1\n\
        [step.a]\nrun = 'echo a >> record'\n\
        [step.other]\nrun = 'echo other >> record'\n\
        [step.b]\nrun = 'echo b >> record'\nafter = ['a']\n";
    for text in [chain, beside] {
        let record = record_of(text);
        assert_synced_between(&record, "a", "b");
        assert_synced_between(&record, "a", "a is told");
        assert_synced_between(&record, "b", "b is told");
    }
}

#[test]
fn where_a_write_ahead_log_cannot_be_synced_the_store_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let step = |name: &str, after: &str| {
        format!("[step.{name}]\nafter = [{after}]\nrun = 'echo {name} >> record'\n")
    };
    let text = [step("a", ""), step("b", "'a'"), step("c", "'b'"), step("d", "'c'")].concat();
    let mut coordinator = coordinator(dir.path(), &text);
    coordinator.run.journal_mut().set_pace(Pace { streak: 0, hold: Duration::from_secs(600) });
    // It takes everything, and is sure of nothing.
    symlink("/dev/null", coordinator.run.state().identity().logs().join("write-ahead"))
        .expect("a link");
    assert_eq!(coordinator.lead(|_| {}).expect("it is led to its end"), End::Succeeded);
    let record = fs::read_to_string(dir.path().join("record")).expect("the steps wrote there");
    let record: Vec<_> = record.lines().map(str::to_owned).collect();
    for (first, then) in [("a", "b"), ("b", "c"), ("c", "d")] {
        assert_synced_between(&record, first, then);
    }
}

#[test]
fn quick_steps_share_the_syncs_of_the_store() {
    let chain =
        (1..12).map(|step| format!("[step.s{step}]\nafter = ['s{}']\nrun = 'true'\n", step - 1));
    let text = "[step.s0]\nrun = 'true'\n".to_owned() + &chain.collect::<String>();
    let syncs = |streak| {
        let dir = tempfile::tempdir().expect("a directory");
        let mut coordinator = coordinator(dir.path(), &text);
        coordinator.run.journal_mut().set_pace(Pace { streak, hold: Duration::from_secs(600) });
        assert_eq!(coordinator.lead(|_| {}).expect("it is led to its end"), End::Succeeded);
        fs::read_to_string(dir.path().join("record")).expect("the store was synced").lines().count()
    };
    let (together, alone) = (syncs(0), syncs(u32::MAX));
    assert!(together <= 3 && alone >= 12, "{together} and {alone} syncs");
}

#[test]
fn the_last_steps_share_a_sync_with_the_end_of_the_run() {
    let after = || {
        let record = record_of("[step.a]\nrun = 'echo a >> record'\n");
        record.into_iter().skip_while(|line| line != "a").collect::<Vec<_>>()
    };
    // On a busy machine its start may be synced by itself between its last word and its end.
    assert!((0..10).any(|_| after() == ["a", SYNCED, "a is told"]));
}

#[test]
fn an_order_that_cannot_be_started_is_reported() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(&dir.path().join("state")).expect("it can be made");
    let text = "[step.a]\nrun = 'true'\n\
        [step.b]\nrun = ['/no/such/program']\nafter = ['a']\n";
    let order = RunRecord {
        file: "flow.toml".to_owned(),
        text: text.to_owned(),
        dir: dir.path().to_owned(),
        ..RunRecord::default()
    };
    let coordinator = Coordinator::submit(store, order).expect("it can be submitted");
    let mut said = Vec::new();
    let end = coordinator.lead(|update| {
        if let Update::Changed(Change { step: "b", why: Some(why), log: Some(log), .. }) = update {
            said.push((why.clone(), fs::read_to_string(log).expect("there is a log")));
        }
    });
    assert_eq!(end.expect("it is led to its end"), End::Failed);
    let [(why, log)] = &said[..] else { panic!("{said:?}") };
    assert!(why.starts_with("the step cannot be started: /no/such/program: "), "{why}");
    assert!(log.contains(why), "{log}");
}

#[test]
fn what_is_made_ready_and_never_begins_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = "[step.a]\nrun = 'touch broken'\n\
        [step.b]\nrun = 'touch begun'\nafter = ['a']\n";
    let coordinator = coordinator(dir.path(), text);
    let logs = coordinator.run.state().identity().logs().to_owned();
    let end = coordinator.lead(|_| {});
    assert!(matches!(end, Err(RunError::Store(StoreError::Fatal { .. }))), "{end:?}");
    assert!(!dir.path().join("begun").exists(), "the disk is not sure of what is before it");
    let left = fs::read_dir(logs).expect("it is there").map(|file| file.expect("a file"));
    let left: Vec<_> = left.map(|file| file.file_name()).collect();
    assert_eq!(left, ["leader"], "neither a log nor a file that was to become one");
}

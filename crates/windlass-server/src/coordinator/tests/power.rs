//! What a loss of power leaves: the store and the write-ahead log as they were synced last.
//!
//! Whenever the store is synced, the test copies its files. Every step of a chain begins by putting that
//! copy and the log aside: this is what the disk has at that moment. All steps before this one must have
//! succeeded in it.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use windlass_store::{Network, Sqlite};

use super::super::journal::Pace;
use super::*;
use crate::look::{RunView, StepState, StepView};

const STEPS: usize = 24;
/// Puts aside what the disk has. The first sync of a log gives it its full length.
const ASIDE: &str = "rm -rf then-$1
cp -r $(readlink sure) then-$1
cd state
find runs -name write-ahead -size 128k -exec cp --parents '{}' ../then-$1 ';'
";

/// Returns a chain in which each step puts aside what the disk has. Some fail at first, so that there are
/// commits between the records of the log.
fn chain() -> String {
    let mut text = String::new();
    for step in 0..STEPS {
        let after = step.checked_sub(1).map(|before| format!("after = ['s{before}']\n"));
        let keys = match step % 7 {
            3 => "retry = { count = 1 }\n",
            5 => "when = 'true'\n",
            _ => "",
        };
        text += &format!("[step.s{step}]\n{}{keys}", after.unwrap_or_default());
        let fails = if step % 7 == 3 { "test \"$WINDLASS_ATTEMPT\" = 2" } else { "true" };
        text += &format!("run = 'sh aside {step}; {fails}'\n");
    }
    text
}

/// Returns how many of the steps before `step` had succeeded on the disk when it began, and how many of
/// these only the log knew.
fn sure_of(dir: &Path, step: usize) -> (usize, usize) {
    let state = dir.join(format!("then-{step}"));
    let successes = || {
        let mut store = Store::open(&state).expect("it can be opened");
        let view = RunView::find(&mut store, "last").expect("it was submitted");
        let succeeded = |step: &&StepView| matches!(step.state, StepState::Success);
        view.steps.iter().filter(succeeded).count()
    };
    let all = successes();
    let removed =
        Command::new("sh").arg("-c").arg("rm -f runs/*/write-ahead").current_dir(&state).status();
    assert!(removed.expect("there is a shell").success());
    (all, all - successes())
}

fn check(pace: Pace) {
    let dir = tempfile::tempdir().expect("a directory");
    let (state, copies) = (dir.path().join("state"), dir.path().to_owned());
    fs::write(dir.path().join("aside"), ASIDE).expect("a file");
    let sqlite = Sqlite::open(&state, Network::Refuse).expect("it can be made");
    let (files, number) =
        (["store.db", "store.db-wal"].map(|file| state.join(file)), AtomicU32::new(0));
    let store = watched::store(&state, sqlite, move || {
        // A step may put the copy before aside meanwhile, so the new one takes its place as a whole.
        let (link, next) = (copies.join("sure"), copies.join("next"));
        let copy = copies.join(format!("sure-{}", number.fetch_add(1, Ordering::Relaxed)));
        fs::create_dir(&copy).expect("a directory");
        for from in &files {
            fs::copy(from, copy.join(from.file_name().expect("a file"))).expect("there is room");
        }
        symlink(&copy, &next).and_then(|()| fs::rename(next, link)).expect("a link");
        Ok(())
    });
    let order = RunRecord {
        file: "flow.toml".to_owned(),
        text: chain(),
        dir: dir.path().to_owned(),
        ..RunRecord::default()
    };
    let mut coordinator = Coordinator::submit(store, order).expect("it can be submitted");
    coordinator.run.journal_mut().set_pace(pace);
    assert_eq!(coordinator.lead(|_| {}).expect("it is led to its end"), End::Succeeded);
    let mut only_in_log = 0;
    for step in 0..STEPS {
        let (all, in_log) = sure_of(dir.path(), step);
        assert_eq!(all, step, "what s{step} follows");
        only_in_log += in_log;
    }
    assert!(only_in_log > 0, "the write-ahead log had more than the store");
}

#[test]
fn what_a_step_follows_survives_a_loss_of_power_where_the_store_is_late() {
    check(Pace { streak: 0, hold: Duration::from_secs(600) });
}

#[test]
fn what_a_step_follows_survives_a_loss_of_power_where_the_store_is_quick() {
    check(Pace { streak: 0, hold: Duration::from_millis(1) });
}

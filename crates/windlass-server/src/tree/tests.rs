use std::process::{Command, Stdio};

use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::*;
use crate::spawn::{GroupChoice, Spawned, spawn};

/// A word that no other test run on this machine uses.
fn own(word: &str) -> String {
    format!("{}-{word}", std::process::id())
}

fn tree(word: &str) -> ProcessTree {
    ProcessTree { mark: mark(&own(word)), group: None }
}

fn found(tree: &ProcessTree) -> io::Result<Vec<Process>> {
    Ok(members(&[Wanted { tree, roots: &[] }])?.remove(0))
}

/// Starts a shell that says when it is ready, and waits for that.
fn start(word: &str, script: &str) -> Spawned {
    use std::io::Read;
    let mut command = Command::new("sh");
    command.args(["-c", script]).env(MARKS, marks_with(&own(word))).stdout(Stdio::piped());
    let mut child = spawn(&mut command, GroupChoice::Own, &own(word)).expect("sh runs");
    let mut ready = [0];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut ready).expect("it says so");
    child
}

#[test]
fn whatever_carries_the_mark_is_ended_also_in_another_session() {
    let script = "setsid sleep 600 & sleep 600 & (sleep 600 & exec sleep 600) & echo; wait";
    let mut child = start("tree-test-1", script);
    let tree = tree("tree-test-1");
    assert!(!found(&tree).expect("they can be listed").is_empty());
    end(&tree).expect("they end");
    assert!(found(&tree).expect("they can be listed").is_empty());
    child.wait().expect("it was killed");
}

#[test]
fn whoever_has_no_mark_is_found_by_its_group_and_its_parents() {
    let script = "env -i sleep 600 & env -i setsid sleep 600 & echo; wait";
    let mut child = start("tree-test-2", script);
    let group = group_of(child.id());
    assert!(group.is_some(), "it leads a group");
    let tree = ProcessTree { mark: "WINDLASS_LEASES=nobody".to_owned(), group };
    let many = found(&tree).expect("they can be listed").len();
    assert!(many >= 2, "{many}");
    end(&tree).expect("they end");
    assert!(found(&tree).expect("they can be listed").is_empty());
    child.wait().expect("it was killed");
}

#[test]
fn a_word_is_not_taken_for_another_that_begins_alike() {
    let mut child = start("tree-test-33", "echo; exec sleep 600");
    assert!(found(&tree("tree-test-3")).expect("they can be listed").is_empty());
    end(&tree("tree-test-33")).expect("it ends");
    child.wait().expect("it was killed");
}

#[test]
fn a_group_whose_number_is_used_again_is_left_alone() {
    let mut child = start("tree-test-4", "echo; exec sleep 600");
    let mut group = group_of(child.id()).expect("it leads a group");
    group.started += 1;
    let other = ProcessTree { mark: "WINDLASS_LEASES=nobody".to_owned(), group: Some(group) };
    end(&other).expect("there is nothing to end");
    assert!(child.try_wait().expect("it can be asked").is_none(), "it lives");
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
}

#[test]
fn what_an_ended_leader_left_in_its_group_is_found() {
    let mut child = start("tree-test-6", "env -i sleep 600 & echo");
    let number = pid(child.id()).expect("a child has a number");
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(number), options).expect("it ends");
    let group = group_of(child.id());
    assert!(group.is_some(), "its number is its own until it is reaped");
    let tree = ProcessTree { mark: "WINDLASS_LEASES=nobody".to_owned(), group };
    assert_eq!(found(&tree).expect("they can be listed").len(), 1);
    end(&tree).expect("it ends");
    assert!(found(&tree).expect("they can be listed").is_empty());
    child.wait().expect("it has ended");
}

#[test]
fn a_process_that_is_just_becoming_another_program_carries_its_mark_all_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("again.sh");
    fs::write(&script, "exec sh \"$0\"\n").expect("room for a line");
    // The more it carries, the longer it takes to become another.
    let load = "eval \"$(seq -f 'export V%.0f=x' 3000)\"";
    let mut child = start("tree-test-7", &format!("{load}; echo; exec sh {}", script.display()));
    let (pid, word) = (child.id(), own("tree-test-7").into_bytes());
    for look in 0..2000 {
        assert!(words(pid, MARKS).expect("it can be read").contains(&word), "look {look}");
    }
    end(&tree("tree-test-7")).expect("it ends");
    child.wait().expect("it was killed");
}

#[test]
fn a_process_without_an_environment_carries_nothing() {
    let mut child = start("tree-test-8", "exec env -i sh -c 'echo; exec sleep 600'");
    assert!(words(child.id(), MARKS).expect("it can be read").is_empty());
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
}

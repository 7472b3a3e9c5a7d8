use std::fs;
use std::process::{Command, Stdio};

use rustix::process::{WaitId, WaitIdOptions, waitid};

use super::*;
use crate::proc_fs::{group_of, tags};
use crate::process_tag::{self, TAG_VARIABLE};
use crate::spawn::{GroupChoice, Spawned, spawn};

/// Returns a tag that no other run of the tests uses.
fn own(tag: &str) -> String {
    format!("{}-{tag}", std::process::id())
}

fn tree(tag: &str) -> ProcessTree {
    process_tag::tree_of(&own(tag))
}

fn found(tree: &ProcessTree) -> io::Result<Vec<Process>> {
    Ok(members(&[Wanted { tree, roots: &[] }])?.remove(0))
}

/// Starts a shell, and waits until it prints something.
fn start(tag: &str, script: &str) -> Spawned {
    use std::io::Read;
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .env(TAG_VARIABLE, process_tag::inherited_with(&own(tag)))
        .stdout(Stdio::piped());
    let mut child = spawn(&mut command, GroupChoice::Own, &own(tag)).expect("sh runs");
    let mut ready = [0];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut ready).expect("it says so");
    child
}

#[test]
fn processes_with_the_tag_are_killed_also_in_another_session() {
    let script = "setsid sleep 600 & sleep 600 & (sleep 600 & exec sleep 600) & echo; wait";
    let mut child = start("tree-test-1", script);
    let tree = tree("tree-test-1");
    assert!(!found(&tree).expect("they can be listed").is_empty());
    kill(&tree).expect("they end");
    assert!(found(&tree).expect("they can be listed").is_empty());
    child.wait().expect("it was killed");
}

#[test]
fn processes_without_the_tag_are_found_by_their_group_and_their_parents() {
    let script = "env -i sleep 600 & env -i setsid sleep 600 & echo; wait";
    let mut child = start("tree-test-2", script);
    let group = group_of(child.id());
    assert!(group.is_some(), "it leads a group");
    let tree = ProcessTree { group, ..process_tag::tree_of("unused") };
    let many = found(&tree).expect("they can be listed").len();
    assert!(many >= 2, "{many}");
    kill(&tree).expect("they end");
    assert!(found(&tree).expect("they can be listed").is_empty());
    child.wait().expect("it was killed");
}

#[test]
fn a_tag_does_not_match_another_that_begins_with_it() {
    let mut child = start("tree-test-33", "echo; exec sleep 600");
    assert!(found(&tree("tree-test-3")).expect("they can be listed").is_empty());
    kill(&tree("tree-test-33")).expect("it ends");
    child.wait().expect("it was killed");
}

#[test]
fn a_group_whose_number_is_used_again_is_not_signalled() {
    let mut child = start("tree-test-4", "echo; exec sleep 600");
    let mut group = group_of(child.id()).expect("it leads a group");
    group.started += 1;
    let other = ProcessTree { group: Some(group), ..process_tag::tree_of("unused") };
    kill(&other).expect("there is nothing to end");
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
    let tree = ProcessTree { group, ..process_tag::tree_of("unused") };
    assert_eq!(found(&tree).expect("they can be listed").len(), 1);
    kill(&tree).expect("it ends");
    assert!(found(&tree).expect("they can be listed").is_empty());
    child.wait().expect("it has ended");
}

#[test]
fn a_process_that_executes_another_program_carries_its_tag_all_the_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("again.sh");
    fs::write(&script, "exec sh \"$0\"\n").expect("room for a line");
    // The larger the environment, the longer an exec takes.
    let load = "eval \"$(seq -f 'export V%.0f=x' 3000)\"";
    let mut child = start("tree-test-7", &format!("{load}; echo; exec sh {}", script.display()));
    let (pid, tag) = (child.id(), own("tree-test-7").into_bytes());
    for read in 0..2000 {
        assert!(tags(pid).expect("it can be read").contains(&tag), "read {read}");
    }
    kill(&tree("tree-test-7")).expect("it ends");
    child.wait().expect("it was killed");
}

#[test]
fn a_process_without_an_environment_carries_nothing() {
    let mut child = start("tree-test-8", "exec env -i sh -c 'echo; exec sleep 600'");
    assert!(tags(child.id()).expect("it can be read").is_empty());
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
}

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::ptr;
use std::thread;

use rustix::process::{Signal, WaitId, WaitIdOptions, set_parent_process_death_signal, waitid};

use super::*;
use crate::limit_tag::NewTag;
use crate::proc_fs::{group_of, tags};
use crate::process_tag::{self, TAG_VARIABLE};
use crate::spawn::{GroupChoice, Spawned, spawn, spawn_lasting};

/// Returns a tag that no other run of the tests uses.
fn own(tag: &str) -> String {
    format!("{}-{tag}", std::process::id())
}

fn tree(tag: &str) -> ProcessTree {
    process_tag::tree_of(&own(tag))
}

fn found(tree: &ProcessTree) -> io::Result<Vec<Process>> {
    Ok(search::members(&[Wanted { tree, roots: &[] }], |_, _| ())?.of_trees.remove(0))
}

/// Starts a shell, and waits until it prints something. `cat <&3` in its script waits for ever, but ends with
/// the process of the test.
fn start(tag: &str, script: &str) -> Spawned {
    use std::io::Read;
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("exec 3<&0\n{script}")])
        .stdin(Stdio::piped())
        .env(TAG_VARIABLE, process_tag::inherited_with(&own(tag)))
        .stdout(Stdio::piped());
    let mut child = spawn(&mut command, GroupChoice::Own, &own(tag)).expect("sh runs");
    let mut ready = [0];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut ready).expect("it says so");
    child
}

#[test]
fn processes_with_the_tag_are_killed_also_in_another_session() {
    let script = "setsid cat <&3 & cat <&3 & (cat <&3 & exec cat <&3) & echo; wait";
    let mut child = start("tree-test-1", script);
    let tree = tree("tree-test-1");
    assert!(!found(&tree).expect("they can be listed").is_empty());
    kill(&tree).expect("they end");
    assert!(found(&tree).expect("they can be listed").is_empty());
    child.wait().expect("it was killed");
}

#[test]
fn processes_without_the_tag_are_found_by_their_group_and_their_parents() {
    let script = "env -i cat <&3 & env -i setsid cat <&3 & echo; wait";
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
    let mut child = start("tree-test-33", "echo; exec cat <&3");
    assert!(found(&tree("tree-test-3")).expect("they can be listed").is_empty());
    kill(&tree("tree-test-33")).expect("it ends");
    child.wait().expect("it was killed");
}

#[test]
fn a_group_whose_number_is_used_again_is_not_signalled() {
    let mut child = start("tree-test-4", "echo; exec cat <&3");
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
    let mut child = start("tree-test-6", "env -i cat <&3 & echo");
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
    let mut child = start("tree-test-8", "exec env -i sh -c 'echo; exec cat <&3'");
    assert!(tags(child.id()).expect("it can be read").is_empty());
    child.kill().expect("it can be killed");
    child.wait().expect("it was killed");
}

/// Has the process of `command` end its first thread instead of executing its program, while another thread
/// waits.
#[allow(unsafe_code)]
fn end_first_thread(command: &mut Command, tag: NewTag) {
    extern "C" fn wait(_: *mut libc::c_void) -> libc::c_int {
        loop {
            // SAFETY: a plain system call.
            unsafe { libc::pause() };
        }
    }
    let flags = libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD | libc::CLONE_FILES;
    let mut stack = vec![0_u128; 4096];
    let end = move || {
        tag.set();
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let top = stack.as_mut_ptr_range().end.cast();
        // SAFETY: the stack stays as it is, because this process never returns from here. What is called are
        // plain system calls. The files that are closed include the pipe that tells the parent of the exec.
        unsafe {
            libc::clone(wait, top, flags, ptr::null_mut());
            libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
            libc::syscall(libc::SYS_exit, 0);
        }
        unreachable!("the thread has ended");
    };
    // SAFETY: `end` neither allocates nor takes locks.
    unsafe { command.pre_exec(end) };
}

#[test]
fn a_process_whose_first_thread_has_ended_is_found_and_killed() {
    let mut command = Command::new("true");
    let tag = NewTag::for_child(&own("tree-test-9")).expect("there is no hard limit");
    end_first_thread(&mut command, tag);
    let mut child = spawn_lasting(&mut command).expect("it runs");
    let first_thread = format!("/proc/{0}/task/{0}/stat", child.id());
    while !fs::read_to_string(&first_thread).expect("it is not reaped").contains(") Z ") {
        thread::yield_now();
    }
    assert_eq!(found(&tree("tree-test-9")).expect("they can be listed").len(), 1);
    kill(&tree("tree-test-9")).expect("it ends");
    assert!(found(&tree("tree-test-9")).expect("they can be listed").is_empty());
    assert_eq!(child.wait().expect("it was killed").code(), None);
}

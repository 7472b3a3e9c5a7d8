use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::spawn::{Spawned, spawn_lasting};
use crate::tree::{MARKS, group_of, mark, marks_with};

/// Starts a shell in a group of its own that says when it is ready, and waits for that.
fn start(word: &str, script: &str) -> Spawned {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("sh");
    command.args(["-c", script]).env(MARKS, marks_with(&own(word))).stdout(Stdio::piped());
    let mut child = spawn_lasting(command.process_group(0)).expect("sh runs");
    child.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("it says so");
    child
}

/// A word that no other test run on this machine uses.
fn own(word: &str) -> String {
    format!("{}-{word}", std::process::id())
}

fn condemned(number: u32, word: &str, child: &Spawned, plan: KillPlan) -> Condemned {
    let tree = ProcessTree { mark: mark(&own(word)), group: group_of(child.id()) };
    Condemned { job: Job::Hook(number), tree, roots: Vec::new(), plan }
}

fn ender() -> (Ender, Receiver<Gone>) {
    let (tell, told) = channel();
    let ender = Ender::start(move |gone| tell.send(gone).expect("the test listens"));
    (ender.expect("it can be started"), told)
}

#[track_caller]
fn gone(told: &Receiver<Gone>, number: u32) {
    let gone = told.recv_timeout(Duration::from_secs(60)).expect("it is told");
    assert_eq!((gone.job, gone.left), (Job::Hook(number), Vec::new()));
}

const LONG: Duration = Duration::from_secs(600);
/// Ends itself only by SIGKILL, and so does its child.
const DEAF: &str = "trap '' TERM; (exec sleep 600) & echo; while :; do sleep 0.05; done";

#[test]
fn a_tree_that_ends_when_asked_is_told_at_once_while_others_use_their_grace() {
    let (ender, told) = ender();
    let mut deaf = start("ender-1", DEAF);
    let mut polite = start("ender-2", "setsid sleep 600 & echo; exec sleep 600");
    ender.end(condemned(1, "ender-1", &deaf, KillPlan::ask(LONG)));
    ender.end(condemned(2, "ender-2", &polite, KillPlan::ask(LONG)));
    gone(&told, 2);
    polite.wait().expect("it was asked to end");
    assert!(deaf.try_wait().expect("it can be asked").is_none(), "it has its grace");
    ender.hasten(Job::Hook(1), KillPlan::kill());
    gone(&told, 1);
    deaf.wait().expect("it was killed");
    drop(ender);
    assert!(told.recv().is_err(), "nothing else is told");
}

#[test]
fn a_tree_whose_grace_is_over_is_killed() {
    let (ender, told) = ender();
    let mut deaf = start("ender-3", DEAF);
    ender.end(condemned(3, "ender-3", &deaf, KillPlan::ask(Duration::from_millis(20))));
    gone(&told, 3);
    deaf.wait().expect("it was killed");
}

#[test]
fn one_that_was_stopped_hears_that_it_has_to_end() {
    let (ender, told) = ender();
    let mut stopped = start("ender-4", "echo; kill -STOP $$; exec sleep 600");
    ender.end(condemned(4, "ender-4", &stopped, KillPlan::ask(LONG)));
    gone(&told, 4);
    stopped.wait().expect("it was asked to end");
}

#[test]
fn one_that_starts_others_all_the_time_does_not_get_away() {
    let (ender, told) = ender();
    let script = "trap '' TERM; echo; i=0; while test $i -lt 200; do \
        (setsid sh -c 'sleep 600 & sleep 600') & i=$((i + 1)); done; wait";
    let mut busy = start("ender-5", script);
    ender.end(condemned(5, "ender-5", &busy, KillPlan::kill()));
    gone(&told, 5);
    busy.wait().expect("it was killed");
}

#[test]
fn one_that_has_left_the_group_since_the_look_is_asked_by_itself() {
    let mut child = start("ender-6", "setsid sh -c 'echo; exec sleep 600' & exec sleep 600");
    let mut dying = Dying::new(condemned(6, "ender-6", &child, KillPlan::ask(LONG)));
    let found = tree::members(&[dying.condemned.wanted()]).expect("they can be listed").remove(0);
    let mut left =
        found.into_iter().find(|process| process.group != child.id()).expect("it is there");
    left.group = child.id();
    assert_eq!(dying.press(&[left]), None);
    poll(&[&dying.watched[0]], Some(Duration::from_secs(60))).expect("it can be waited for");
    assert_eq!(tree::look(left.pid), None, "it has ended");
    child.wait().expect("it was asked to end");
}

#[test]
fn a_tree_that_ends_by_itself_in_time_gets_no_signal() {
    let (ender, told) = ender();
    let mut slow = start("ender-7", "trap 'exit 7' TERM; echo; sleep 0.3; exit 0");
    ender.end(condemned(7, "ender-7", &slow, KillPlan::after(LONG, LONG)));
    let gone = told.recv_timeout(Duration::from_secs(60)).expect("it is reported");
    assert_eq!((gone.left, gone.signalled), (Vec::new(), Vec::new()));
    assert_eq!(slow.wait().expect("it has ended").code(), Some(0));
}

#[test]
fn a_tree_that_has_not_ended_by_itself_in_time_is_asked_and_named() {
    let (ender, told) = ender();
    let mut slow = start("ender-8", "echo; exec sleep 600");
    ender.end(condemned(8, "ender-8", &slow, KillPlan::after(Duration::from_millis(20), LONG)));
    let gone = told.recv_timeout(Duration::from_secs(60)).expect("it is reported");
    assert_eq!(gone.signalled, [format!("sleep ({})", slow.id())]);
    slow.wait().expect("it was asked to end");
}

#[test]
fn a_tree_that_may_linger_is_asked_at_once_when_it_has_to_hurry() {
    let (ender, told) = ender();
    let mut slow = start("ender-9", "echo; exec sleep 600");
    ender.end(condemned(9, "ender-9", &slow, KillPlan::after(LONG, LONG)));
    ender.hasten(Job::Hook(9), KillPlan::ask(LONG));
    gone(&told, 9);
    slow.wait().expect("it was asked to end");
}

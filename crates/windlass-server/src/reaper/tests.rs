use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use super::*;
use crate::proc_fs::group_of;
use crate::process_tag::{self, TAG_VARIABLE};
use crate::spawn::{Spawned, spawn_lasting};

/// Starts a shell in a group of its own that says when it is ready, and waits for that. `cat <&3` in its
/// script waits for ever, but ends with the process of the test.
fn start(word: &str, script: &str) -> Spawned {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("exec 3<&0\n{script}")])
        .stdin(Stdio::piped())
        .env(TAG_VARIABLE, process_tag::inherited_with(&own(word)))
        .stdout(Stdio::piped());
    let mut child = spawn_lasting(command.process_group(0)).expect("sh runs");
    child.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("it says so");
    child
}

/// Returns a word that no other test run on this machine uses.
fn own(word: &str) -> String {
    format!("{}-{word}", std::process::id())
}

fn request(number: u64, word: &str, child: &Spawned, plan: KillPlan) -> KillRequest {
    let tree = ProcessTree { group: group_of(child.id()), ..process_tag::tree_of(&own(word)) };
    KillRequest { job: Job(number), tree, roots: Vec::new(), plan }
}

fn reaper() -> (Reaper, Receiver<Gone>) {
    let (tell, told) = channel();
    let reaper = Reaper::start(move |gone| tell.send(gone).expect("the test listens"));
    (reaper.expect("it can be started"), told)
}

#[track_caller]
fn gone(told: &Receiver<Gone>, number: u64) {
    let gone = told.recv_timeout(Duration::from_secs(60)).expect("it is told");
    assert_eq!((gone.job, gone.left), (Job(number), Vec::new()));
}

const LONG: Duration = Duration::from_secs(600);
/// Ends itself only by SIGKILL, and so does its child.
const DEAF: &str = "trap '' TERM; (exec cat <&3) & echo; cat <&3";

#[test]
fn a_tree_that_ends_when_asked_is_reported_at_once_while_others_use_their_grace() {
    let (reaper, told) = reaper();
    let mut deaf = start("reaper-1", DEAF);
    let mut polite = start("reaper-2", "setsid cat <&3 & echo; exec cat <&3");
    reaper.end(request(1, "reaper-1", &deaf, KillPlan::ask(LONG)));
    reaper.end(request(2, "reaper-2", &polite, KillPlan::ask(LONG)));
    gone(&told, 2);
    polite.wait().expect("it was asked to end");
    assert!(deaf.try_wait().expect("it can be asked").is_none(), "it has its grace");
    reaper.hasten(Job(1), KillPlan::kill());
    gone(&told, 1);
    deaf.wait().expect("it was killed");
    drop(reaper);
    assert!(told.recv().is_err(), "nothing else is told");
}

#[test]
fn a_tree_whose_grace_is_over_is_killed() {
    let (reaper, told) = reaper();
    let mut deaf = start("reaper-3", DEAF);
    reaper.end(request(3, "reaper-3", &deaf, KillPlan::ask(Duration::from_millis(20))));
    gone(&told, 3);
    deaf.wait().expect("it was killed");
}

#[test]
fn one_that_was_stopped_hears_that_it_has_to_end() {
    let (reaper, told) = reaper();
    let mut stopped = start("reaper-4", "echo; kill -STOP $$; exec cat <&3");
    reaper.end(request(4, "reaper-4", &stopped, KillPlan::ask(LONG)));
    gone(&told, 4);
    stopped.wait().expect("it was asked to end");
}

#[test]
fn one_that_starts_others_all_the_time_does_not_get_away() {
    let (reaper, told) = reaper();
    let script = "trap '' TERM; echo; i=0; while test $i -lt 200; do \
        (setsid sh -c 'cat <&3 & cat <&3') & i=$((i + 1)); done; wait";
    let mut busy = start("reaper-5", script);
    reaper.end(request(5, "reaper-5", &busy, KillPlan::kill()));
    gone(&told, 5);
    busy.wait().expect("it was killed");
}

#[test]
fn a_process_that_has_left_the_group_is_signalled_by_itself() {
    let mut child = start("reaper-6", "setsid sh -c 'echo; exec cat <&3' & exec cat <&3");
    let mut dying = Dying::new(request(6, "reaper-6", &child, KillPlan::ask(LONG)));
    let found = search::members(&[dying.request.wanted()], |_, _| ()).expect("they can be listed");
    let mut left = found.of_trees[0]
        .iter()
        .copied()
        .find(|process| process.group != child.id())
        .expect("it is there");
    left.group = child.id();
    assert_eq!(dying.press(&[left]), None);
    // A process that ended before it could be watched is not watched.
    if let Some(watched) = dying.watched.first() {
        poll(&[watched], Some(Duration::from_secs(60))).expect("it can be waited for");
    }
    assert_eq!(proc_fs::alive(left.pid), None, "it has ended");
    child.wait().expect("it was asked to end");
}

#[test]
fn a_tree_that_ends_by_itself_in_time_gets_no_signal() {
    let (reaper, told) = reaper();
    let mut slow = start("reaper-7", "trap 'exit 7' TERM; echo; sleep 0.3; exit 0");
    reaper.end(request(7, "reaper-7", &slow, KillPlan::after(LONG, LONG)));
    let gone = told.recv_timeout(Duration::from_secs(60)).expect("it is reported");
    assert_eq!((gone.left, gone.signalled), (Vec::new(), Vec::new()));
    assert_eq!(slow.wait().expect("it has ended").code(), Some(0));
}

#[test]
fn a_tree_that_has_not_ended_by_itself_in_time_is_asked_and_named() {
    let (reaper, told) = reaper();
    let mut slow = start("reaper-8", "echo; exec cat <&3");
    reaper.end(request(8, "reaper-8", &slow, KillPlan::after(Duration::from_millis(20), LONG)));
    let gone = told.recv_timeout(Duration::from_secs(60)).expect("it is reported");
    assert_eq!(gone.signalled, [format!("cat ({})", slow.id())]);
    slow.wait().expect("it was asked to end");
}

#[test]
fn a_tree_that_may_linger_is_asked_at_once_when_it_has_to_hurry() {
    let (reaper, told) = reaper();
    let mut slow = start("reaper-9", "echo; exec cat <&3");
    reaper.end(request(9, "reaper-9", &slow, KillPlan::after(LONG, LONG)));
    reaper.hasten(Job(9), KillPlan::ask(LONG));
    gone(&told, 9);
    slow.wait().expect("it was asked to end");
}

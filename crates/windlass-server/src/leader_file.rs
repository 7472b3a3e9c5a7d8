//! A file that the leader of a run keeps locked, and with it each of its children until it executes its
//! program.
//!
//! A child that has not executed its program yet carries no tag, so no search finds it. If its parent is
//! killed at that moment, the child continues. But it has the files of its parent open, and the kernel
//! closes them when the child executes its program. So once a process gets this lock, or finds that a
//! later leader got it, every process that the dead leader has started carries its tag or has ended.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::geteuid;
use windlass_store::{Access, Leftover, Process, ProcessTree};

use crate::attempt::run_dir;
use crate::process_tag;
use crate::tree;

/// How long a child may take until it executes its program.
const EXEC_TIMEOUT: Duration = Duration::from_secs(10);
/// How often to try the lock; an exec takes microseconds, unless the machine is very busy.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);
/// The name of the file, in the directory of the run's logs.
const NAME: &str = "leader";
/// The length of its content, so that a new leader overwrites all of it.
const LINE_BYTES: usize = 128;

/// The locked file of a leader.
pub(crate) struct LeaderFile {
    #[cfg_attr(not(test), expect(dead_code, reason = "the lock lasts while the file is open"))]
    locked: File,
}

impl LeaderFile {
    /// Waits until no earlier leader of the run has children without a tag, and keeps the lock.
    pub(crate) fn take(state: &Path, run: &str, process: &Process) -> io::Result<Self> {
        let path = path(state, run);
        Access::create_dir(path.parent().expect("it lies in the directory of a run"))?;
        let file = Access::open(&path, File::options().write(true))?;
        wait(|| try_lock(&file, FlockOperation::NonBlockingLockExclusive))?;
        let Process { pid, started, boot, namespace } = process;
        let line = format!("{:<1$}", format!("{pid} {started} {boot} {namespace}\n"), LINE_BYTES);
        file.write_all_at(line.as_bytes(), 0)?;
        Ok(Self { locked: file })
    }
}

/// Kills what a dead holder of a name has left, and returns whether the name may be claimed. A user can only
/// kill processes of their own; what another user has left keeps the name until its lease expires.
pub(crate) fn end_leftover(state: &Path, leftover: &Leftover) -> io::Result<bool> {
    if is_out_of_reach(leftover) {
        return Ok(leftover.left.is_zero());
    }
    match end_tree(state, &leftover.tree) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Ok(leftover.left.is_zero())
        }
        ended => ended.map(|()| true),
    }
}

/// Returns whether it belongs to another user, whose processes this one can neither find nor kill.
pub(crate) fn is_out_of_reach(leftover: &Leftover) -> bool {
    let this = geteuid();
    !this.is_root() && leftover.uid.is_some_and(|uid| uid != this.as_raw())
}

/// Kills a tree, once all of it carries its tag.
fn end_tree(state: &Path, tree: &ProcessTree) -> io::Result<()> {
    if let Some(run) = process_tag::run_of_tree(tree) {
        await_tags(&path(state, run))?;
    }
    tree::kill(tree)
}

/// Waits until all children of a dead leader carry its tag.
fn await_tags(path: &Path) -> io::Result<()> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    wait(|| {
        let free = try_lock(&file, FlockOperation::NonBlockingLockShared)?;
        // A leader that is alive has got the lock after the children of the dead one.
        Ok(free || leader(&file)?.is_some_and(|leader| !leader.is_gone()))
    })
}

/// Returns the process that had the lock last.
fn leader(file: &File) -> io::Result<Option<Process>> {
    let mut line = [b' '; LINE_BYTES];
    file.read_at(&mut line, 0)?;
    let text = str::from_utf8(&line).unwrap_or_default();
    let mut words = text.split_whitespace();
    let process = (|| {
        let (pid, started) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let (boot, namespace) = (words.next()?.to_owned(), words.next()?.to_owned());
        Some(Process { pid, started, boot, namespace })
    })();
    Ok(process)
}

fn path(state: &Path, run: &str) -> PathBuf {
    run_dir(state, run).join(NAME)
}

fn try_lock(file: &File, how: FlockOperation) -> io::Result<bool> {
    match flock(file, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn wait(mut done: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let began = Instant::now();
    while !done()? {
        if began.elapsed() > EXEC_TIMEOUT {
            let message = "a process of an earlier leader has not executed its program after 10 s";
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        thread::sleep(RETRY_INTERVAL);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc;

    use super::*;

    /// Starts a child that has the files of a leader open, like each child before it executes its program.
    /// The leader itself has ended.
    fn orphan(state: &Path, leader: &Process) -> Child {
        let LeaderFile { locked } =
            LeaderFile::take(state, "r", leader).expect("no other process leads");
        // It ends with the process of the test.
        Command::new("cat").stdin(Stdio::piped()).stdout(locked).spawn().expect("cat runs")
    }

    fn dead() -> Process {
        let mut process = Process::current().expect("this is Linux");
        process.started += 1;
        process
    }

    /// Checks that `act` returns only after the orphan has ended.
    fn check_waits(state: &Path, mut orphan: Child, act: impl FnOnce() + Send + 'static) {
        let (tell, told) = mpsc::channel();
        let acting = thread::spawn(move || {
            act();
            tell.send(()).expect("the test waits");
        });
        let early = told.recv_timeout(Duration::from_millis(100));
        assert!(early.is_err(), "it waits for a child without a tag");
        orphan.kill().expect("it can be killed");
        orphan.wait().expect("it was killed");
        told.recv().expect("it gets on");
        acting.join().expect("nothing is wrong");
        assert!(state.join("runs/r/leader").exists());
    }

    #[test]
    fn a_leader_waits_for_the_untagged_children_of_the_last_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let (state, process) = (dir.path().to_owned(), dead());
        let orphan = orphan(&state, &process);
        check_waits(dir.path(), orphan, move || {
            LeaderFile::take(&state, "r", &process).expect("the lock is had");
        });
    }

    fn tree() -> ProcessTree {
        process_tag::tree_of("run-r-1-2-3")
    }

    #[test]
    fn a_name_is_not_claimed_before_the_dead_holders_children_are_tagged() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().to_owned();
        let orphan = orphan(&state, &dead());
        check_waits(dir.path(), orphan, move || {
            end_tree(&state, &tree()).expect("it is ended");
        });
    }

    #[test]
    fn a_later_leader_delays_no_claim() {
        let dir = tempfile::tempdir().expect("a directory");
        let process = Process::current().expect("this is Linux");
        let _presence = LeaderFile::take(dir.path(), "r", &process).expect("the lock is had");
        end_tree(dir.path(), &tree()).expect("there is nothing to wait for");
        let lock = process_tag::tree_of("lock-7");
        end_tree(dir.path(), &lock).expect("no run, no leader");
    }
}

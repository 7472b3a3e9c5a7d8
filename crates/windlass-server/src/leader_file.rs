//! Who leads a run keeps a file locked, and so do its children until each has become a program.
//!
//! A process that is about to execute its program looks like its parent: it carries no mark yet, and
//! nobody who looks for marks can find it. If its parent is killed in that moment, it goes on. But it
//! has its parent's files open, and those of ours are closed by the kernel when the new program
//! begins. So whoever gets this lock, or finds that somebody got it later, knows: what the dead one
//! has started carries its mark, or is gone.

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

/// How long a process may take from its beginning to its program.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look; it takes microseconds, unless the machine is very busy.
const PAUSE: Duration = Duration::from_millis(1);
/// The name of the file, in the directory of the run's logs.
const NAME: &str = "leader";
/// The length of what stands in it, so that a new leader writes over all of it.
const LINE_BYTES: usize = 128;

/// The lock of a leader, while it lasts.
pub(crate) struct LeaderFile {
    #[cfg_attr(not(test), expect(dead_code, reason = "what counts is that it is open"))]
    locked: File,
}

impl LeaderFile {
    /// Waits until no earlier leader of the run has children without a mark, and keeps the lock.
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

/// Ends what a dead holder of a name has left, and returns whether the name may be taken. A user ends
/// only processes of his own; what another user has left keeps the name until its lease is over.
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

/// Returns whether another user has left it, whose processes this one can neither find nor end.
pub(crate) fn is_out_of_reach(leftover: &Leftover) -> bool {
    let this = geteuid();
    !this.is_root() && leftover.uid.is_some_and(|uid| uid != this.as_raw())
}

/// Ends a tree, if need be after the last of it can be recognised.
fn end_tree(state: &Path, tree: &ProcessTree) -> io::Result<()> {
    if let Some(run) = process_tag::run_of_tree(tree) {
        await_marks(&path(state, run))?;
    }
    tree::kill(tree)
}

/// Waits until no child of a dead leader is without its mark.
fn await_marks(path: &Path) -> io::Result<()> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    wait(|| {
        let free = try_lock(&file, FlockOperation::NonBlockingLockShared)?;
        // One that lives has had the lock after the dead one's children.
        Ok(free || leader(&file)?.is_some_and(|leader| !leader.is_gone()))
    })
}

/// Who had the lock last.
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
        if began.elapsed() > PATIENCE {
            let message = "a process that was about to execute its program does not get on";
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::sync::mpsc;

    use super::*;

    /// A child that has the files of a leader open, as all have before they execute their program;
    /// the leader itself is gone.
    fn orphan(state: &Path, leader: &Process) -> Child {
        let LeaderFile { locked } =
            LeaderFile::take(state, "r", leader).expect("nobody else leads");
        Command::new("sleep").arg("600").stdin(locked).spawn().expect("sleep runs")
    }

    fn dead() -> Process {
        let mut process = Process::current().expect("this is Linux");
        process.started += 1;
        process
    }

    /// Does something while the orphan lives, and says so once it is through.
    fn check_waits(state: &Path, mut orphan: Child, act: impl FnOnce() + Send + 'static) {
        let (tell, told) = mpsc::channel();
        let acting = thread::spawn(move || {
            act();
            tell.send(()).expect("somebody listens");
        });
        let early = told.recv_timeout(Duration::from_millis(100));
        assert!(early.is_err(), "it waits for what is not marked yet");
        orphan.kill().expect("it can be killed");
        orphan.wait().expect("it was killed");
        told.recv().expect("it gets on");
        acting.join().expect("nothing is wrong");
        assert!(state.join("runs/r/leader").exists());
    }

    #[test]
    fn a_leader_waits_for_the_unmarked_children_of_the_one_before() {
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
    fn a_name_is_not_taken_before_the_dead_holders_children_are_marked() {
        let dir = tempfile::tempdir().expect("a directory");
        let state = dir.path().to_owned();
        let orphan = orphan(&state, &dead());
        check_waits(dir.path(), orphan, move || {
            end_tree(&state, &tree()).expect("it is ended");
        });
    }

    #[test]
    fn a_later_leader_holds_up_nobody() {
        let dir = tempfile::tempdir().expect("a directory");
        let process = Process::current().expect("this is Linux");
        let _presence = LeaderFile::take(dir.path(), "r", &process).expect("the lock is had");
        end_tree(dir.path(), &tree()).expect("there is nothing to wait for");
        let lock = process_tag::tree_of("lock-7");
        end_tree(dir.path(), &lock).expect("no run, no leader");
    }
}

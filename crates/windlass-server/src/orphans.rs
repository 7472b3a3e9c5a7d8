//! Orphans: processes that have lost their parents and have become children of this one.
//!
//! This process is a child subreaper: a descendant that loses its parent becomes its child, however often it
//! has forked. So a step cannot lose a process, and whether it has left one is one read of a list that is
//! usually empty. Does not decide to which step an orphan belongs.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::process::{getpid, set_child_subreaper, test_kill_process};

use crate::attempt::pid;
use crate::limit_tag::LimitTag;
use crate::proc_fs::{self, Found, LifeStage, Process};
use crate::search::Sight;
use crate::spawn::{is_spawned, reap};

/// After how many readings of the list a look gives up being complete.
const MOST_ROUNDS: usize = 10;

/// The orphans of this process.
pub(crate) struct Orphans {
    /// The list of the children of the first thread, to which the kernel gives orphans.
    list: Option<File>,
    /// The group of this process, and the tag in its resource limit. A child with both was started by a library
    /// that this process uses: attempts have groups of their own, and a process of theirs that joins this group
    /// keeps its tag.
    group: u32,
    limit_tag: Option<LimitTag>,
}

/// An orphan that is alive.
pub(crate) struct Orphan {
    pub(crate) process: Process,
    pub(crate) stage: LifeStage,
    /// The tags in its environment.
    pub(crate) tags: Vec<Vec<u8>>,
    /// The tag in its resource limit.
    pub(crate) limit_tag: Option<LimitTag>,
}

/// What was found of a child of this process that it has not started.
enum Child {
    Alive(Orphan),
    /// It has ended, and was reaped.
    Ended,
    /// It is no orphan of an attempt.
    Stranger,
}

impl Orphans {
    /// Makes this process the parent of orphans from now on.
    pub(crate) fn receive() -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        let this = std::process::id();
        // Not every kernel has this file.
        let list = File::open(format!("/proc/{this}/task/{this}/children")).ok();
        // Not by `getpgrp`: in a namespace of processes the group may be outside, and has no number here.
        let group = proc_fs::alive(this).map_or(0, |this| this.group);
        Ok(Self { list, group, limit_tag: LimitTag::of_process(this) })
    }

    /// Returns the orphans that are alive, and reaps those that have ended. What an orphan has started became
    /// a child of this process before its end could be seen. So when one has ended, the list is read again.
    pub(crate) fn look(&self) -> io::Result<(Vec<Orphan>, Sight)> {
        let mut alive = Vec::new();
        for _ in 0..MOST_ROUNDS {
            let mut sight = Sight::Complete;
            alive.clear();
            for child in self.children()?.into_iter().filter(|&child| !is_spawned(child)) {
                match self.look_at(child)? {
                    Child::Alive(orphan) => alive.push(orphan),
                    Child::Ended => sight = Sight::Partial,
                    Child::Stranger => {}
                }
            }
            if sight == Sight::Complete {
                return Ok((alive, sight));
            }
        }
        Ok((alive, Sight::Partial))
    }

    fn look_at(&self, child: u32) -> io::Result<Child> {
        let (tags, limit_tag) = (proc_fs::tags(child)?, LimitTag::of_process(child));
        // Asked afterwards: a process that is ending seems to carry nothing.
        match proc_fs::stat(child)? {
            Found::Process(process, _)
                if (process.group, limit_tag) == (self.group, self.limit_tag) =>
            {
                Ok(Child::Stranger)
            }
            Found::Process(process, LifeStage::Ended) => {
                match pid(process.pid).map_or(Ok(None), reap) {
                    // Another run in this process may have been faster.
                    Err(error) if error.raw_os_error() != Some(Errno::CHILD.raw_os_error()) => {
                        Err(error)
                    }
                    _ => Ok(Child::Ended),
                }
            }
            Found::Process(process, stage) => {
                Ok(Child::Alive(Orphan { process, stage, tags, limit_tag }))
            }
            Found::Nothing if has_ended(child) => Ok(Child::Ended),
            // It belongs to another user, and `/proc` hides it.
            Found::Hidden | Found::Nothing => Ok(Child::Stranger),
        }
    }

    fn children(&self) -> io::Result<Vec<u32>> {
        let Some(list) = &self.list else {
            let this = std::process::id();
            let is_child = |pid: &u32| proc_fs::process(*pid).is_some_and(|p| p.parent == this);
            return Ok(proc_fs::pids()?.into_iter().filter(is_child).collect());
        };
        let mut text = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            let length = list.read_at(&mut chunk, text.len() as u64)?;
            text.extend(&chunk[..length]);
            // The kernel fills the buffer up to the last whole number, except at the end.
            if length < chunk.len() / 2 {
                break;
            }
        }
        let numbers = text.split(|byte| *byte == b' ').filter_map(|word| str::from_utf8(word).ok());
        Ok(numbers.filter_map(|word| word.parse().ok()).collect())
    }
}

fn has_ended(child: u32) -> bool {
    pid(child).is_none_or(|child| test_kill_process(child) == Err(Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::thread;

    use super::*;
    use crate::process_tag::TAG_VARIABLE;
    use crate::spawn::{GroupChoice, spawn};

    #[test]
    fn another_thread_may_reap_an_orphan_first() {
        let all_started = AtomicBool::new(false);
        let look = || {
            let orphans = Orphans::receive().expect("they are given to us");
            while !all_started.load(Relaxed) {
                orphans.look().expect("the others do no harm");
            }
        };
        thread::scope(|scope| {
            let looking = [scope.spawn(look), scope.spawn(look)];
            let mut shell = Command::new("sh");
            // Tagged, so that no run of another test takes what it leaves for its own.
            shell
                .args(["-c", "for i in $(seq 300); do (true &); done"])
                .env(TAG_VARIABLE, "a-stranger");
            let mut shell = spawn(&mut shell, GroupChoice::Own, "a-stranger").expect("it starts");
            let ended = shell.wait();
            all_started.store(true, Relaxed);
            assert!(ended.expect("it ends").success());
            for looking in looking {
                looking.join().expect("it goes on");
            }
        });
    }
}

//! The processes that act in somebody's name: found by what they carry, and ended.
//!
//! Every process that a command starts inherits a word in an environment variable, so it is found
//! whatever became of its parents; so are those in the command's process group, and all that these
//! have started. One that has cleared its environment, left the group and lost its parents is not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use windlass_store::{Group, Tree};

use crate::attempt::pid;
use crate::poll::poll;

/// The variable with a word for every lease, run and check that a process works for.
pub(crate) const MARKS: &str = "WINDLASS_LEASES";
/// How long killed processes may take to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// What to put into [`MARKS`] for a process that works for `word` as well as for what we work for.
pub(crate) fn marks_with(word: &str) -> String {
    match std::env::var(MARKS) {
        Ok(others) if !others.is_empty() => format!("{others} {word}"),
        _ => word.to_owned(),
    }
}

/// The mark of those who work for `word`.
pub(crate) fn mark(word: &str) -> String {
    format!("{MARKS}={word}")
}

/// Kills every process of a tree but the calling one, and sees them gone.
pub(crate) fn end(tree: &Tree) -> io::Result<()> {
    let began = Instant::now();
    loop {
        let left = members(tree)?;
        if left.is_empty() {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            let message = format!("processes {left:?} do not end");
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        let dying: Vec<_> = left.into_iter().filter_map(kill).collect();
        for process in &dying {
            poll(&[process], Some(PATIENCE.saturating_sub(began.elapsed())))?;
        }
    }
}

/// Kills one process, unless its number is another one's by now.
fn kill(process: Process) -> Option<OwnedFd> {
    let handle = pidfd_open(pid(process.pid)?, PidfdFlags::empty()).ok()?;
    // Its parent may have been killed a moment ago, so only this tells one life from another.
    if look(process.pid)?.started != process.started {
        return None;
    }
    pidfd_send_signal(&handle, Signal::KILL).ok()?;
    Some(handle)
}

/// The living processes of a tree, without the calling one.
fn members(tree: &Tree) -> io::Result<Vec<Process>> {
    let all = processes()?;
    let this = std::process::id();
    let reused = tree.group.is_some_and(|group| is_reused(group, &all));
    let group = tree.group.filter(|_| !reused);
    let in_group = |process: &Process| {
        group.is_some_and(|group| process.group == group.leader && process.session == group.session)
    };
    let mut found: BTreeSet<u32> = BTreeSet::new();
    for process in all.values().filter(|process| process.pid != this) {
        if in_group(process) || carries(process.pid, &tree.mark) {
            found.insert(process.pid);
        }
    }
    let mut open: Vec<u32> = found.iter().copied().collect();
    while let Some(parent) = open.pop() {
        let children = all.values().filter(|child| child.parent == parent && child.pid != this);
        open.extend(children.map(|child| child.pid).filter(|&child| found.insert(child)));
    }
    Ok(found.iter().filter_map(|pid| all.get(pid).copied()).collect())
}

/// Whether the number of a group belongs to a later process.
fn is_reused(group: Group, all: &BTreeMap<u32, Process>) -> bool {
    all.get(&group.leader).is_some_and(|leader| leader.started != group.started)
}

/// The group that a child of ours leads, also if it has ended: until it is reaped its number is its
/// own, and others may live on in its group.
pub(crate) fn group_of(child: u32) -> Option<Group> {
    let (process, _) = stat(child)?;
    let leads = process.group == child;
    leads.then_some(Group { leader: child, started: process.started, session: process.session })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    group: u32,
    session: u32,
    started: u64,
}

fn processes() -> io::Result<BTreeMap<u32, Process>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.parse().ok());
        if let Some(process) = number.and_then(look) {
            all.insert(process.pid, process);
        }
    }
    Ok(all)
}

/// A process as it is now; none if there is none, or it has ended and only waits to be reaped.
fn look(pid: u32) -> Option<Process> {
    stat(pid).and_then(|(process, lives)| lives.then_some(process))
}

/// A process, and whether it lives.
fn stat(pid: u32) -> Option<(Process, bool)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in the second field may contain anything, also blanks and parentheses.
    let after_name = &stat[stat.rfind(')')? + 1..];
    let fields: Vec<_> = after_name.split_ascii_whitespace().collect();
    let number = |place: usize| fields.get(place)?.parse::<u32>().ok();
    let started = fields.get(19)?.parse().ok()?;
    let lives = !matches!(*fields.first()?, "Z" | "X");
    let (parent, group, session) = (number(1)?, number(2)?, number(3)?);
    Some((Process { pid, parent, group, session, started }, lives))
}

/// Whether a process has a mark in its environment: `VARIABLE=word`, among other words.
fn carries(pid: u32, mark: &str) -> bool {
    // Other users' processes cannot be read, and are not ours.
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    let Some((variable, word)) = mark.split_once('=') else { return false };
    environment.split(|&byte| byte == 0).any(|entry| {
        let value = entry.strip_prefix(variable.as_bytes()).and_then(|v| v.strip_prefix(b"="));
        value.is_some_and(|value| value.split(|&b| b == b' ').any(|w| w == word.as_bytes()))
    })
}

#[cfg(test)]
mod tests;

//! Finds and kills the processes that work for an attempt, a check or the holder of a lock.
//!
//! A process belongs to a tree if it carries the tree's tag in its environment (`process_tag`) or as a number
//! in a resource limit (`limit_tag`), if it is in the command's process group, or if it descends from such a
//! process. A process that has cleared its environment, changed that limit, left the group and lost its
//! parents is found only by the leader of the run, whose child it has become (`orphans`).
//!
//! One pass over `/proc` serves any number of trees. Control groups would add a kill that no process can
//! outrun, but users may seldom create them where they run commands, so everything would have to work
//! without them anyway.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use windlass_store::{ProcessGroup, ProcessTree};

use crate::attempt::pid;
use crate::limit_tag::{LimitTag, TagPattern};
use crate::poll::poll;
use crate::proc_fs::{self, Process};

/// How long killed processes may take to end.
pub(crate) const KILL_TIMEOUT: Duration = Duration::from_secs(10);
/// The processes to find.
pub(crate) struct Wanted<'a> {
    /// The tag and the group by which they are found.
    pub(crate) tree: &'a ProcessTree,
    /// Processes that are known to belong to the tree.
    pub(crate) roots: &'a [Process],
}

/// Kills every process of a tree except the calling one, and waits until they have ended. Fails with
/// [`io::ErrorKind::PermissionDenied`] if all that are left belong to other users.
pub(crate) fn kill(tree: &ProcessTree) -> io::Result<()> {
    let began = Instant::now();
    loop {
        let left = members(&[Wanted { tree, roots: &[] }])?.remove(0);
        if left.is_empty() {
            return Ok(());
        }
        if began.elapsed() > KILL_TIMEOUT {
            let left: Vec<_> = left.iter().map(|process| process.pid).collect();
            let message = format!("processes {left:?} were killed, but have not ended after 10 s");
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        }
        let dying: Vec<_> = left.iter().map(|process| signal(process, &[Signal::KILL])).collect();
        if dying.iter().all(|reached| matches!(reached, Ok(Reach::Out(_)))) {
            let left: Vec<_> = left.iter().map(|process| process.pid).collect();
            let message = format!("processes {left:?} belong to other users");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        for reached in dying {
            if let Ok(Reach::In(process)) = reached {
                poll(&[&process], Some(KILL_TIMEOUT.saturating_sub(began.elapsed())))?;
            }
        }
    }
}

/// A handle that becomes readable when a process ends, and whether the process could be signalled.
pub(crate) enum Reach {
    In(OwnedFd),
    /// The process belongs to another user.
    Out(OwnedFd),
}

/// Sends signals to one process, unless its pid is used by another process by now.
pub(crate) fn signal(process: &Process, signals: &[Signal]) -> rustix::io::Result<Reach> {
    let handle = pidfd_open(pid(process.pid).ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    // Its parent may have been killed and reaped it, so only the start time tells it from a later process.
    if proc_fs::alive(process.pid).is_none_or(|now| now.started != process.started) {
        return Err(Errno::SRCH);
    }
    for signal in signals {
        match pidfd_send_signal(&handle, *signal) {
            Err(Errno::PERM) => return Ok(Reach::Out(handle)),
            sent => sent?,
        }
    }
    Ok(Reach::In(handle))
}

/// Returns the processes of each tree that are alive, except the calling one.
pub(crate) fn members(wanted: &[Wanted<'_>]) -> io::Result<Vec<Vec<Process>>> {
    let this = std::process::id();
    let all = proc_fs::all()?;
    let tags = TagIndex::new(wanted);
    let mut found = vec![BTreeSet::new(); wanted.len()];
    let mut children: BTreeMap<u32, Vec<Process>> = BTreeMap::new();
    for (process, _) in all.iter().filter(|(process, lives)| *lives && process.pid != this) {
        children.entry(process.parent).or_default().push(*process);
        for place in tags.carried_by(process.pid)? {
            found[place].insert(*process);
        }
    }
    for (found, wanted) in found.iter_mut().zip(wanted) {
        let group = wanted.tree.group.filter(|group| !is_reused(*group, &all));
        let is_root = |process: &Process| {
            let known = |root: &Process| (root.pid, root.started) == (process.pid, process.started);
            wanted.roots.iter().any(known) || group.is_some_and(|group| is_in(group, process))
        };
        found.extend(children.values().flatten().filter(|process| is_root(process)));
        add_descendants(found, &children);
    }
    Ok(found.into_iter().map(|found| found.into_iter().collect()).collect())
}

fn add_descendants(found: &mut BTreeSet<Process>, children: &BTreeMap<u32, Vec<Process>>) {
    let mut open: Vec<u32> = found.iter().map(|process| process.pid).collect();
    while let Some(parent) = open.pop() {
        let children = children.get(&parent).into_iter().flatten();
        open.extend(children.filter(|child| found.insert(**child)).map(|child| child.pid));
    }
}

fn is_in(group: ProcessGroup, process: &Process) -> bool {
    (process.group, process.session) == (group.leader, group.session)
}

/// Returns whether the number of a group is the pid of a later process.
fn is_reused(group: ProcessGroup, all: &[(Process, bool)]) -> bool {
    let place = all.binary_search_by_key(&group.leader, |(process, _)| process.pid);
    place.is_ok_and(|place| all[place].0.started != group.started)
}

/// The tags of several trees, each with the places of the trees that have it.
struct TagIndex<'a> {
    /// By the variable in which processes carry them.
    tags: BTreeMap<&'a str, BTreeMap<&'a [u8], Vec<usize>>>,
    patterns: Vec<(TagPattern, usize)>,
}

impl<'a> TagIndex<'a> {
    fn new(wanted: &[Wanted<'a>]) -> Self {
        let mut tags: BTreeMap<_, BTreeMap<_, Vec<_>>> = BTreeMap::new();
        let mut patterns = Vec::new();
        for (place, wanted) in wanted.iter().enumerate() {
            if let Some((variable, tag)) = wanted.tree.tag.split_once('=') {
                let carried = tags.entry(variable).or_default();
                carried.entry(tag.as_bytes()).or_default().push(place);
                patterns.push((TagPattern::of(tag), place));
            }
        }
        Self { tags, patterns }
    }

    /// Returns the places of the trees whose tags a process carries.
    fn carried_by(&self, pid: u32) -> io::Result<Vec<usize>> {
        let environment = proc_fs::environment(pid)?;
        let named = self.tags.iter().flat_map(|(variable, places)| {
            proc_fs::tags_in(&environment, variable).filter_map(|tag| places.get(tag)).flatten()
        });
        let tag = LimitTag::of_process(pid);
        let is_tagged = |pattern: TagPattern| tag.is_some_and(|tag| pattern.matches(tag));
        let tagged = self.patterns.iter().filter(|(pattern, _)| is_tagged(*pattern));
        Ok(named.chain(tagged.map(|(_, place)| place)).copied().collect())
    }
}

#[cfg(test)]
mod tests;

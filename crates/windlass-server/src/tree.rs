//! Finds the processes that work for an attempt, a check or the holder of a lock, and ends them.
//!
//! Every process that a command starts inherits a word in an environment variable and a number in a
//! resource limit (see `limit_tag`), so it is found whatever became of its parents. So are the
//! processes in the command's group, and the descendants of all of these. A process that has cleared its
//! environment, changed that limit, left the group and lost its parents is found only by the leader of
//! the run, whose child it has become; see `orphans`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use windlass_store::{ProcessGroup, ProcessTree};

use crate::attempt::pid;
use crate::limit_tag::{LimitTag, TagPattern};
use crate::poll::poll;

/// The variable with a word for every lease, run and check that a process works for.
pub(crate) const MARKS: &str = "WINDLASS_LEASES";
/// How long killed processes may take to be gone.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How long a process may take to become another program. Hardly any takes a millisecond.
const BECOMING: Duration = Duration::from_secs(1);

/// What to put into [`MARKS`] for a process that works for `words` as well as for what we work for.
pub(crate) fn marks_with(words: &str) -> String {
    match std::env::var(MARKS) {
        Ok(others) if !others.is_empty() => format!("{others} {words}"),
        _ => words.to_owned(),
    }
}

/// The mark of those who work for `word`.
pub(crate) fn mark(word: &str) -> String {
    format!("{MARKS}={word}")
}

/// Whether this process works for whoever has that mark.
pub(crate) fn carries(mark: &str) -> bool {
    let word = mark.strip_prefix(MARKS).and_then(|rest| rest.strip_prefix('='));
    let words = std::env::var(MARKS).unwrap_or_default();
    word.is_some_and(|word| words.split(' ').any(|own| own == word))
}

/// A process as it was when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) session: u32,
    /// In ticks since boot; tells one life of a number from another.
    pub(crate) started: u64,
}

impl Process {
    /// The group that it leads, if it leads one.
    pub(crate) fn leads(self) -> Option<ProcessGroup> {
        let Self { pid: leader, group, session, started, .. } = self;
        (leader == group).then_some(ProcessGroup { leader, started, session })
    }
}

/// Which processes are looked for.
pub(crate) struct Wanted<'a> {
    /// Whoever carries its mark or is in its group.
    pub(crate) tree: &'a ProcessTree,
    /// Whoever is known already.
    pub(crate) roots: &'a [Process],
}

/// Kills every process of a tree but the calling one, and sees them gone. Fails with
/// [`io::ErrorKind::PermissionDenied`] if all that are left are other users'.
pub(crate) fn end(tree: &ProcessTree) -> io::Result<()> {
    let began = Instant::now();
    loop {
        let left = members(&[Wanted { tree, roots: &[] }])?.remove(0);
        if left.is_empty() {
            return Ok(());
        }
        if began.elapsed() > PATIENCE {
            let left: Vec<_> = left.iter().map(|process| process.pid).collect();
            let message = format!("processes {left:?} do not end");
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
                poll(&[&process], Some(PATIENCE.saturating_sub(began.elapsed())))?;
            }
        }
    }
}

/// A handle to see a process gone, and whether it could be signalled.
pub(crate) enum Reach {
    In(OwnedFd),
    /// It is another user's.
    Out(OwnedFd),
}

/// Sends signals to one process, unless its number is another one's by now.
pub(crate) fn signal(process: &Process, signals: &[Signal]) -> rustix::io::Result<Reach> {
    let handle = pidfd_open(pid(process.pid).ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    // Its parent may have been killed a moment ago, so only this tells one life from another.
    if look(process.pid).is_none_or(|now| now.started != process.started) {
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

/// The living processes of each tree, without the calling one, found in one look at all there are.
pub(crate) fn members(wanted: &[Wanted<'_>]) -> io::Result<Vec<Vec<Process>>> {
    let this = std::process::id();
    let all = all()?;
    let marks = Marks::of(wanted);
    let mut found = vec![BTreeSet::new(); wanted.len()];
    let mut children: BTreeMap<u32, Vec<Process>> = BTreeMap::new();
    for (process, _) in all.iter().filter(|(process, lives)| *lives && process.pid != this) {
        children.entry(process.parent).or_default().push(*process);
        for place in marks.carried_by(process.pid)? {
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

/// Whether the number of a group belongs to a later process.
fn is_reused(group: ProcessGroup, all: &[(Process, bool)]) -> bool {
    let place = all.binary_search_by_key(&group.leader, |(process, _)| process.pid);
    place.is_ok_and(|place| all[place].0.started != group.started)
}

/// The group that a child of ours leads, also if it has ended: until it is reaped its number is its
/// own, and others may live on in its group.
pub(crate) fn group_of(child: u32) -> Option<ProcessGroup> {
    stat(child).ok()??.0.leads()
}

/// A process for people to read: `name (pid)`. One that has ended meanwhile has only its number.
pub(crate) fn label(pid: u32) -> String {
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = String::from_utf8_lossy(&name);
    match name.trim_end() {
        "" => format!("process {pid}"),
        name => format!("{name} ({pid})"),
    }
}

/// Every process, ordered by number, and whether it lives.
pub(crate) fn all() -> io::Result<Vec<(Process, bool)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        if let Some(number) = name.to_str().and_then(|name| name.parse().ok()) {
            all.extend(stat(number)?);
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// A process as it is now; none if there is none, or it has ended and only waits to be reaped.
pub(crate) fn look(pid: u32) -> Option<Process> {
    stat(pid).ok()?.and_then(|(process, lives)| lives.then_some(process))
}

/// A process, and whether it lives; none if there is none. Where there is no
/// room to look, there may be one all the same.
pub(crate) fn stat(pid: u32) -> io::Result<Option<(Process, bool)>> {
    Ok(Stat::read(pid)?.and_then(|stat| stat.process(pid)))
}

/// What the system tells of a process, from its state on.
struct Stat(Vec<String>);

impl Stat {
    fn read(pid: u32) -> io::Result<Option<Self>> {
        let stat = match fs::read(format!("/proc/{pid}/stat")) {
            Err(error) if !is_for_want_of_room(&error) => return Ok(None),
            stat => stat?,
        };
        // The name before that may contain anything, also blanks and parentheses.
        let behind_name = stat.rsplit(|byte| *byte == b')').next().unwrap_or_default();
        let fields = String::from_utf8_lossy(behind_name);
        Ok(Some(Self(fields.split_whitespace().map(str::to_owned).collect())))
    }

    fn number<N: FromStr>(&self, place: usize) -> Option<N> {
        self.0.get(place)?.parse().ok()
    }

    fn process(&self, pid: u32) -> Option<(Process, bool)> {
        let [parent, group, session] = [self.number(1)?, self.number(2)?, self.number(3)?];
        let lives = !matches!(self.0.first()?.as_str(), "Z" | "X");
        Some((Process { pid, parent, group, session, started: self.number(19)? }, lives))
    }

    /// Whether the process has an environment, or will have one when it has become another program.
    fn has_environment(&self) -> bool {
        let number = |place| self.number::<u64>(place).unwrap_or(0);
        let [memory, code, start, end] = [20, 23, 47, 48].map(number);
        // One that is about to end has no memory. One that becomes another program is told where its code
        // is only after its environment was laid out, of which nothing is to be seen until then.
        memory > 0 && (code == 0 || start < end)
    }
}

/// Whether it is for want of room that something could not be read. Else it has ended, or is another
/// user's whom we must not look at.
fn is_for_want_of_room(error: &io::Error) -> bool {
    let number = error.raw_os_error().unwrap_or(0);
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM].map(Errno::raw_os_error).contains(&number)
}

/// The words that a process carries in `variable`.
pub(crate) fn words(pid: u32, variable: &str) -> io::Result<Vec<Vec<u8>>> {
    Ok(words_of(&environment(pid)?, variable).map(<[u8]>::to_vec).collect())
}

/// What a process was started with; nothing of what other users' processes were, which carry nothing of
/// ours. One that is just becoming another program has nothing for a moment, and then the same again.
fn environment(pid: u32) -> io::Result<Vec<u8>> {
    let began = Instant::now();
    loop {
        let environment = match read_at_once(&format!("/proc/{pid}/environ")) {
            Err(error) if !is_for_want_of_room(&error) => return Ok(Vec::new()),
            environment => environment?,
        };
        let found = !environment.is_empty() || began.elapsed() > BECOMING;
        if found || !Stat::read(pid)?.as_ref().is_some_and(Stat::has_environment) {
            return Ok(environment);
        }
        thread::sleep(Duration::from_micros(50));
    }
}

/// The content of a file as it was at one moment. Of what a process had before it became another program,
/// a second call would read nothing.
fn read_at_once(path: &str) -> io::Result<Vec<u8>> {
    let mut content = vec![0; 16 << 10];
    loop {
        let length = File::open(path)?.read(&mut content)?;
        if length < content.len() {
            content.truncate(length);
            return Ok(content);
        }
        content.resize(length * 2, 0);
    }
}

fn words_of<'e>(environment: &'e [u8], variable: &str) -> impl Iterator<Item = &'e [u8]> {
    let value = |entry: &'e [u8]| entry.strip_prefix(variable.as_bytes())?.strip_prefix(b"=");
    let values = environment.split(|byte| *byte == 0).filter_map(value);
    values.flat_map(|value| value.split(|byte| *byte == b' '))
}

/// The words, by variable, and the tags that are looked for, each with the places of the trees that it
/// belongs to.
struct Marks<'a> {
    words: BTreeMap<&'a str, BTreeMap<&'a [u8], Vec<usize>>>,
    tags: Vec<(TagPattern, usize)>,
}

impl<'a> Marks<'a> {
    fn of(wanted: &[Wanted<'a>]) -> Self {
        let mut marks: BTreeMap<_, BTreeMap<_, Vec<_>>> = BTreeMap::new();
        let mut tags = Vec::new();
        for (place, wanted) in wanted.iter().enumerate() {
            if let Some((variable, word)) = wanted.tree.mark.split_once('=') {
                let words = marks.entry(variable).or_default();
                words.entry(word.as_bytes()).or_default().push(place);
                tags.push((TagPattern::of(word), place));
            }
        }
        Self { words: marks, tags }
    }

    fn carried_by(&self, pid: u32) -> io::Result<Vec<usize>> {
        let environment = environment(pid)?;
        let named = self.words.iter().flat_map(|(variable, words)| {
            words_of(&environment, variable).filter_map(|word| words.get(word)).flatten()
        });
        let tag = LimitTag::of_process(pid);
        let is_tagged = |pattern: TagPattern| tag.is_some_and(|tag| pattern.matches(tag));
        let tagged = self.tags.iter().filter(|(pattern, _)| is_tagged(*pattern));
        Ok(named.chain(tagged.map(|(_, place)| place)).copied().collect())
    }
}

#[cfg(test)]
mod tests;

//! Searches the processes of the machine for those of trees: none is overlooked, and none of others is taken.
//!
//! A process that starts another one and ends may do so between the listing of `/proc` and the read of what it
//! carries: the listing does not have the new process, and of the old one nothing can be read any more. So a
//! search lists again, and reads what it has not read before, until every process in the list could be read.
//! Until then the result is [`Sight::Partial`].
//!
//! Pids ascend, in a listing as in the order of starts, so a listing meets at least one process of a tree
//! that never dies out. Only where pids begin again at the lowest can all of it be behind the place where the
//! listing is; two listings in a row cannot both meet that.
//!
//! What belongs to a tree and ends after it was read may have started another process behind the last listing.
//! So a search that has met such a process is [`Sight::Partial`], too.
//!
//! A pid may be used again at any moment, so a process is known by its pid and its start time, and reads of one
//! pid may be of two processes. The start time tells: a parent is older than its children, and a process that
//! has started before the search had its pid all the time.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use windlass_store::{ProcessGroup, ProcessTree};

use crate::limit_tag::{LimitTag, TagPattern};
use crate::proc_fs::{self, Found, LifeStage, Process};

/// How many listings in a row have to be complete.
const COMPLETE_ROUNDS: usize = 2;
/// After how many listings a search gives up being complete.
const MOST_ROUNDS: usize = 30;

/// The processes to find.
pub(crate) struct Wanted<'a> {
    /// The tag and the group by which they are found.
    pub(crate) tree: &'a ProcessTree,
    /// Processes that are known to belong to the tree.
    pub(crate) roots: &'a [Process],
}

/// Whether everything was seen that a search was to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    Complete,
    /// A process ended, and what it has started may have been overlooked.
    Partial,
}

/// The processes of each tree that are alive, except the calling one.
pub(crate) struct Members {
    pub(crate) of_trees: Vec<Vec<Process>>,
    pub(crate) sight: Sight,
}

/// Returns the processes of each tree. Calls `at_sight` with each process that seems to carry the tag of a
/// tree, and the place of that tree, as soon as it was read: at the end of the search it may have started
/// another and ended. Its pid may be that of another process by then.
pub(crate) fn members(
    wanted: &[Wanted<'_>],
    at_sight: impl FnMut(usize, &Process),
) -> io::Result<Members> {
    members_in(&ProcFs, wanted, at_sight)
}

fn members_in(
    table: &impl ProcessTable,
    wanted: &[Wanted<'_>],
    mut at_sight: impl FnMut(usize, &Process),
) -> io::Result<Members> {
    let mut search = Search::new(table, wanted);
    let mut complete = 0;
    for _ in 0..MOST_ROUNDS {
        match search.round(&mut at_sight)? {
            Sight::Complete => complete += 1,
            Sight::Partial => complete = 0,
        }
        if complete == COMPLETE_ROUNDS {
            return search.members(wanted, Sight::Complete);
        }
    }
    search.members(wanted, Sight::Partial)
}

/// The processes of a machine, which start and end between any two reads.
trait ProcessTable {
    /// Returns the pids of all processes, in ascending order.
    fn pids(&self) -> io::Result<Vec<u32>>;
    /// Returns the pid of the process that was started last, if that is known.
    fn newest(&self) -> Option<u32>;
    /// Returns what can be known of a pid.
    fn stat(&self, pid: u32) -> io::Result<Found>;
    /// Returns the environment of the process that has a pid.
    fn environment(&self, pid: u32) -> io::Result<Vec<u8>>;
    /// Returns the tag in the resource limit of the process that has a pid.
    fn limit_tag(&self, pid: u32) -> Option<LimitTag>;
    /// Returns the time at which a process that starts now has started.
    fn now(&self) -> u64;
}

/// The processes in `/proc`.
struct ProcFs;

impl ProcessTable for ProcFs {
    fn pids(&self) -> io::Result<Vec<u32>> {
        proc_fs::pids()
    }

    fn newest(&self) -> Option<u32> {
        proc_fs::newest()
    }

    fn stat(&self, pid: u32) -> io::Result<Found> {
        proc_fs::stat(pid)
    }

    fn environment(&self, pid: u32) -> io::Result<Vec<u8>> {
        proc_fs::environment(pid)
    }

    fn limit_tag(&self, pid: u32) -> Option<LimitTag> {
        LimitTag::of_process(pid)
    }

    fn now(&self) -> u64 {
        proc_fs::now_in_ticks()
    }
}

struct Search<'a, T> {
    table: &'a T,
    /// When it began. Processes that started before that have had their pids all the time.
    began: u64,
    /// The pid of the process that was the newest at the last list.
    newest: Option<u32>,
    tags: TagIndex<'a>,
    /// The processes of the last list, by pid; none for one that may not be inspected.
    listed: BTreeMap<u32, Option<Seen>>,
    /// Those that were reaped meanwhile; their children may have been read before.
    reaped: Vec<Seen>,
}

/// A process, as the search has read it.
struct Seen {
    process: Process,
    stage: LifeStage,
    /// The process that was its parent when it was read.
    parent: Option<Identity>,
    /// The places of the trees whose tags it carries.
    places: Vec<usize>,
}

/// What distinguishes a process from all others of one boot: its pid and its start time.
type Identity = (u32, u64);

fn identity(process: &Process) -> Identity {
    (process.pid, process.started)
}

/// The processes that have started since the last round: they have got the pids behind that of the process
/// that was the newest then, up to that of the one that is the newest now. Pids begin again at the lowest.
#[derive(Clone, Copy)]
struct Started {
    after: Option<u32>,
    up_to: Option<u32>,
}

impl Started {
    fn may_have(self, pid: u32) -> bool {
        match (self.after, self.up_to) {
            (Some(after), Some(up_to)) if after <= up_to => after < pid && pid <= up_to,
            (Some(after), Some(up_to)) => after < pid || pid <= up_to,
            _ => true,
        }
    }
}

/// What a search finds out about a pid.
enum Look {
    Seen(Seen),
    /// The process may not be inspected.
    Hidden,
    /// The process has ended, or another one has its pid now.
    Gone,
}

impl<'a, T: ProcessTable> Search<'a, T> {
    fn new(table: &'a T, wanted: &[Wanted<'a>]) -> Self {
        let tags = TagIndex::new(wanted);
        let began = table.now();
        Self { table, began, newest: None, tags, listed: BTreeMap::new(), reaped: Vec::new() }
    }

    /// Lists all processes, and reads those that were not in the last list.
    fn round(&mut self, at_sight: &mut impl FnMut(usize, &Process)) -> io::Result<Sight> {
        let before = self.newest;
        self.newest = self.table.newest();
        let pids = self.table.pids()?;
        let started = Started { after: before, up_to: self.table.newest() };
        let is_listed = |pid: &u32| pids.binary_search(pid).is_ok();
        let ended = self.listed.extract_if(.., |pid, _| !is_listed(pid));
        self.reaped.extend(ended.filter_map(|(_, seen)| seen));
        let mut sight = Sight::Complete;
        for pid in pids {
            if self.is_known(pid, started)? {
                continue;
            }
            let look = self.look_at(pid, at_sight)?;
            if !matches!(look, Look::Hidden | Look::Seen(Seen { stage: LifeStage::Running, .. })) {
                sight = Sight::Partial;
            }
            let seen = match look {
                Look::Seen(seen) => Some(seen),
                Look::Hidden => None,
                Look::Gone => continue,
            };
            self.listed.insert(pid, seen);
        }
        Ok(sight)
    }

    /// Returns whether the process that has `pid` was read in an earlier round, or has ended since.
    fn is_known(&mut self, pid: u32, started: Started) -> io::Result<bool> {
        let Some(known) = self.listed.get(&pid) else { return Ok(false) };
        if !started.may_have(pid) {
            return Ok(true);
        }
        let Found::Process(now, _) = self.table.stat(pid)? else { return Ok(true) };
        if known.as_ref().is_some_and(|known| identity(&known.process) == identity(&now)) {
            return Ok(true);
        }
        self.reaped.extend(self.listed.remove(&pid).flatten());
        Ok(false)
    }

    fn look_at(&self, pid: u32, at_sight: &mut impl FnMut(usize, &Process)) -> io::Result<Look> {
        let mut places = self.places(pid)?;
        // Asked afterwards: a process that is ending seems to carry nothing.
        let (process, stage) = match self.table.stat(pid)? {
            Found::Process(process, stage) => (process, stage),
            Found::Hidden => return Ok(Look::Hidden),
            Found::Nothing => return Ok(Look::Gone),
        };
        // What was read may be the tag of the process that had the pid before.
        if !places.is_empty() && process.started >= self.began {
            places = self.places(pid)?;
        }
        if stage == LifeStage::Running {
            places.iter().for_each(|place| at_sight(*place, &process));
        }
        let parent = if places.is_empty() { self.parent(&process)? } else { None };
        Ok(Look::Seen(Seen { process, stage, parent, places }))
    }

    /// Returns the places of the trees whose tags the process with that pid carries.
    fn places(&self, pid: u32) -> io::Result<Vec<usize>> {
        match pid == std::process::id() {
            true => Ok(Vec::new()),
            false => self.tags.carried_by(self.table, pid),
        }
    }

    /// Returns the parent of a process. The first process of the machine and this one are in no tree, so they
    /// count as none.
    fn parent(&self, of: &Process) -> io::Result<Option<Identity>> {
        if of.parent <= 1 || of.parent == std::process::id() {
            return Ok(None);
        }
        let Found::Process(parent, _) = self.table.stat(of.parent)? else { return Ok(None) };
        // If the parent has ended meanwhile, a later process may have its pid.
        let is_parent = match parent.started.cmp(&of.started) {
            Ordering::Less => true,
            Ordering::Equal => self.is_unchanged(of)?,
            Ordering::Greater => false,
        };
        Ok(is_parent.then(|| identity(&parent)))
    }

    fn is_unchanged(&self, process: &Process) -> io::Result<bool> {
        Ok(matches!(self.table.stat(process.pid)?, Found::Process(now, _) if now == *process))
    }

    /// Returns the processes of each tree that are alive, after rounds with that sight.
    fn members(&self, wanted: &[Wanted<'_>], mut sight: Sight) -> io::Result<Members> {
        let this = std::process::id();
        let all = || self.listed.values().flatten().chain(&self.reaped);
        let mut children: BTreeMap<Identity, Vec<Process>> = BTreeMap::new();
        let mut ran = BTreeSet::new();
        let mut found = vec![BTreeSet::new(); wanted.len()];
        for Seen { process, stage, parent, places } in all().filter(|seen| seen.process.pid != this)
        {
            if *stage != LifeStage::Ended {
                ran.insert(identity(process));
            }
            if let Some(parent) = parent {
                children.entry(*parent).or_default().push(*process);
            }
            for place in places {
                found[*place].insert(*process);
            }
        }
        let mut of_trees = Vec::new();
        for (mut found, wanted) in found.into_iter().zip(wanted) {
            let group = wanted.tree.group.filter(|group| !self.is_reused(*group));
            let is_root = |process: &Process| {
                let known = |root: &Process| identity(root) == identity(process);
                wanted.roots.iter().any(known) || group.is_some_and(|group| is_in(group, process))
            };
            let roots = all().map(|seen| seen.process).filter(|process| process.pid != this);
            found.extend(roots.filter(is_root));
            add_descendants(&mut found, &children);
            let mut members = Vec::new();
            for process in found {
                match self.if_alive(process)? {
                    Some(alive) => members.push(alive),
                    None if ran.contains(&identity(&process)) => sight = Sight::Partial,
                    None => {}
                }
            }
            of_trees.push(members);
        }
        Ok(Members { of_trees, sight })
    }

    fn if_alive(&self, process: Process) -> io::Result<Option<Process>> {
        Ok(match self.table.stat(process.pid)? {
            Found::Process(now, stage) if stage != LifeStage::Ended => {
                (identity(&now) == identity(&process)).then_some(now)
            }
            _ => None,
        })
    }

    /// Returns whether the number of a group is the pid of a later process.
    fn is_reused(&self, group: ProcessGroup) -> bool {
        let leader = self.listed.get(&group.leader).and_then(Option::as_ref);
        leader.is_some_and(|leader| leader.process.started != group.started)
    }
}

fn add_descendants(found: &mut BTreeSet<Process>, children: &BTreeMap<Identity, Vec<Process>>) {
    let mut open: Vec<Identity> = found.iter().map(identity).collect();
    while let Some(parent) = open.pop() {
        let children = children.get(&parent).into_iter().flatten();
        open.extend(children.filter(|child| found.insert(**child)).map(identity));
    }
}

fn is_in(group: ProcessGroup, process: &Process) -> bool {
    (process.group, process.session) == (group.leader, group.session)
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
    fn carried_by(&self, table: &impl ProcessTable, pid: u32) -> io::Result<Vec<usize>> {
        let environment = table.environment(pid)?;
        let named = self.tags.iter().flat_map(|(variable, places)| {
            proc_fs::tags_in(&environment, variable).filter_map(|tag| places.get(tag)).flatten()
        });
        let tag = table.limit_tag(pid);
        let is_tagged = |pattern: TagPattern| tag.is_some_and(|tag| pattern.matches(tag));
        let tagged = self.patterns.iter().filter(|(pattern, _)| is_tagged(*pattern));
        Ok(named.chain(tagged.map(|(_, place)| place)).copied().collect())
    }
}

#[cfg(test)]
mod tests;

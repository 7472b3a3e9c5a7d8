//! Searches `/proc` for the processes of trees, so that none is overlooked.
//!
//! A process that starts another one and ends may do so between the listing of `/proc` and the read of what it
//! carries: the listing does not have the new process, and of the old one nothing can be read any more. So a
//! search lists again, and reads what it has not read before, until every process in the list could be read.
//! Until then the result is [`Sight::Partial`].
//!
//! Pids ascend, in a listing as in the order of starts, so a listing meets at least one process of a tree that
//! never dies out. Only where pids begin again at the lowest can all of it be behind the place where the listing
//! is; two listings in a row cannot both meet that.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use windlass_store::{ProcessGroup, ProcessTree};

use crate::limit_tag::{LimitTag, TagPattern};
use crate::proc_fs::{self, Found, Process, Stage};

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
    /// A process ended before it could be read, and what it has started may have been overlooked.
    Partial,
}

/// The processes of each tree that are alive, except the calling one.
pub(crate) struct Members {
    pub(crate) of_trees: Vec<Vec<Process>>,
    pub(crate) sight: Sight,
}

/// Returns the processes of each tree. Calls `at_sight` with each process that carries the tag of a tree, and the
/// place of that tree, as soon as it was read: at the end of the search it may have started another and ended.
pub(crate) fn members(
    wanted: &[Wanted<'_>],
    mut at_sight: impl FnMut(usize, &Process),
) -> io::Result<Members> {
    let mut search =
        Search { tags: TagIndex::new(wanted), listed: BTreeMap::new(), reaped: Vec::new() };
    let mut complete = 0;
    for _ in 0..MOST_ROUNDS {
        match search.round(&mut at_sight)? {
            Sight::Complete => complete += 1,
            Sight::Partial => complete = 0,
        }
        if complete == COMPLETE_ROUNDS {
            return Ok(Members { of_trees: search.members(wanted), sight: Sight::Complete });
        }
    }
    Ok(Members { of_trees: search.members(wanted), sight: Sight::Partial })
}

struct Search<'a> {
    tags: TagIndex<'a>,
    /// The processes of the last list, by pid; none for one that may not be inspected.
    listed: BTreeMap<u32, Option<Seen>>,
    /// Those that were reaped meanwhile; their children may have been read before.
    reaped: Vec<Seen>,
}

/// A process, as the search has read it.
struct Seen {
    process: Process,
    stage: Stage,
    /// The places of the trees whose tags it carries.
    places: Vec<usize>,
}

impl Search<'_> {
    /// Lists all processes, and reads those that were not in the last list.
    fn round(&mut self, at_sight: &mut impl FnMut(usize, &Process)) -> io::Result<Sight> {
        let (this, pids) = (std::process::id(), proc_fs::pids()?);
        let is_listed = |pid: &u32| pids.binary_search(pid).is_ok();
        self.reaped.extend(
            self.listed.extract_if(.., |pid, _| !is_listed(pid)).filter_map(|(_, seen)| seen),
        );
        let mut sight = Sight::Complete;
        for pid in pids {
            if self.listed.contains_key(&pid) {
                continue;
            }
            let places = if pid == this { Vec::new() } else { self.tags.carried_by(pid)? };
            // Asked afterwards: a process that is ending seems to carry nothing.
            let found = proc_fs::stat(pid)?;
            if !matches!(found, Found::Hidden | Found::Process(_, Stage::Running)) {
                sight = Sight::Partial;
            }
            if let Found::Process(process, Stage::Running) = &found {
                places.iter().for_each(|place| at_sight(*place, process));
            }
            let seen = match found {
                Found::Process(process, stage) => Some(Seen { process, stage, places }),
                Found::Hidden => None,
                Found::Nothing => continue,
            };
            self.listed.insert(pid, seen);
        }
        Ok(sight)
    }

    /// Returns the processes of each tree that were alive when they were read, and are listed.
    fn members(&self, wanted: &[Wanted<'_>]) -> Vec<Vec<Process>> {
        let this = std::process::id();
        let all = || self.listed.values().flatten().chain(&self.reaped);
        let mut children: BTreeMap<u32, Vec<Process>> = BTreeMap::new();
        let mut found = vec![BTreeSet::new(); wanted.len()];
        for Seen { process, places, .. } in all().filter(|seen| seen.process.pid != this) {
            children.entry(process.parent).or_default().push(*process);
            for place in places {
                found[*place].insert(*process);
            }
        }
        for (found, wanted) in found.iter_mut().zip(wanted) {
            let group = wanted.tree.group.filter(|group| !self.is_reused(*group));
            let is_root = |process: &Process| {
                let known =
                    |root: &Process| (root.pid, root.started) == (process.pid, process.started);
                wanted.roots.iter().any(known) || group.is_some_and(|group| is_in(group, process))
            };
            found.extend(children.values().flatten().filter(|process| is_root(process)));
            add_descendants(found, &children);
            found.retain(|process| self.is_alive(process));
        }
        found.into_iter().map(|found| found.into_iter().collect()).collect()
    }

    fn is_alive(&self, process: &Process) -> bool {
        let seen = self.listed.get(&process.pid).and_then(Option::as_ref);
        seen.is_some_and(|seen| seen.process == *process && seen.stage != Stage::Ended)
    }

    /// Returns whether the number of a group is the pid of a later process.
    fn is_reused(&self, group: ProcessGroup) -> bool {
        let leader = self.listed.get(&group.leader).and_then(Option::as_ref);
        leader.is_some_and(|leader| leader.process.started != group.started)
    }
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

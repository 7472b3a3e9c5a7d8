//! How what happens is kept: in the store, in one commit for all that comes together; and where steps
//! come so quickly that commits would hold them up, on the run's slate first.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use windlass_core::{Fact, Input};
use windlass_store::{Durability, Extent, Jotting, Leftover, Slate, Store};

use super::leader::{Asking, Leader, Start, admit};
use super::pass::Record;
use super::{Coordinator, News, RunError, needs_names};
use crate::attempt::run_dir;
#[cfg(windlass_faults)]
use crate::fault::{self, Point};
use crate::presence;
use crate::schedule::Schedule;
use crate::spawn::begin_writing;

/// How long something may stand on the slate before the store takes it over. Where kills are tried,
/// as much as can be stands there.
const SOON: Duration = Duration::from_millis(if cfg!(windlass_faults) { 200 } else { 10 });
/// How often in a row something has to happen within that time before a slate is worth its file.
const BRISK: u32 = if cfg!(windlass_faults) { 1 } else { 8 };

/// How far what has happened is kept.
pub(super) struct Keeper {
    slate: Slate,
    /// Whether steps need names, which only the store can give.
    names: bool,
    /// How far the journal in the store goes.
    stored: Extent,
    /// How much of what is not in the store stands on the slate: facts, and records beside them.
    jotted: (usize, usize),
    /// Since when something stands there.
    since: Option<Instant>,
    /// Since when there is something that a loss of power would take.
    pub(super) unsynced: Option<Instant>,
    /// There is something of that which does not stand on the slate.
    beside: bool,
    /// When something happened last, and how often in a row it was soon after what came before.
    last: Option<Instant>,
    brisk: u32,
}

impl Keeper {
    /// For a run with its files in `dir`, whose journal goes that far.
    pub(super) fn new(dir: &Path, schedule: &Schedule, stored: Extent) -> Self {
        Self {
            slate: Slate::new(&path(dir)),
            names: schedule.plan().steps.iter().any(needs_names),
            stored,
            jotted: (0, 0),
            since: None,
            unsynced: None,
            beside: false,
            last: None,
            brisk: 0,
        }
    }

    /// Something happens: whether it is one of many things.
    fn is_brisk(&mut self) -> bool {
        let now = Instant::now();
        let soon = self.last.replace(now).is_some_and(|last| now.duration_since(last) < SOON);
        self.brisk = if soon { self.brisk.saturating_add(1) } else { 0 };
        self.brisk >= BRISK
    }

    /// How long until the store takes over what stands on the slate; none if nothing does.
    pub(super) fn until_stored(&self) -> Option<Duration> {
        self.since.map(|since| SOON.saturating_sub(since.elapsed()))
    }

    /// The store has these facts, and so many records.
    fn note_stored(&mut self, facts: &[Fact], records: usize) {
        if (facts.len(), records) != self.jotted {
            self.beside = true;
            self.unsynced.get_or_insert_with(Instant::now);
        }
        self.stored = self.stored.with(facts);
        self.jotted = (0, 0);
        self.since = None;
    }
}

/// Where the slate of a run is that has its files in `dir`.
fn path(dir: &Path) -> PathBuf {
    dir.join("slate")
}

/// What stands on the slate of a run that has its files in `dir`, and not in its journal.
pub(crate) fn left_on_slate(dir: &Path, journal: &[Fact]) -> io::Result<Jotting> {
    Slate::read(&path(dir), journal)
}

/// The journal of a run, once the store has what a dead leader has left on the slate.
pub(super) fn complete_journal(store: &mut Store, leader: &Leader) -> Result<Vec<Fact>, RunError> {
    let run = &leader.run.id;
    let mut facts = store.facts(run)?;
    let what = "what the last leader of the run has left cannot be read";
    let left = left_on_slate(&run_dir(store.dir(), run), &facts);
    let left = left.map_err(|source| RunError::Io { what, source })?;
    if !left.is_empty() {
        store.transact(|transaction| {
            let mut attempts = left.attempts.iter();
            attempts.try_for_each(|record| transaction.put_attempt(run, record))?;
            transaction.append(run, leader.epoch, &left.facts)
        })?;
        facts.extend(left.facts);
    }
    Ok(facts)
}

impl Coordinator {
    /// Applies all news, decides what starts, and keeps all of it, so that it survives a kill; what is
    /// told or built upon needs a sync first.
    pub(super) fn keep(&mut self, news: Vec<News>) -> Result<Vec<Start>, RunError> {
        self.schedule.apply(Input::Tick).expect("time passes");
        news.into_iter().for_each(|news| self.apply(news));
        self.schedule.heed_failures();
        if !self.may_jot() {
            return self.commit();
        }
        let mut starts = self.begin_all();
        if !self.jot() {
            starts.extend(self.commit()?);
        }
        Ok(starts)
    }

    /// Whether what happens now can stand on the slate: many things happen, and none of them that
    /// others have to hear of, or that ends the run.
    fn may_jot(&mut self) -> bool {
        let plain = self.records.iter().skip(self.keeper.jotted.1).all(Record::is_plain);
        let goes_on = self.stop.is_none() && !self.schedule.engine().is_done();
        self.keeper.is_brisk() && !self.keeper.names && plain && goes_on
    }

    /// Begins every work that fits inside the run, which needs no names.
    fn begin_all(&mut self) -> Vec<Start> {
        let mut starts = Vec::new();
        while let Some(grant) = self.schedule.take_next() {
            self.schedule.begin(grant).expect("it was granted just now");
            starts.push(Start { grant, names: Vec::new(), broken: None });
        }
        starts
    }

    /// Jots down what has happened; not if there is no room for it.
    fn jot(&mut self) -> bool {
        let Self { keeper, schedule, records, .. } = self;
        let (before, new) = schedule.facts().split_at(keeper.jotted.0);
        let attempts = records.iter().skip(keeper.jotted.1).filter_map(Record::attempt);
        if new.is_empty() {
            return records.len() == keeper.jotted.1;
        }
        #[cfg(windlass_faults)]
        fault::note_digest(schedule.engine().digest());
        #[cfg(windlass_faults)]
        Point::BeforeJotting.reached();
        if !keeper.slate.write(keeper.stored.with(before), new, attempts) {
            return false;
        }
        #[cfg(windlass_faults)]
        Point::AfterJotting.committed();
        keeper.jotted = (schedule.facts().len(), records.len());
        let now = Instant::now();
        keeper.since.get_or_insert(now);
        keeper.unsynced.get_or_insert(now);
        true
    }

    /// Stores all that has happened in one commit, and begins the works whose names can be had in it.
    fn commit(&mut self) -> Result<Vec<Start>, RunError> {
        let admits = self.stop.is_none();
        self.store_all(admits)
    }

    fn store_all(&mut self, admits: bool) -> Result<Vec<Start>, RunError> {
        let records = std::mem::take(&mut self.records);
        let Self { store, schedule, leader, logs, ended, bells, .. } = self;
        let (mut leftovers, mut refusals) = (Vec::new(), Vec::new());
        let (starts, facts) = store.transact_with(Durability::Process, |transaction| {
            records.iter().try_for_each(|record| record.store(transaction, leader))?;
            leader.leave_lines(transaction, schedule, |phase| phase.state().is_terminal())?;
            let mut starts = Vec::new();
            if admits {
                let bell = bells.turn();
                let (leftovers, refusals) = (&mut leftovers, &mut refusals);
                let mut asking = Asking { ended, leftovers, bell, refusals };
                starts = admit(schedule, leader, logs, transaction, &mut asking)?;
            }
            let facts = leader.append(transaction, schedule)?;
            #[cfg(windlass_faults)]
            Point::BeforeCommit.reached();
            Ok((starts, facts))
        })?;
        #[cfg(windlass_faults)]
        Point::AfterCommit.committed();
        self.keeper.note_stored(&facts, records.len());
        self.end_leftovers(leftovers)?;
        self.note_refusals(refusals, &starts);
        Ok(starts)
    }

    /// Has the store take over what has stood on the slate for long enough.
    pub(super) fn store_when_due(&mut self) -> Result<(), RunError> {
        match self.keeper.until_stored() {
            Some(Duration::ZERO) => self.store_all(false).map(drop),
            _ => Ok(()),
        }
    }

    /// The disk can begin with what is to be synced.
    pub(super) fn begin_sync(&mut self) {
        match self.keeper.beside {
            true => self.store.log().into_iter().for_each(begin_writing),
            false => self.keeper.slate.file_to_sync().into_iter().for_each(begin_writing),
        }
    }

    /// Whatever has happened survives a loss of power from now on. Those who are in a hurry need not
    /// wait until the store has what stands on the slate.
    pub(super) fn sync(&mut self, in_a_hurry: bool) -> Result<(), RunError> {
        if self.keeper.unsynced.take().is_none() {
            return Ok(());
        }
        if in_a_hurry && !self.keeper.beside {
            return Ok(self.keeper.slate.sync()?);
        }
        self.store_rest()?;
        self.store.sync()?;
        self.keeper.unsynced = None;
        self.keeper.beside = false;
        self.keeper.slate.wipe();
        Ok(())
    }

    /// The store has everything from now on.
    pub(super) fn store_rest(&mut self) -> Result<(), RunError> {
        match self.keeper.since {
            Some(_) => self.store_all(false).map(drop),
            None => Ok(()),
        }
    }

    /// Nothing happens any more, and everything is in the store.
    pub(super) fn keep_no_longer(&mut self) {
        self.keeper.slate.remove();
    }

    /// Ends what dead holders of our names have left running; the names are had at the next try.
    fn end_leftovers(&mut self, leftovers: Vec<Leftover>) -> Result<(), RunError> {
        self.ended.clear();
        for Leftover { name, token, tree, .. } in leftovers {
            // Everybody who wants a name says the same of it, and a look at all processes is long.
            if self.ended.contains(&(name.clone(), token)) {
                continue;
            }
            let what = "what a dead holder has left running cannot be ended";
            let ended = presence::end_leftover(self.store.dir(), &tree);
            ended.map_err(|source| RunError::Io { what, source })?;
            self.ended.push((name, token));
            #[cfg(windlass_faults)]
            Point::AfterClearing.reached();
        }
        Ok(())
    }
}

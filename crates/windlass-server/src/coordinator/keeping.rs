//! How what happens is kept: in the store, in one commit for all that comes together; and where steps
//! come so quickly that commits would hold them up, on the run's slate first.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use windlass_core::{Fact, Input};
use windlass_store::{Durability, JournalPosition, Leftover, Store, Wal, WalSnapshot};

use super::leader::{Asking, Leader, Start, admit};
use super::pass::Record;
use super::{Coordinator, News, RunError, needs_names};
use crate::attempt::run_dir;
#[cfg(windlass_faults)]
use crate::fault::{self, Point};
use crate::presence;
use crate::schedule::Schedule;
use crate::spawn::begin_writing;

/// How soon after those before news come quickly.
const QUICKLY: Duration = Duration::from_millis(10);

/// When a slate is used.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    /// How often in a row news have to come quickly before a slate is worth its file.
    pub(super) brisk: u32,
    /// How long something may stand on the slate before the store takes it over.
    pub(super) stand: Duration,
}

impl Pace {
    const USUAL: Self = Self { brisk: 8, stand: Duration::from_millis(50) };
    /// Where kills are tried, as much as can be stands there.
    const TRIED: Self = Self { brisk: 0, stand: Duration::from_millis(200) };
}

/// How far what has happened is kept.
pub(super) struct Keeper {
    slate: Wal,
    pub(super) pace: Pace,
    /// Whether steps need names, which only the store can give.
    names: bool,
    /// How far the journal in the store goes.
    stored: JournalPosition,
    jotted: Option<Jotted>,
    unsynced: Option<Unsynced>,
    /// When news came last, and how often in a row they came quickly.
    last: Option<Instant>,
    brisk: u32,
    /// The last commit did not succeed, so the engine knows more than the store.
    failed: bool,
}

/// What stands on the slate and not in the store.
struct Jotted {
    facts: usize,
    /// Beside them.
    records: usize,
    since: Instant,
}

/// Something that a loss of power would take.
struct Unsynced {
    since: Instant,
    /// Not all of it stands on the slate.
    beside: bool,
}

impl Keeper {
    /// For a run with its files in `dir`, whose journal goes that far.
    pub(super) fn new(dir: &Path, schedule: &Schedule, stored: JournalPosition) -> Self {
        Self {
            slate: Wal::new(&path(dir)),
            pace: if cfg!(windlass_faults) { Pace::TRIED } else { Pace::USUAL },
            names: schedule.plan().steps.iter().any(needs_names),
            stored,
            jotted: None,
            unsynced: None,
            last: None,
            brisk: 0,
            failed: false,
        }
    }

    /// Whether what has happened last could not be stored.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    fn note_news(&mut self) {
        let now = Instant::now();
        let last = self.last.replace(now);
        let quickly = last.is_some_and(|last| now.duration_since(last) < QUICKLY);
        self.brisk = if quickly { self.brisk.saturating_add(1) } else { 0 };
    }

    /// How many of the facts and records that are not in the store stand on the slate.
    fn jotted(&self) -> (usize, usize) {
        self.jotted.as_ref().map_or((0, 0), |jotted| (jotted.facts, jotted.records))
    }

    /// The slate has so many facts and records that the store does not have.
    fn note_jotted(&mut self, facts: usize, records: usize) {
        let since = self.jotted.as_ref().map_or_else(Instant::now, |jotted| jotted.since);
        self.jotted = Some(Jotted { facts, records, since });
        self.unsynced.get_or_insert(Unsynced { since, beside: false });
    }

    /// The store has these facts, and so many records.
    fn note_stored(&mut self, facts: &[Fact], records: usize) {
        if (facts.len(), records) != self.jotted() {
            let now = Instant::now();
            self.unsynced.get_or_insert(Unsynced { since: now, beside: true }).beside = true;
        }
        self.stored = self.stored.with(facts);
        self.jotted = None;
    }

    /// How long until the store takes over what stands on the slate; none if nothing does.
    pub(super) fn until_stored(&self) -> Option<Duration> {
        self.jotted.as_ref().map(|jotted| self.pace.stand.saturating_sub(jotted.since.elapsed()))
    }

    /// For how long there has been something that a loss of power would take; none if there is not.
    pub(super) fn unsynced_for(&self) -> Option<Duration> {
        self.unsynced.as_ref().map(|unsynced| unsynced.since.elapsed())
    }
}

/// Where the slate of a run is that has its files in `dir`.
fn path(dir: &Path) -> PathBuf {
    dir.join("slate")
}

/// What stands on the slate of a run that has its files in `dir`. To be read before the journal.
pub(crate) fn read_slate(dir: &Path) -> io::Result<WalSnapshot> {
    Wal::read(&path(dir))
}

/// The journal of a run, once the store has what a dead leader has left on the slate.
pub(super) fn complete_journal(store: &mut Store, leader: &Leader) -> Result<Vec<Fact>, RunError> {
    let run = &leader.run.id;
    let what = "what the last leader of the run has left cannot be read";
    let slate = read_slate(&run_dir(store.dir(), run));
    let slate = slate.map_err(|source| RunError::Io { what, source })?;
    let mut facts = store.facts(run)?;
    let left = slate.after(&facts);
    if !left.is_empty() {
        store.transact(|transaction| {
            let mut attempts = left.attempts.iter();
            attempts.try_for_each(|record| transaction.steps().put_attempt(run, record))?;
            transaction.facts().append(run, leader.epoch, &left.facts)
        })?;
        facts.extend(left.facts);
    }
    Ok(facts)
}

impl Coordinator {
    /// Applies all news, decides what starts, and keeps all of it, so that it survives a kill; what is
    /// told or built upon needs a sync first.
    pub(super) fn keep(&mut self, news: Vec<News>) -> Result<Vec<Start>, RunError> {
        self.decided = Instant::now();
        self.schedule.apply(Input::Tick).expect("time passes");
        news.into_iter().for_each(|news| self.apply(news));
        self.schedule.heed_failures();
        self.explain_ends();
        self.keeper.note_news();
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
    fn may_jot(&self) -> bool {
        let Self { keeper, records, .. } = self;
        let brisk = keeper.brisk >= keeper.pace.brisk;
        let plain = records.iter().skip(keeper.jotted().1).all(Record::is_plain);
        let goes_on = self.stop.is_none() && !self.schedule.engine().is_done();
        brisk && plain && goes_on && !keeper.names
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
        let (facts, known) = keeper.jotted();
        let (before, new) = schedule.facts().split_at(facts);
        if new.is_empty() {
            return records.len() == known;
        }
        #[cfg(windlass_faults)]
        fault::note_digest(schedule.engine().digest());
        #[cfg(windlass_faults)]
        Point::BeforeJotting.reached();
        let attempts = records.iter().skip(known).filter_map(Record::attempt);
        let written = keeper.slate.write(keeper.stored.with(before), new, attempts);
        if written {
            #[cfg(windlass_faults)]
            Point::AfterJotting.committed();
            keeper.note_jotted(schedule.facts().len(), records.len());
        }
        written
    }

    /// Stores all that has happened in one commit, and begins the works whose names can be had in it.
    fn commit(&mut self) -> Result<Vec<Start>, RunError> {
        let admits = self.stop.is_none();
        self.store_all(admits)
    }

    /// Stores all that has happened in one commit; nobody begins in it unless it `admits`.
    fn store_all(&mut self, admits: bool) -> Result<Vec<Start>, RunError> {
        self.keeper.failed = true;
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
        self.keeper.failed = false;
        self.keeper.note_stored(&facts, records.len());
        self.end_leftovers(leftovers)?;
        self.note_refusals(refusals, &starts);
        Ok(starts)
    }

    /// Has the store take over what has stood on the slate for long enough.
    pub(super) fn store_when_due(&mut self) -> Result<(), RunError> {
        match self.keeper.until_stored() {
            Some(Duration::ZERO) => self.store_rest(),
            _ => Ok(()),
        }
    }

    /// The disk can begin with what is to be synced.
    pub(super) fn begin_sync(&mut self) {
        let Self { keeper, store, .. } = self;
        let beside = keeper.unsynced.as_ref().is_some_and(|unsynced| unsynced.beside);
        let file = if beside { store.file_to_sync() } else { keeper.slate.file_to_sync() };
        file.into_iter().for_each(begin_writing);
    }

    /// Whatever has happened survives a loss of power from now on, for those who follow and do not wait
    /// until the store has what stands on the slate.
    pub(super) fn sync_quickly(&mut self) -> Result<(), RunError> {
        let Keeper { unsynced, slate, .. } = &mut self.keeper;
        if unsynced.as_ref().is_some_and(|unsynced| !unsynced.beside) && slate.sync() {
            *unsynced = None;
        }
        self.sync()
    }

    /// Whatever has happened survives a loss of power from now on, and the slate is clean.
    pub(super) fn sync(&mut self) -> Result<(), RunError> {
        if self.keeper.unsynced.is_some() {
            self.store_rest()?;
            self.store.sync()?;
            self.keeper.unsynced = None;
            self.keeper.slate.clear();
        }
        Ok(())
    }

    /// The store has everything from now on.
    pub(super) fn store_rest(&mut self) -> Result<(), RunError> {
        match self.keeper.jotted.is_some() || !self.records.is_empty() {
            true => self.store_all(false).map(drop),
            false => Ok(()),
        }
    }

    /// Nothing happens any more, and everything is in the store.
    pub(super) fn keep_no_longer(&mut self) {
        self.keeper.slate.remove();
    }

    /// Ends what dead holders of our names have left running; the names are had at the next try.
    fn end_leftovers(&mut self, leftovers: Vec<Leftover>) -> Result<(), RunError> {
        self.ended.clear();
        for leftover in leftovers {
            // Everybody who wants a name says the same of it, and a look at all processes is long.
            let seen = (leftover.name.clone(), leftover.token);
            if self.ended.contains(&seen) {
                continue;
            }
            let what = "what a dead holder has left running cannot be ended";
            let free = presence::end_leftover(self.store.dir(), &leftover);
            if !free.map_err(|source| RunError::Io { what, source })? {
                continue;
            }
            self.ended.push(seen);
            #[cfg(windlass_faults)]
            Point::AfterClearing.reached();
        }
        Ok(())
    }
}

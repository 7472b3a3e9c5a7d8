//! Everything that can be done within one commit.
//!
//! Who gets a name is decided by core's machines, over what was loaded in this very transaction.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::slice;

use windlass_core::{
    Answer, Claim as CoreClaim, Claimed as CoreClaimed, Fact, Hold, HolderId, LeaseTerms, Name,
    NameRefusal, Need, Remains, Token, WorkId,
};

use crate::clock::ClockReading;
use crate::error::StoreError;
use crate::lease_group::{Claimant, LeaseGroup, Leftover, Scope};
use crate::name::{check_name, check_text};
use crate::process::Process;
use crate::run::{AttemptRecord, GuardWait, RunEnd, RunListing, RunRecord};
use crate::tables::{
    Event, ProcessGroup, ProcessTree, Request, StoredLease, StoredName, StoredWaiter, Tables,
};
use crate::wakeup::Topic;

/// Whether one who is refused stays in line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRefusal {
    /// It does, and comes again when its turn has come.
    #[default]
    Wait,
    /// It does not.
    GiveUp,
}

/// A request for several names, together or not at all.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// Who asks; unique for one life of one holder.
    pub holder: &'a HolderId,
    /// What it asks for.
    pub needs: &'a [Need],
    /// Larger is more urgent.
    pub priority: i64,
    /// For how long it wants to hold them.
    pub terms: LeaseTerms,
    /// The process that stands for it: when it is gone, so is the hold.
    pub process: Option<&'a Process>,
    /// The process that waits for it, if that is another one: when it is gone, so is its place in
    /// line.
    pub waiter: Option<&'a Process>,
    /// What will act in its name; ended before anyone else gets the names.
    pub tree: Option<&'a ProcessTree>,
    /// Whether it stays in line if it is refused.
    pub on_refusal: OnRefusal,
    /// The wakeup to ring when its turn comes.
    pub wakeup: Option<&'a str>,
    /// Stale holds of which the caller has seen to it that nothing is left.
    pub ended: &'a [(Name, Token)],
}

impl<'a> Claim<'a> {
    /// A claim with the usual terms, and nobody behind it.
    #[must_use]
    pub fn new(holder: &'a HolderId, needs: &'a [Need]) -> Self {
        Self {
            holder,
            needs,
            priority: 0,
            terms: LeaseTerms::default(),
            process: None,
            waiter: None,
            tree: None,
            on_refusal: OnRefusal::Wait,
            wakeup: None,
            ended: &[],
        }
    }

    fn for_core(&self) -> CoreClaim {
        let mut claim = CoreClaim::new(self.holder.clone(), self.needs.to_vec());
        claim.priority = self.priority;
        claim.terms = self.terms;
        claim.remains = if self.tree.is_some() { Remains::Possible } else { Remains::None };
        claim
    }

    fn claimant(&self) -> Claimant {
        Claimant {
            process: self.process.cloned(),
            waiter: self.waiter.or(self.process).cloned(),
            tree: self.tree.cloned(),
            wakeup: self.wakeup.map(str::to_owned),
        }
    }
}

/// The answer to a [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Claimed {
    /// All names are held, in the order in which they were asked for.
    Held(Vec<Hold>),
    /// None is held; the holder has a place in line if it wanted one.
    Refused(Refused),
}

/// Who stood in the way of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The names that could not be had, and why; never empty.
    pub refusals: Vec<NameRefusal>,
    /// What has to be ended first; then claim again, with these as `ended`.
    pub leftovers: Vec<Leftover>,
    /// The processes whose end would make room.
    pub blockers: Vec<Process>,
    /// How many stand before us in line for the first of them.
    pub ahead: usize,
}

impl Refused {
    /// The first name that refused, and who has it or stands in line for it before us.
    #[must_use]
    pub fn first(&self) -> (&Name, &HolderId) {
        let NameRefusal { name, holders, ahead, .. } = &self.refusals[0];
        (name, holders.iter().chain(ahead).next().expect("somebody is in the way"))
    }
}

/// What is known of one name, for people to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameView {
    /// The name.
    pub name: Name,
    /// What stays of it.
    pub stored: StoredName,
    /// Who holds it.
    pub leases: Vec<StoredLease>,
    /// Who waits for it, in order.
    pub waiters: Vec<StoredWaiter>,
}

/// One commit in the making.
pub struct Transaction<'a> {
    records: &'a dyn Tables,
    reading: ClockReading,
    rings: RefCell<Vec<(Topic, Option<String>)>>,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(records: &'a dyn Tables, reading: ClockReading) -> Self {
        Self { records, reading, rings: RefCell::new(Vec::new()) }
    }

    /// Which wakeups to ring once this is committed.
    pub(crate) fn into_rings(self) -> Vec<(Topic, Option<String>)> {
        self.rings.into_inner()
    }

    /// The time at which all of this happens.
    #[must_use]
    pub fn now(&self) -> &ClockReading {
        &self.reading
    }

    /// Whether the store has seen this boot, so that its tokens are above all before.
    pub(crate) fn knows_boot(&self) -> Result<bool, StoreError> {
        Ok(self.records.meta()?.boot == self.reading.boot)
    }

    /// Makes a semaphore, or gives it another capacity if nobody holds or waits for it.
    pub fn declare(&self, name: &str, capacity: u32) -> Result<(), StoreError> {
        let key = Name::Semaphore(name.to_owned());
        check_name(&key)?;
        self.coordinate(slice::from_ref(&key), |group| {
            let now = group.reading.at;
            let declared = group.state.declare(name, capacity, now);
            let Err(in_use) = declared else { return Ok(()) };
            // Somebody who is gone may be all that is in the way.
            let held = group.state.leases(&key).map(|lease| lease.holder.clone()).collect();
            let ahead = group.state.waiters(&key).map(|t| t.holder.clone()).collect();
            let all = NameRefusal { name: key.clone(), available: 0, holders: held, ahead };
            if !group.clear_the_dead(&[all]) {
                return Err(in_use.into());
            }
            Ok(group.state.declare(name, capacity, now)?)
        })
    }

    /// Takes all names, or leaves the holder a place in line.
    pub fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        let names = wanted(claim)?;
        if let Some(refused) = self.refuse_alone(claim, &names)? {
            return Ok(Claimed::Refused(refused));
        }
        self.coordinate(&names, |group| match self.refuse(group, claim)? {
            Some(refused) => Ok(Claimed::Refused(refused)),
            None => match group.state.claim(&claim.for_core(), group.reading.at)? {
                CoreClaimed::Held(holds) => Ok(Claimed::Held(holds)),
                CoreClaimed::Refused(refusals) => unreachable!("{refusals:?} were looked for"),
            },
        })
    }

    /// What refuses a claim, which has a place in line then. If nothing does, nothing is taken, and
    /// the claim may be made whenever that suits the holder.
    pub fn refusal(&self, claim: &Claim<'_>) -> Result<Option<Refused>, StoreError> {
        let names = wanted(claim)?;
        match self.refuse_alone(claim, &names)? {
            Some(refused) => Ok(Some(refused)),
            None => self.coordinate(&names, |group| self.refuse(group, claim)),
        }
    }

    /// One name that others hold is refused whoever else waits, so a long line costs nothing to
    /// those who join it.
    fn refuse_alone(
        &self,
        claim: &Claim<'_>,
        names: &[Name],
    ) -> Result<Option<Refused>, StoreError> {
        let [_] = claim.needs else { return Ok(None) };
        let scope = Scope::Own(claim.holder);
        let mut group = LeaseGroup::load(self.records, names, scope, &self.reading)?;
        let refused = self.refuse(&mut group, claim)?;
        if refused.is_some() {
            self.finish(group)?;
        }
        Ok(refused)
    }

    /// Gives the claim its place in line if something refuses it, as far as the group knows.
    /// Those who are gone are out of the way before anybody is refused because of them.
    fn refuse(
        &self,
        group: &mut LeaseGroup<'_>,
        claim: &Claim<'_>,
    ) -> Result<Option<Refused>, StoreError> {
        group.claimant = claim.claimant();
        for (name, token) in claim.ended {
            group.state.bury(name, *token);
        }
        let (core, now) = (claim.for_core(), group.reading.at);
        while group.clear_the_dead(&group.state.obstacles(&core, now)?) {}
        if group.state.obstacles(&core, now)?.is_empty() {
            return Ok(None);
        }
        let CoreClaimed::Refused(refusals) = group.state.claim(&core, now)? else {
            unreachable!("something was in the way")
        };
        let refused = self.refused(group, claim.holder, refusals)?;
        if claim.on_refusal == OnRefusal::GiveUp {
            group.state.leave(claim.holder, now);
        }
        Ok(Some(refused))
    }

    fn refused(
        &self,
        group: &LeaseGroup<'_>,
        holder: &HolderId,
        refusals: Vec<NameRefusal>,
    ) -> Result<Refused, StoreError> {
        let name = refusals[0].name.clone();
        let mut waiters = group.state.waiters(&name);
        let own = waiters.find(|waiter| waiter.holder == *holder).expect("it stands in line");
        let ahead = self.records.ahead(&name, own.priority, own.arrival)?;
        let leftovers = group.leftovers(&refusals);
        let blockers = group.blockers(&refusals);
        Ok(Refused { refusals, leftovers, blockers, ahead })
    }

    /// Gives one name back.
    pub fn release(
        &self,
        name: &Name,
        holder: &HolderId,
        token: Token,
    ) -> Result<Answer, StoreError> {
        self.coordinate(slice::from_ref(name), |group| {
            Ok(group.state.release(name, holder, token, group.reading.at))
        })
    }

    /// A sign of life of the one who holds `name`.
    pub fn heartbeat(
        &self,
        name: &Name,
        holder: &HolderId,
        token: Token,
    ) -> Result<Answer, StoreError> {
        self.coordinate(slice::from_ref(name), |group| {
            Ok(group.state.heartbeat(name, holder, token, group.reading.at))
        })
    }

    /// A sign of life for everything that is held by one process. The names for which it came too
    /// late are returned.
    pub fn heartbeat_process(&self, process: &Process) -> Result<Vec<Name>, StoreError> {
        let mut lost = Vec::new();
        for StoredLease { name, lease, owner } in self.records.leases(None)? {
            if owner.process.as_ref() == Some(process)
                && !self.heartbeat(&name, &lease.holder, lease.token)?.is_yes()
            {
                lost.push(name);
            }
        }
        Ok(lost)
    }

    /// Whether `token` is that of a present hold on `name`, and whose.
    pub fn check(
        &self,
        name: &Name,
        token: Token,
    ) -> Result<(Answer, Option<HolderId>), StoreError> {
        self.coordinate(slice::from_ref(name), |group| {
            let held: Vec<_> = group.state.leases(name).cloned().collect();
            let owner = held.iter().find(|lease| lease.token == token);
            let refusal = NameRefusal {
                name: name.clone(),
                available: 0,
                holders: held.iter().map(|lease| lease.holder.clone()).collect(),
                ahead: Vec::new(),
            };
            group.clear_the_dead(slice::from_ref(&refusal));
            let answer = group.state.check(name, token, group.reading.at);
            Ok((answer, owner.map(|lease| lease.holder.clone())))
        })
    }

    /// Says in which group of processes the holder's command runs.
    pub fn attach(
        &self,
        name: &Name,
        holder: &HolderId,
        token: Token,
        group: ProcessGroup,
    ) -> Result<(), StoreError> {
        for mut stored in self.records.leases(Some(name))? {
            if stored.lease.holder == *holder && stored.lease.token == token {
                stored.owner.tree.iter_mut().for_each(|tree| tree.group = Some(group));
                self.records.put_lease(&stored)?;
            }
        }
        Ok(())
    }

    /// Gives up a place in line, if there is one.
    pub fn leave_line(&self, holder: &HolderId) -> Result<(), StoreError> {
        let names = self.records.waits_for(holder)?;
        if names.is_empty() {
            return Ok(());
        }
        self.coordinate(&names, |group| {
            group.state.leave(holder, group.reading.at);
            Ok(())
        })
    }

    /// Who holds a name.
    pub fn leases(&self, name: &Name) -> Result<Vec<StoredLease>, StoreError> {
        self.records.leases(Some(name))
    }

    /// Who stands in line for a name, in order.
    pub fn line(&self, name: &Name) -> Result<Vec<HolderId>, StoreError> {
        let mut waiters = self.records.waiters(Some(name))?;
        waiters.sort_by_key(rank);
        Ok(waiters.into_iter().map(|stored| stored.waiter.holder).collect())
    }

    /// Every name that is held or waited for.
    pub fn overview(&self) -> Result<Vec<NameView>, StoreError> {
        let (leases, mut waiters) = (self.records.leases(None)?, self.records.waiters(None)?);
        waiters.sort_by_key(rank);
        let held = leases.iter().map(|lease| &lease.name);
        let wanted = waiters.iter().flat_map(|stored| &stored.waiter.needs).map(|need| &need.name);
        let names: BTreeSet<&Name> = held.chain(wanted).collect();
        let view = |name: &Name| {
            let holds = |lease: &&StoredLease| lease.name == *name;
            let waits =
                |stored: &&StoredWaiter| stored.waiter.needs.iter().any(|need| need.name == *name);
            Ok(NameView {
                name: name.clone(),
                stored: self.records.name(name)?.unwrap_or_default(),
                leases: leases.iter().filter(holds).cloned().collect(),
                waiters: waiters.iter().filter(waits).cloned().collect(),
            })
        };
        names.into_iter().map(view).collect()
    }

    /// Adds an event, and says which number it has.
    pub fn emit(&self, name: &str) -> Result<u64, StoreError> {
        check_text(name)?;
        self.rings.borrow_mut().push((Topic::Events, None));
        self.records.append_event(name, self.reading.wall_ms)
    }

    /// Up to `limit` events with numbers above `after`, in order.
    pub fn events(&self, after: u64, limit: usize) -> Result<Vec<Event>, StoreError> {
        self.records.events(after, limit)
    }

    /// The number of the latest event; 0 if there is none.
    pub fn last_event(&self) -> Result<u64, StoreError> {
        self.records.last_event()
    }

    /// Takes the events away that are older than `before_ms`, and says how many they were. Their
    /// numbers are not used again.
    pub fn forget_events(&self, before_ms: i64) -> Result<usize, StoreError> {
        self.records.delete_events(before_ms)
    }

    /// Asks whoever listens for `target` to do something.
    pub fn ask(&self, target: &str, text: &str) -> Result<u64, StoreError> {
        check_text(target)?;
        self.rings.borrow_mut().push((Topic::Requests, None));
        self.records.put_request(target, text, self.reading.wall_ms)
    }

    /// The requests to a target that nobody has taken yet, in order.
    pub fn requests(&self, target: &str) -> Result<Vec<Request>, StoreError> {
        self.records.requests(target)
    }

    /// Takes a request, so that nobody else does. Whether it was still there.
    pub fn take_request(&self, number: u64) -> Result<bool, StoreError> {
        self.records.take_request(number)
    }

    /// An id that no run has.
    pub fn new_run_id(&self) -> Result<String, StoreError> {
        self.records.new_run_id()
    }

    /// Stores a new run. Refused if its directory has a name that is no text.
    pub fn insert_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        if run.dir.to_str().is_none() {
            return Err(StoreError::PathNotUtf8 { dir: run.dir.clone() });
        }
        self.records.insert_run(run, self.reading.wall_ms)
    }

    /// The run whose id begins with `prefix`; `last` stands for the newest.
    pub fn run(&self, prefix: &str) -> Result<RunRecord, StoreError> {
        // No id is like it: they are made of hexadecimal digits.
        if let ("last", Some(newest)) = (prefix, self.records.latest_runs(None, 1)?.pop()) {
            return self.run(&newest.id);
        }
        let run = || prefix.to_owned();
        // Every id begins with nothing, and nobody means all of them.
        if prefix.is_empty() {
            return Err(StoreError::UnknownRun { run: run() });
        }
        let mut found = self.records.runs(prefix)?.into_iter();
        match (found.next(), found.next()) {
            (None, _) => Err(StoreError::UnknownRun { run: run() }),
            (Some(only), None) => Ok(only),
            (Some(_), Some(_)) => Err(StoreError::AmbiguousRun { run: run() }),
        }
    }

    /// Adds to the journal of a run. Refused unless `epoch` is the token under which the run is led
    /// now.
    pub fn append(&self, run: &str, epoch: Token, facts: &[Fact]) -> Result<(), StoreError> {
        if !self.records.is_held_as(&Name::Run(run.to_owned()), epoch)? {
            return Err(StoreError::StaleEpoch { run: run.to_owned() });
        }
        self.records.append_facts(run, epoch, facts)
    }

    /// The journal of a run.
    pub fn facts(&self, run: &str) -> Result<Vec<Fact>, StoreError> {
        self.records.facts(run)
    }

    /// Up to `limit` runs, the newest first; of one workflow, or of all.
    pub fn latest_runs(
        &self,
        workflow: Option<&str>,
        limit: usize,
    ) -> Result<Vec<RunListing>, StoreError> {
        self.records.latest_runs(workflow, limit)
    }

    /// How a run ended; none if it has not.
    pub fn run_end(&self, run: &str) -> Result<Option<RunEnd>, StoreError> {
        self.records.run_end(run)
    }

    /// One run as it is listed.
    pub fn listing(&self, run: &str) -> Result<RunListing, StoreError> {
        let listing = self.records.listing(run)?;
        listing.ok_or_else(|| StoreError::UnknownRun { run: run.to_owned() })
    }

    /// The runs that have not ended, the newest first.
    pub fn open_runs(&self) -> Result<Vec<RunListing>, StoreError> {
        self.records.open_runs()
    }

    /// Puts the end of a run, or takes it away when the run goes on after all.
    pub fn put_run_end(&self, run: &str, end: Option<RunEnd>) -> Result<(), StoreError> {
        self.records.put_run_end(run, end)
    }

    /// Takes a run away, with everything that is kept of it.
    pub fn delete_run(&self, run: &str) -> Result<(), StoreError> {
        self.records.delete_run(run)
    }

    /// Puts how an attempt went, in the place of what was known of it.
    pub fn put_attempt(&self, run: &str, attempt: &AttemptRecord) -> Result<(), StoreError> {
        self.records.put_attempt(run, attempt)
    }

    /// How the attempts of a run went, by step and attempt.
    pub fn attempts(&self, run: &str) -> Result<Vec<AttemptRecord>, StoreError> {
        self.records.attempts(run)
    }

    /// Puts the guard that a step waits for.
    pub fn put_wait(&self, run: &str, wait: &GuardWait) -> Result<(), StoreError> {
        self.records.put_wait(run, wait)
    }

    /// The step waits for no guard any more.
    pub fn delete_wait(&self, run: &str, work: WorkId) -> Result<(), StoreError> {
        self.records.delete_wait(run, work)
    }

    /// The guards that the steps of a run wait for.
    pub fn waits(&self, run: &str) -> Result<Vec<GuardWait>, StoreError> {
        self.records.waits(run)
    }

    /// Loads what bears on `names`, acts on it, and saves what has changed.
    fn coordinate<T>(
        &self,
        names: &[Name],
        act: impl FnOnce(&mut LeaseGroup<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut group = LeaseGroup::load(self.records, names, Scope::Line, &self.reading)?;
        let result = act(&mut group)?;
        self.finish(group)?;
        Ok(result)
    }

    fn finish(&self, mut group: LeaseGroup<'_>) -> Result<(), StoreError> {
        let wakeups = group.wakeups();
        group.save(self.records)?;
        self.rings
            .borrow_mut()
            .extend(wakeups.into_iter().map(|wakeup| (Topic::Turn, Some(wakeup))));
        Ok(())
    }
}

/// A place in line: smaller comes first.
fn rank(stored: &StoredWaiter) -> (Reverse<i64>, u64) {
    (Reverse(stored.waiter.priority), stored.waiter.arrival)
}

/// The names of a claim, which make sense.
fn wanted(claim: &Claim<'_>) -> Result<Vec<Name>, StoreError> {
    check_text(claim.holder.as_str())?;
    let names: Vec<_> = claim.needs.iter().map(|need| need.name.clone()).collect();
    names.iter().try_for_each(check_name)?;
    Ok(names)
}

//! The steps of a run that stays open: they are added while it runs, and forgotten after they have ended.
//!
//! A step that has ended is remembered until [`REMEMBERED`] others have ended later, or [`LONGEST`] has
//! passed; what came of it for the steps that follow it is remembered with those. When enough facts have come
//! together, a base takes the place of the journal, so that what is stored and replayed does not depend on
//! how many steps there were.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use windlass_core::{Fact, Happening, Input, Phase, Timestamp, Transition, WorkId, WorkState};
use windlass_store::RunBase;
use windlass_workflow::Step;

use super::Schedule;
use super::changes::Changes;

/// How many steps that have ended are remembered; few in a build that is killed at fault points, so that its
/// tests reach what follows.
pub(crate) const REMEMBERED: usize = if cfg!(windlass_faults) { 10 } else { 1000 };
/// How long a step that has ended is remembered.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// How many steps are looked at for each time that something is forgotten.
const LOOKED_AT: usize = 64;
/// The number of facts from which a base takes their place, besides two for each step.
const FACTS: usize = if cfg!(windlass_faults) { 40 } else { 4096 };

/// The steps that were added to a run and are not forgotten.
#[derive(Default)]
pub(super) struct Growth {
    steps: BTreeMap<WorkId, Step>,
    /// The steps that the journal does not know yet.
    untaken: VecDeque<(WorkId, Step)>,
    pub(super) changes: Changes,
    /// When the gates of steps open.
    opens: BTreeSet<(Timestamp, WorkId)>,
    /// When the attempts that run began.
    began: BTreeMap<WorkId, Timestamp>,
    /// The steps that have ended, in this order. A step that was tried again since is there twice.
    ended: VecDeque<(WorkId, Timestamp)>,
    /// Steps that have not begun and were cancelled to be forgotten at once.
    removed: Vec<WorkId>,
    /// How many facts the journal has behind its base.
    facts: usize,
    /// The steps that were forgotten since.
    forgotten: Vec<WorkId>,
}

impl Growth {
    pub(super) fn step(&self, work: WorkId) -> Option<&Step> {
        self.steps.get(&work)
    }

    pub(super) fn works(&self) -> impl DoubleEndedIterator<Item = WorkId> {
        self.steps.keys().copied()
    }

    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Notes what has become of steps.
    pub(super) fn note(&mut self, changes: &[Transition]) {
        for Transition { at, work, to, .. } in changes {
            // The gate of a step that is tried again is shut again.
            let opens = self.steps.get(work).and_then(opens_at).filter(|_| *to == Phase::Gated);
            self.opens.extend(opens.map(|at| (at, *work)));
            match to.state() {
                WorkState::Running if *to == Phase::Running => drop(self.began.insert(*work, *at)),
                WorkState::Running => {}
                state => {
                    self.began.remove(work);
                    if state.is_terminal() {
                        self.ended.push_back((*work, *at));
                    }
                }
            }
        }
    }

    fn insert(&mut self, work: WorkId, step: Step) {
        self.opens.extend(opens_at(&step).map(|at| (at, work)));
        self.steps.insert(work, step);
    }

    pub(super) fn remove(&mut self, work: WorkId) -> Option<Step> {
        let step = self.steps.remove(&work)?;
        if let Some(at) = opens_at(&step) {
            self.opens.remove(&(at, work));
        }
        Some(step)
    }
}

/// What takes the place of a journal, and what it stands for.
pub(crate) struct Compaction {
    pub(crate) base: RunBase,
    /// The steps that were forgotten since the last base.
    pub(crate) forgotten: Vec<WorkId>,
    /// The steps that were edited since, each with the number of its last edit.
    pub(crate) edits: Vec<(WorkId, u64)>,
    /// The number of the last change.
    pub(crate) changes: u64,
}

/// Returns when the gate of a step opens, if it waits for a time.
fn opens_at(step: &Step) -> Option<Timestamp> {
    step.gate.not_before_ms.map(Timestamp::from_millis)
}

impl Schedule {
    /// Makes the run one that stays open, to which these steps were added, in the order of their numbers.
    /// `base` stands for the beginning of its journal.
    pub(crate) fn stay_open(&mut self, base: Option<&RunBase>, added: Vec<(WorkId, Step)>) {
        let untaken = added.into();
        self.growth = Some(Growth { untaken, ..Growth::default() });
        let Some(RunBase { engine: base, began, ended }) = base else { return };
        for work in base.works.iter().map(|entry| entry.work) {
            self.take(work);
            self.with_submission(work, |schedule, submission| schedule.engine.stage(submission));
        }
        self.times.starts.extend(began.iter().copied());
        let growth = self.growing();
        growth.began.extend(began.iter().copied());
        growth.ended.extend(ended.iter().copied());
        self.call_at(Timestamp::ZERO, |engine, world| engine.restore(world, base));
        self.clock.catch_up(base.now);
    }

    pub(super) fn growing(&mut self) -> &mut Growth {
        self.growth.as_mut().expect("the run stays open")
    }

    /// Takes the next step that was added, which has this number.
    fn take(&mut self, work: WorkId) {
        let next = self.growing().untaken.pop_front();
        let (number, step) = next.expect("a step is stored before its fact");
        assert_eq!(number, work, "steps are taken in the order of their numbers");
        self.insert(work, step);
    }

    pub(super) fn insert(&mut self, work: WorkId, step: Step) {
        self.limit_users.add(work, &step);
        let limits = step.needs.limits().map(|(limit, _)| limit.to_owned());
        self.capacity.shared().declare(limits.collect());
        self.growing().insert(work, step);
    }

    /// Returns whether the run stays open when all its steps have ended.
    pub(crate) fn stays_open(&self) -> bool {
        self.growth.is_some()
    }

    /// Returns how many steps were ever added and taken, which is the number of the last one.
    pub(crate) fn taken(&self) -> u64 {
        self.engine.submitted()
    }

    /// Adds a step under the next number.
    pub(crate) fn add(&mut self, work: WorkId, step: Step) {
        self.insert(work, step);
        let added = self.with_submission(work, |schedule, submission| {
            schedule.call(|engine, world| engine.submit(world, submission))
        });
        let number = added.expect("no step is forgotten while one is added that follows it");
        assert_eq!(number, work, "steps are taken in the order of their numbers");
    }

    /// Notes steps that were added and that facts to come will submit.
    pub(crate) fn expect_added(&mut self, added: impl IntoIterator<Item = (WorkId, Step)>) {
        if let Some(growth) = &mut self.growth {
            growth.untaken.extend(added);
        }
    }

    /// Returns the number of the last step that was added, as far as this schedule knows.
    pub(crate) fn last_added(&self) -> u64 {
        let untaken = self.growth.as_ref().and_then(|growth| growth.untaken.back());
        untaken.map_or(self.taken(), |(work, _)| work.get())
    }

    /// Adds the steps that the replayed journal does not know.
    pub(crate) fn add_untaken(&mut self) {
        while let Some((work, step)) =
            self.growth.as_mut().and_then(|growth| growth.untaken.pop_front())
        {
            self.add(work, step);
        }
    }

    /// Prepares for a fact about a step that was added.
    pub(super) fn expect_fact(&mut self, fact: &Fact) {
        if self.growth.is_none() {
            return;
        }
        self.growing().facts += 1;
        match fact.what {
            Happening::Submitted { work } => {
                self.take(work);
                self.with_submission(work, |schedule, new| schedule.engine.stage(new));
            }
            Happening::Forgotten { work } => self.drop_step(work),
            _ => self.expect_change(fact),
        }
    }

    fn drop_step(&mut self, work: WorkId) {
        self.times.starts.remove(&work);
        self.blamed.remove(&work);
        let growth = self.growing();
        growth.forgotten.push(work);
        growth.changes.forget(work);
        if let Some(step) = growth.remove(work) {
            self.limit_users.remove(work, &step);
        }
    }

    /// Returns when a step may start that waits for a time, until that has come.
    pub(crate) fn opens_at(&self, work: WorkId) -> Option<Timestamp> {
        self.known_step(work).and_then(opens_at).filter(|_| self.engine.is_shut(work))
    }

    /// Returns when the next step may start that waits for a time.
    pub(crate) fn next_opening(&self) -> Option<Timestamp> {
        self.growth.as_ref()?.opens.first().map(|(at, _)| *at)
    }

    /// Lets the steps start whose time has come.
    pub(crate) fn open_due(&mut self) {
        let now = self.now();
        while let Some(growth) = &mut self.growth
            && growth.opens.first().is_some_and(|(at, _)| *at <= now)
            && let Some((_, work)) = growth.opens.pop_first()
        {
            // It may have ended before, or be open already.
            let _ = self.apply(Input::Open(work));
        }
    }

    /// Returns when the next step is old enough to be forgotten.
    pub(crate) fn next_forgetting(&self) -> Option<Timestamp> {
        let (_, at) = self.growth.as_ref()?.ended.front()?;
        Some(at.after(LONGEST))
    }

    /// Cancels a step that has not begun, and has it forgotten with the next ones.
    pub(crate) fn remove(&mut self, work: WorkId) {
        let is_new = self.engine.attempts(work) == Some(0)
            && self.engine.phase(work).map(Phase::state) == Some(WorkState::Pending);
        if is_new && self.growth.is_some() && self.apply(Input::Cancel(work)).is_ok() {
            self.growing().removed.push(work);
        }
    }

    /// Cancels the steps again that were removed in this round, if a retry has reopened them since.
    pub(super) fn cancel_removed(&mut self) {
        let removed = self.growth.as_ref().map(|growth| growth.removed.clone());
        for work in removed.unwrap_or_default() {
            // Most of them have stayed cancelled.
            let _ = self.apply(Input::Cancel(work));
        }
    }

    fn forget(&mut self, work: WorkId) {
        // No time passes: what it brings is decided with the rest of a round.
        let forget = Input::Forget(work);
        self.call_at(Timestamp::ZERO, |engine, world| engine.apply(world, forget))
            .expect("it has ended");
        self.drop_step(work);
    }

    /// Forgets steps that were removed or have ended long ago, and returns them.
    pub(crate) fn forget_old(&mut self) -> Vec<WorkId> {
        let Some(growth) = &mut self.growth else { return Vec::new() };
        let mut forgotten = std::mem::take(&mut growth.removed);
        forgotten.iter().for_each(|work| self.forget(*work));
        let now = self.now();
        for _ in 0..LOOKED_AT {
            let Some(growth) = &mut self.growth else { break };
            let many = growth.ended.len() > REMEMBERED;
            let is_old = |(_, at): &&(WorkId, Timestamp)| now.since(*at) >= LONGEST;
            let Some(&(work, _)) = growth.ended.front().filter(|first| many || is_old(first))
            else {
                break;
            };
            growth.ended.pop_front();
            let over = self.engine.phase(work).is_some_and(|phase| phase.state().is_terminal());
            let growth = self.growth.as_mut().expect("it was there just now");
            if !over || growth.ended.iter().any(|(later, _)| *later == work) {
                // It was tried again.
                continue;
            }
            self.forget(work);
            forgotten.push(work);
        }
        forgotten
    }

    /// Notes that facts were added to the journal.
    pub(crate) fn count_facts(&mut self, number: usize) {
        if let Some(growth) = &mut self.growth {
            growth.facts += number;
        }
    }

    /// Returns what takes the place of the journal if it is time for that.
    pub(crate) fn compact(&mut self) -> Option<Compaction> {
        let growth = self.growth.as_mut()?;
        if growth.facts < FACTS + 2 * growth.steps.len() {
            return None;
        }
        let engine = self.engine.base().expect("steps follow only earlier ones");
        let began = growth.began.iter().map(|(work, at)| (*work, *at)).collect();
        let ended = growth.ended.iter().copied().collect();
        growth.facts = 0;
        let forgotten = std::mem::take(&mut growth.forgotten);
        let (edits, changes) = growth.changes.fold();
        Some(Compaction { base: RunBase { engine, began, ended }, forgotten, edits, changes })
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::EdgeKind;
    use windlass_core::{Amount, Outcome, Random, ResourceCost};
    use windlass_workflow::{Command, Plan, SHARED, StepDependency, Template};

    use super::*;
    use crate::schedule::StepChange;

    /// A queue as its store has it, with all facts that it ever had.
    struct Stored {
        live: Schedule,
        all: Vec<Fact>,
        /// Each step that was ever added.
        added: Vec<(WorkId, Step)>,
        /// The journal, and what stands for its beginning.
        base: Option<RunBase>,
        facts: Vec<Fact>,
        kept: BTreeMap<WorkId, Step>,
        /// Each change that was ever made, and those since the base.
        all_changes: Vec<(u64, StepChange)>,
        changes: Vec<(u64, StepChange)>,
    }

    fn queue(
        base: Option<&RunBase>,
        added: Vec<(WorkId, Step)>,
        changes: &[(u64, StepChange)],
        facts: &[Fact],
    ) -> Schedule {
        let mut schedule = Schedule::new(Plan::open("queue".to_owned()));
        schedule.stay_open(base, added);
        schedule.expect_changes(changes.to_vec());
        schedule.replay(facts);
        schedule
    }

    impl Stored {
        fn new() -> Self {
            let live = queue(None, Vec::new(), &[], &[]);
            let (all, added, facts) = (Vec::new(), Vec::new(), Vec::new());
            let (all_changes, changes) = (Vec::new(), Vec::new());
            let kept = BTreeMap::new();
            Self { live, all, added, base: None, facts, kept, all_changes, changes }
        }

        /// Changes a step, which may have begun or be forgotten.
        fn change(&mut self, change: StepChange) {
            let number = self.all_changes.len() as u64 + 1;
            self.all_changes.push((number, change.clone()));
            self.changes.push((number, change.clone()));
            self.live.expect_changes(vec![(number, change)]);
            self.live.take_changes();
        }

        fn add(&mut self, after: &[WorkId], retries: u32) {
            let work = WorkId::new(self.live.taken() + 1).expect("it is above 0");
            let step = Self::step(work, after, retries);
            self.added.push((work, step.clone()));
            self.kept.insert(work, step.clone());
            self.live.add(work, step);
        }

        fn step(work: WorkId, after: &[WorkId], retries: u32) -> Step {
            let run = Command::List(vec![Template::literal("true")]);
            let mut step = Step::of_command(work.to_string(), run);
            let edge = |work: &WorkId| StepDependency {
                step: work.index(),
                same_worker: false,
                kind: EdgeKind::Success,
            };
            step.after = after.iter().map(edge).collect();
            step.ending.retry.count = retries;
            step.ending.retry.delay = Duration::ZERO;
            let limit = format!("{SHARED}{}", work.get() % 64);
            step.needs.resources = ResourceCost::new().with(limit, Amount::from(1));
            step
        }

        /// Does what a scheduler does at the end of a round.
        fn commit(&mut self) -> bool {
            self.live.forget_old();
            let facts = self.live.take_facts();
            self.live.take_transitions();
            self.live.count_facts(facts.len());
            self.all.extend(&facts);
            self.facts.extend(&facts);
            let Some(Compaction { base, forgotten, edits, changes }) = self.live.compact() else {
                return false;
            };
            self.facts.clear();
            for (number, change) in std::mem::take(&mut self.changes) {
                assert!(number <= changes, "it was taken");
                if let StepChange::Edit { work, step } = change
                    && edits.contains(&(work, number))
                {
                    self.kept.insert(work, *step);
                }
            }
            forgotten.iter().for_each(|work| drop(self.kept.remove(work)));
            self.base = Some(RunBase::decode(&base.encode()).expect("it was encoded"));
            true
        }

        /// Expects a replay of what is stored to have the digest of a replay of everything.
        fn check(&self) {
            let all = queue(None, self.added.clone(), &self.all_changes, &self.all);
            let kept = self.kept.clone().into_iter().collect();
            let stored = queue(self.base.as_ref(), kept, &self.changes, &self.facts);
            assert_eq!(stored.engine().digest(), all.engine().digest());
            assert_eq!(stored.engine().digest(), self.live.engine().digest());
            let works = |schedule: &Schedule| schedule.works().collect::<Vec<_>>();
            assert_eq!(works(&stored), works(&self.live));
            assert_eq!(stored.limits(), self.live.limits());
            let limits = |work| stored.step(work).needs.limits().map(|(name, _)| name.to_owned());
            let used: BTreeSet<_> = stored.works().flat_map(limits).collect();
            assert_eq!(stored.limits(), used, "no forgotten step counts");
        }
    }

    #[test]
    fn a_replay_of_the_compacted_journal_has_the_digest_of_a_replay_of_the_whole_one() {
        let mut stored = Stored::new();
        let mut random = Random::new(7);
        let mut compacted = 0;
        let mut waits = None;
        for number in 0..5_000_u64 {
            let known: Vec<_> = stored.live.works().rev().take(9).collect();
            let after = match random.one_in(3) {
                true => known.get(usize::try_from(random.within(0..9)).expect("small")).copied(),
                false => None,
            };
            // One that runs as long as the others, and one that waits for it and for one that ends.
            let after: Vec<_> = match (number, waits) {
                (7, _) => vec![WorkId::from_index(0), WorkId::from_index(6)],
                _ => after.into_iter().filter(|work| Some(*work) != waits).collect(),
            };
            stored.add(&after, u32::from(random.one_in(4)));
            if random.one_in(3) {
                let known: Vec<_> = stored.live.works().rev().take(30).collect();
                let mut any =
                    || known[usize::try_from(random.within(0..known.len() as u64)).expect("small")];
                let (work, before) = (any(), any());
                let change = match random.one_in(2) {
                    true => {
                        let mut step = Stored::step(work, &[], 2);
                        step.after.clone_from(&stored.live.step(work).after);
                        if before < work && Some(work) != waits && Some(before) != waits {
                            let on = StepDependency {
                                step: before.index(),
                                same_worker: false,
                                kind: EdgeKind::Success,
                            };
                            step.after = Vec::from_iter(random.one_in(2).then_some(on));
                        }
                        step.priority = i64::from(random.one_in(4));
                        StepChange::Edit { work, step: Box::new(step) }
                    }
                    false => StepChange::Move { work, before: Some(before) },
                };
                stored.change(change);
            }
            if number == 7 {
                waits = Some(WorkId::from_index(7));
            }
            while let Some(grant) = stored.live.take_next() {
                stored.live.begin(grant).expect("it was granted");
                if grant.work.index() == 0 {
                    break;
                }
                let outcome = match random.within(0..8) {
                    _ if grant.work.index() == 6 => Outcome::Success,
                    0 => Outcome::Failed,
                    1 => Outcome::Interrupted,
                    _ => Outcome::Success,
                };
                stored.live.apply(Input::Finished { grant, outcome }).expect("it runs");
            }
            if stored.commit() {
                compacted += 1;
                stored.check();
            }
        }
        stored.check();
        assert!(compacted > 2, "it was compacted {compacted} times");
        let remembered = stored.live.works().count();
        assert!(remembered < REMEMBERED + 2 * LOOKED_AT, "{remembered} steps are remembered");
        assert!(stored.kept.len() < 3 * REMEMBERED, "{} steps are stored", stored.kept.len());
        let phase = |index| stored.live.engine().phase(WorkId::from_index(index));
        assert_eq!((phase(0), phase(7)), (Some(Phase::Running), Some(Phase::Waiting)));
        assert_eq!(phase(6), None, "it has ended long ago");
    }

    /// The long form adds a million steps.
    #[test]
    fn what_is_stored_of_a_queue_and_replayed_does_not_grow_with_the_steps_it_ever_had() {
        let adds = if std::env::var_os("WINDLASS_STORM").is_some() { 1_000_000 } else { 12_000 };
        let mut stored = Stored::new();
        // The longest base, the most facts behind one, and the most steps, of each half.
        let (mut most, mut base) = ([[0; 3]; 2], 0);
        for number in 0..adds {
            stored.add(&[], 0);
            let grant = stored.live.take_next().expect("a slot is free");
            stored.live.begin(grant).expect("it was granted");
            let finished = Input::Finished { grant, outcome: Outcome::Success };
            stored.live.apply(finished).expect("it runs");
            if stored.commit() {
                base = stored.base.as_ref().map_or(0, |base| base.encode().len());
            }
            // They are for comparisons with a journal that nothing is left out of.
            stored.all.clear();
            stored.added.clear();
            let now = [base, stored.facts.len(), stored.kept.len()];
            let most = &mut most[number * 2 / adds];
            *most = [most[0].max(now[0]), most[1].max(now[1]), most[2].max(now[2])];
        }
        let [before, after] = most;
        for (what, (before, after)) in before.into_iter().zip(after).enumerate() {
            assert!(after * 10 <= before * 12, "measure {what} has grown from {before} to {after}");
        }
        assert!(stored.live.works().count() < REMEMBERED + 2 * LOOKED_AT);
    }

    #[test]
    fn a_removed_step_is_forgotten_though_it_is_tried_again_in_the_same_round() {
        let work = WorkId::from_index;
        let check = |retried: usize| {
            let mut stored = Stored::new();
            stored.add(&[], 0);
            stored.add(&[work(0)], 0);
            stored.live.remove(work(1));
            stored.live.apply(Input::Cancel(work(0))).expect("it has not ended");
            stored.live.reopen(&[work(retried)]).expect("nothing runs");
            stored.commit();
            assert_eq!(stored.live.engine().phase(work(1)), None);
            stored.check();
        };
        // By itself.
        check(1);
        // With the step that it follows.
        check(0);
    }
}

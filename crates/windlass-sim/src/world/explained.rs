//! Checks that the reasons for a wait are complete and necessary.
//!
//! On copies of the engine and the tree, exactly the reported causes are removed, and the work must
//! start; while one of them is left, it must not.

use windlass_core::{
    Amount, CapacityTree, ClientId, Dependency, EdgeKind, Engine, Extras, Grant, Input, LevelId,
    Order, Outcome, Phase, Place, Reason, Rejected, ResourceCost, ResourceId, SLOTS, Short,
    Shortage, Submission, Timestamp, WorkId, WorkState, World,
};

use super::{RandomWorld, Side};

impl RandomWorld {
    /// Checks the reasons of one random work, in half of the cases of a queued one.
    pub(super) fn verify_reasons(&mut self) {
        let side = self.random.within(0..self.sides.len() as u64) as usize;
        self.apply(side, Input::Tick);
        let Side { engine, .. } = &self.sides[side];
        let works = || engine.works();
        let ended = works().filter(|&work| self.state(side, work).is_terminal());
        ended.for_each(|work| assert_eq!(engine.explain(&self.capacity, work), [], "{work}"));
        let in_line = |phase| matches!(phase, Phase::Ready | Phase::Resuming);
        let mut asked: Vec<_> = works().filter(|&w| in_line(self.phase(side, w))).collect();
        if asked.is_empty() || self.random.one_in(2) {
            asked = works().filter(|&work| !self.state(side, work).is_terminal()).collect();
        }
        if !asked.is_empty() {
            let work = *self.random.pick(&asked);
            self.verify_reasons_of(side, work);
        }
    }

    pub(super) fn verify_reasons_of(&mut self, side: usize, work: WorkId) {
        self.log_step(format!("{side}: why does {work} wait?"));
        let others = self.sides.iter().enumerate().filter(|(number, _)| *number != side);
        let others = others.map(|(_, other)| other.engine.client()).collect();
        let Side { engine, closed, .. } = &self.sides[side];
        let (engine, capacity) = (engine.clone(), self.capacity.clone());
        let trial = Trial { engine, capacity, now: self.now, work, others };
        let what = trial.verify(closed.contains(&work));
        self.report.count(what);
    }
}

/// A copy of engine and tree, to try changes on.
#[derive(Clone)]
struct Trial {
    engine: Engine,
    capacity: CapacityTree,
    now: Timestamp,
    work: WorkId,
    /// The other engines on the tree.
    others: Vec<ClientId>,
}

impl Trial {
    /// Checks the reasons of the work. Returns which kind they are.
    fn verify(mut self, gate_is_closed: bool) -> &'static str {
        let reasons = self.reasons();
        if self.phase() == Phase::Halted {
            return self.verify_halt(&reasons);
        }
        if reasons.iter().any(|reason| matches!(reason, Reason::Paused | Reason::AllPaused)) {
            return self.verify_pauses();
        }
        let goes_on = matches!(self.phase(), Phase::Running | Phase::Cancelling { .. });
        assert_eq!(reasons.is_empty(), goes_on, "there is a reason for every wait");
        match (self.phase(), &reasons[..]) {
            // It will be skipped, pause or not, and a new work would be paused.
            (Phase::Waiting, _) if self.engine.all_paused_since().is_some() => {
                "explained: unneeded while everything is paused"
            }
            (Phase::Waiting | Phase::Gated, reasons) => {
                self.verify_edges(reasons, gate_is_closed);
                "explained: edges and gate"
            }
            (Phase::Delayed { .. }, [Reason::Retry { at }]) => {
                self.verify_retry(*at);
                "explained: retry"
            }
            (Phase::Ready | Phase::Resuming, [short @ .., Reason::Queued { ahead, first }]) => {
                assert_eq!(Some(*first), self.engine.first_in_queue());
                self.verify_line(short, *ahead)
            }
            (Phase::Joining, [Reason::Children { open }]) => {
                self.verify_children(*open);
                "explained: children"
            }
            (phase, reasons) => self.verify_outside(phase, reasons),
        }
    }

    /// Checks that nothing but the other reasons is left once the pauses are over.
    fn verify_pauses(&mut self) -> &'static str {
        let (phase, mut reasons) = (self.phase(), self.reasons());
        reasons.retain(|reason| !matches!(reason, Reason::Paused | Reason::AllPaused));
        let others = self.works_with_phases();
        self.apply(Input::UnpauseAll).expect("it can always end");
        self.apply(Input::Unpause(self.work)).expect("the work is known");
        let is_as_before = |&(work, phase): &(WorkId, Phase)| match self.engine.phase(work) {
            Some(now) if phase == Phase::Paused => work == self.work || !now.state().is_terminal(),
            now => now == Some(phase),
        };
        if !others.iter().all(is_as_before) {
            return "explained: paused until a deadline";
        }
        match phase {
            // It may have missed its deadline.
            Phase::Paused if self.phase() == Phase::Failed => {}
            Phase::Paused => assert_eq!((self.phase(), reasons.len()), (Phase::Ready, 0)),
            phase => assert_eq!((self.phase(), self.reasons()), (phase, reasons)),
        }
        "explained: paused"
    }

    /// Checks that the attempt runs once it continues.
    fn verify_halt(&mut self, reasons: &[Reason]) -> &'static str {
        assert!(!reasons.is_empty(), "a halted attempt waits for the end of a pause");
        let attempt = self.engine.attempts(self.work).expect("it is known");
        let grant = Grant { work: self.work, attempt };
        self.apply(Input::Continue(grant)).expect("it was halted");
        assert_eq!(self.phase(), Phase::Running);
        "explained: halted"
    }

    fn works_with_phases(&self) -> Vec<(WorkId, Phase)> {
        self.engine.works().filter_map(|work| Some((work, self.engine.phase(work)?))).collect()
    }

    fn verify_outside(&mut self, phase: Phase, reasons: &[Reason]) -> &'static str {
        let work = self.work;
        let attempt = self.engine.attempts(work).expect("it is known");
        let (what, input, then) = match (phase, reasons) {
            (Phase::Running | Phase::Cancelling { .. }, []) => return "explained: nothing",
            (Phase::WaitingOutside, [Reason::Outside]) => {
                ("explained: outside", Input::Notify(work), Phase::Ready)
            }
            (Phase::Granted, [Reason::Granted]) => {
                let attempt = attempt + 1;
                ("explained: granted", Input::Begin(Grant { work, attempt }), Phase::Running)
            }
            (Phase::Suspended, [Reason::Suspended]) => (
                "explained: suspended",
                Input::ResumeRequested(Grant { work, attempt }),
                Phase::Resuming,
            ),
            other => panic!("{other:?}"),
        };
        self.apply(input).expect("that is what it waits for");
        assert_eq!(self.phase(), then);
        what
    }

    /// Checks that a twin of the work with all its dependencies except the reported ones starts, and that
    /// a twin with one of the reported causes does not.
    fn verify_edges(&self, reasons: &[Reason], gate_is_closed: bool) {
        let known = |on: &Dependency| self.engine.phase(on.work).is_some();
        let named = |on: &Dependency| reasons.contains(&Reason::Dependency(*on));
        let all = || self.engine.dependencies(self.work).filter(known);
        let kept: Vec<_> = all().filter(|on| !named(on)).collect();
        // A twin does not know the result of an edge from a forgotten work.
        let unheard = |on: Dependency| !known(&on) && on.kind == EdgeKind::Failed;
        let heard = !self.engine.dependencies(self.work).any(unheard);
        let gated = heard && gate_is_closed && !reasons.contains(&Reason::Gate);
        let twin = self.twin(&kept, gated);
        let starts = twin.phase() == Phase::Skipped || twin.all_served().contains(&twin.work);
        assert!(starts, "{reasons:?} are incomplete");
        for reason in reasons {
            let end = match reason {
                Reason::Dependency(on) => {
                    assert!(all().any(|known| known == *on), "it follows no {on:?}");
                    self.twin(&[&kept[..], &[*on]].concat(), gated).phase()
                }
                Reason::Gate => self.twin(&kept, gate_is_closed).phase(),
                other => panic!("{other:?} is no reason for a work that is not queued"),
            };
            assert!(matches!(end, Phase::Waiting | Phase::Gated), "{reason:?} is none: {end:?}");
        }
    }

    /// Returns a copy with a new work that follows `after`.
    fn twin(&self, after: &[Dependency], gated: bool) -> Trial {
        let mut trial = self.clone();
        let cost = trial.engine.cost(&self.capacity, &ResourceCost::new()).expect("a slot");
        let extras = Extras { gated, ..Extras::default() };
        let twin = Submission { after, extras: Some(&extras), ..Submission::of(cost) };
        trial.work = trial.call(|engine, world| engine.submit(world, twin)).expect("known works");
        trial
    }

    /// Checks that the work is queued at that time and not before, unless it has ended by then.
    fn verify_retry(self, at: Timestamp) {
        let ended = |phase: Phase| phase.state().is_terminal();
        let mut before = self.clone();
        before.now = Timestamp::from_nanos(at.as_nanos() - 1);
        before.apply(Input::Tick).expect("time passes");
        assert!(before.phase() == Phase::Delayed { due: at } || ended(before.phase()));
        let mut then = self;
        then.now = at;
        then.apply(Input::Tick).expect("time passes");
        assert!(then.phase() == Phase::Ready || ended(then.phase()), "{:?}", then.phase());
    }

    fn verify_children(self, open: usize) {
        let is_open = |work: &WorkId| {
            let state = self.engine.phase(*work).map(Phase::state);
            let open = matches!(state, Some(WorkState::Pending | WorkState::Running));
            open && self.engine.parent(*work) == Some(self.work)
        };
        assert_eq!(open, self.engine.works().filter(is_open).count());
        let attempt = self.engine.attempts(self.work).expect("it is known");
        let grant = Grant { work: self.work, attempt };
        let refused = Err(Rejected::ChildrenOpen { work: self.work });
        let ending = self.engine.ending(grant, Outcome::Failed);
        assert_eq!(ending == refused, open > 0);
    }

    fn verify_line(self, short: &[Reason], ahead: usize) -> &'static str {
        let short: Vec<_> = short.iter().map(|reason| self.verify_shortage(reason)).collect();
        self.verify_amounts(&short);
        let before = self.works_ahead().len();
        assert_eq!(before, ahead, "the number of works ahead is reported");
        self.remove_causes(&short)
    }

    fn verify_shortage(&self, reason: &Reason) -> Shortage {
        let Reason::Short { shortage, holders, reserved_for } = reason else {
            panic!("{reason:?} is no reason for a queued work");
        };
        let Shortage { level, resource, why, .. } = *shortage;
        let limited = matches!(why, Short::Limit { .. });
        let holds = |work: &WorkId| {
            let takes = self.engine.demand(*work).iter().any(|(needed, _)| needed == resource);
            limited && takes && self.engine.phase(*work).is_some_and(Phase::holds)
        };
        assert_eq!(*holders, self.engine.works().filter(holds).collect::<Vec<_>>());
        let later =
            matches!(self.engine.queue_place(self.work), Place::Later | Place::ResumingLater);
        let own = self.capacity.reserved_for(self.engine.client(), level, resource);
        assert_eq!(reserved_for.is_some(), limited && later && own > 0, "{reason:?}");
        *shortage
    }

    fn room(&self, level: LevelId, resource: ResourceId, place: Place) -> i128 {
        self.capacity.room(self.engine.client(), level, resource, place, self.now)
    }

    /// Checks that the work fits with the reported amounts more, at the reported time, and does not fit
    /// with one unit less of any of them, or one nanosecond earlier.
    fn verify_amounts(&self, short: &[Shortage]) {
        let then = short.iter().map(|short| self.when(short)).max().unwrap_or(self.now);
        if then == Timestamp::MAX {
            return;
        }
        assert!(self.fits(short, None, then), "{short:?} are incomplete");
        for (number, short_of) in short.iter().enumerate() {
            if let Short::Limit { .. } = short_of.why {
                assert!(!self.fits(short, Some(number), then), "{short_of:?} is no reason");
            }
        }
        let before = Timestamp::from_nanos(then.as_nanos().saturating_sub(1));
        assert!(then <= self.now || !self.fits(short, None, before), "{then} is not the time");
    }

    /// Returns whether the work fits with these limits raised, one of them by one unit too little.
    fn fits(&self, short: &[Shortage], less: Option<usize>, at: Timestamp) -> bool {
        let mut trial = self.clone();
        for (number, short) in short.iter().enumerate() {
            trial.raise(short, i128::from(less == Some(number)));
        }
        let place = self.engine.queue_place(self.work);
        trial.capacity.can_take(self.engine.client(), self.engine.demand(self.work), place, at)
    }

    /// Raises a limit by what is missing, minus `less` units.
    fn raise(&mut self, short: &Shortage, less: i128) {
        let Short::Limit { free, reserved } = short.why else { return };
        let name = self.capacity.name(short.resource).to_owned();
        let limit = self.capacity.limits(short.level).amount(&name).expect("it is limited");
        let missing = i128::from(short.wanted.steps()) + reserved - free - less;
        let limit = u64::try_from(i128::from(limit.steps()) + missing).expect("a small limit");
        let limits = ResourceCost::new().with(name, Amount::from_steps(limit));
        self.capacity.set_limits(short.level, &limits);
    }

    fn when(&self, short: &Shortage) -> Timestamp {
        match short.why {
            Short::Rate { at } | Short::Quota { at } => at,
            _ => self.now,
        }
    }

    /// Returns the works that would be granted before this one if there were enough for all.
    fn works_ahead(&self) -> Vec<WorkId> {
        let mut served = self.all_served();
        let place = served.iter().position(|work| *work == self.work);
        served.truncate(place.expect("it is queued, and there is enough for it"));
        served
    }

    /// Returns the queued works in the order in which they are granted if there is enough for all.
    fn all_served(&self) -> Vec<WorkId> {
        let mut trial = self.clone();
        let names = ["cpu", "memory", "api", "daily", SLOTS];
        let plenty: ResourceCost =
            names.iter().map(|name| ((*name).to_owned(), Amount::from(1_000_000))).collect();
        let team = trial.capacity.level_of(trial.engine.client());
        for level in [team, CapacityTree::ROOT] {
            trial.capacity.set_limits(level, &plenty);
        }
        trial.apply(Input::RetrySearch).expect("it looks again");
        let served = std::iter::from_fn(|| trial.call(Engine::take_next));
        served.map(|grant| grant.work).collect()
    }

    /// Checks that the work is the next to start once all reported causes are removed.
    fn remove_causes(mut self, short: &[Shortage]) -> &'static str {
        self.withdraw_engines_behind();
        self.cancel_works_ahead();
        if self.is_queued() {
            short.iter().for_each(|short| self.raise(short, 0));
            self.wait_for_rates(short);
            self.cancel_works_ahead();
        }
        if !self.is_queued() {
            return "explained: its end, by time or family";
        }
        self.apply(Input::RetrySearch).expect("it looks again");
        let next = self.call(Engine::take_next).map(|grant| grant.work);
        assert_eq!(next, Some(self.work), "{short:?} are incomplete");
        match (self.engine.order(), short) {
            (Order::Strict, _) => "explained: strict order",
            (_, []) => "explained: place in queue",
            _ => "explained: shortage",
        }
    }

    /// Cancels all works ahead, including those that become ready by the end of others.
    fn cancel_works_ahead(&mut self) {
        while self.is_queued()
            && let before = self.works_ahead()
            && !before.is_empty()
        {
            // The end of a family may have ended it already.
            before.iter().for_each(|work| drop(self.apply(Input::Cancel(*work))));
        }
    }

    /// Withdraws the engines that are behind this one and reserve nothing it needs. The place of an
    /// engine depends on the head of its queue: when that is cancelled, they would move ahead.
    fn withdraw_engines_behind(&mut self) {
        for client in self.others.clone() {
            let mut without = self.clone();
            without.capacity.withdraw(client);
            if without.rooms() == self.rooms() {
                *self = without;
            }
        }
    }

    /// Returns how much of each needed resource there is for the head of the queue.
    fn rooms(&self) -> Vec<i128> {
        let team = self.capacity.level_of(self.engine.client());
        let needed = self.engine.demand(self.work).iter();
        let levels = needed.flat_map(|(r, _)| [(team, r), (CapacityTree::ROOT, r)]);
        levels.map(|(level, resource)| self.room(level, resource, Place::First)).collect()
    }

    /// Waits until the rates allow the work. Other engines that wait for a rate come first or withdraw.
    fn wait_for_rates(&mut self, named: &[Shortage]) {
        if named.iter().any(|short| self.when(short) == Timestamp::MAX) {
            for &client in &self.others {
                self.capacity.withdraw(client);
            }
        }
        let key = |short: &Shortage| (short.level, short.resource);
        let left = self.reasons().into_iter().filter_map(|reason| match reason {
            Reason::Short { shortage, .. } => Some(shortage),
            _ => None,
        });
        for short in left.collect::<Vec<_>>() {
            assert!(named.iter().any(|named| key(named) == key(&short)), "{short:?} is new");
            self.now = self.now.max(self.when(&short));
        }
        self.apply(Input::Tick).expect("time passes");
    }

    fn is_queued(&self) -> bool {
        matches!(self.phase(), Phase::Ready | Phase::Resuming)
    }

    fn phase(&self) -> Phase {
        self.engine.phase(self.work).expect("it is known")
    }

    fn reasons(&self) -> Vec<Reason> {
        self.engine.explain(&self.capacity, self.work)
    }

    fn apply(&mut self, input: Input) -> Result<(), Rejected> {
        self.call(|engine, world| engine.apply(world, input))
    }

    fn call<T>(&mut self, call: impl FnOnce(&mut Engine, &mut World<'_>) -> T) -> T {
        let mut world = World {
            now: self.now,
            capacity: &mut self.capacity,
            facts: None,
            transitions: None,
            wakes: &mut Vec::new(),
        };
        call(&mut self.engine, &mut world)
    }
}

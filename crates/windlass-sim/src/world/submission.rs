//! Submissions: works, children of works under way, and dependencies added later.

use std::time::Duration;

use windlass_core::{
    AddDependencyError, Amount, Dependency, EdgeKind, Engine, Extras, Input, Phase, ResourceCost,
    RetryPolicy, SLOTS, Submission, SubmissionError, Timestamp, WorkId, World,
};

use super::{RandomWorld, Side};

impl RandomWorld {
    pub(super) fn submit(&mut self, side: usize) {
        let extras = self.any_extras(side);
        let after = self.any_dependencies(side, extras.parent);
        let needs = self.any_needs();
        let priority = self.random.within(0..5).cast_signed() - 2;
        let retries = *self.random.pick(&[0, 0, 1, 2]);
        let Side { engine, shadow, .. } = &mut self.sides[side];
        // A limit may be below what the work needs at present: the work is refused.
        let Ok(cost) = engine.cost(&self.capacity, &needs) else { return };
        let same = shadow.cost(&needs);
        assert_eq!(same, cost, "the shadow knows a cost before its fact");
        let extras = Some(&extras).filter(|extras| **extras != Extras::default());
        self.hand_in(side, Submission { after: &after, cost, priority, retries, extras });
    }

    fn hand_in(&mut self, side: usize, submission: Submission<'_>) {
        self.apply(side, Input::Tick);
        let now = self.now;
        self.log_step(format!("{side}: submit {submission:?}"));
        let before = self.sides[side].engine.digest();
        let (submitted, facts) =
            self.collect(side, |engine, world| engine.submit(world, submission));
        let Side { engine, shadow, gated, closed, clocks, retries, .. } = &mut self.sides[side];
        match submitted {
            Ok(work) => {
                shadow.engine.stage(submission);
                let extras = submission.extras.copied().unwrap_or_default();
                gated.extend(extras.gated.then_some(work));
                closed.extend(extras.gated.then_some(work));
                clocks.add(work, &extras, now);
                retries.insert(work, submission.retries);
            }
            Err(error) => {
                assert_eq!(engine.digest(), before, "a refused submission changes nothing");
                self.report.count(refused(&error));
                return;
            }
        }
        self.follow(side, &facts);
        self.count_child(side, &submission);
    }

    /// Counts the kind of a child.
    fn count_child(&mut self, side: usize, submission: &Submission<'_>) {
        let Submission { after, extras, .. } = submission;
        let Some(parent) = extras.and_then(|extras| extras.parent) else { return };
        let engine = &self.sides[side].engine;
        let is_sibling = |on: &Dependency| engine.parent(on.work) == Some(parent);
        if engine.parent(parent).is_some() {
            self.report.count("child of a child");
        }
        if after.iter().any(is_sibling) {
            self.report.count("child after a sibling");
        }
        if after.iter().any(|on| !is_sibling(on)) {
            self.report.count("child after an outsider");
        }
    }

    /// Returns random dependencies, mostly within the family if it has one.
    fn any_dependencies(&mut self, side: usize, parent: Option<WorkId>) -> Vec<Dependency> {
        let engine = &self.sides[side].engine;
        let family = parent.map(|parent| engine.descendants(parent)).unwrap_or_default();
        let works: Vec<_> = match self.random.one_in(3) {
            false if !family.is_empty() => family,
            _ => engine.works().collect(),
        };
        // Mostly recent works: old ones have often failed, and would block everything.
        let recent = &works[works.len().saturating_sub(6)..];
        let count = if recent.is_empty() { 0 } else { self.random.within(0..3) };
        let kinds = [EdgeKind::Success, EdgeKind::Success, EdgeKind::Done, EdgeKind::Failed];
        let any =
            |_| Dependency { work: *self.random.pick(recent), kind: *self.random.pick(&kinds) };
        (0..count).map(any).collect()
    }

    fn any_extras(&mut self, side: usize) -> Extras {
        let timeouts = [Duration::ZERO, Duration::from_nanos(1), Duration::MAX];
        let timeout = match self.random.within(0..30) {
            0 => Some(*self.random.pick(&timeouts)),
            1..6 => Some(Duration::from_millis(self.random.within(1..3000))),
            _ => None,
        };
        let deadline = self.random.one_in(8).then(|| {
            let before = Timestamp::from_nanos(self.now.as_nanos().saturating_sub(500_000_000));
            before.after(Duration::from_millis(self.random.within(0..20_000)))
        });
        Extras {
            parent: self.any_parent(side),
            gated: self.random.one_in(8),
            timeout,
            deadline,
            retry: self.random.one_in(4).then(|| self.any_policy()),
            beside: None,
        }
    }

    /// Returns a random parent, mostly one that can have children.
    fn any_parent(&mut self, side: usize) -> Option<WorkId> {
        if self.random.one_in(2) {
            return None;
        }
        let engine = &self.sides[side].engine;
        let takes = |work: &WorkId| {
            let open = matches!(
                self.phase(side, *work),
                Phase::Running | Phase::Suspended | Phase::Resuming
            );
            open && engine.children(*work).failed == 0
        };
        let mut able: Vec<_> = engine.works().filter(takes).collect();
        if self.random.one_in(12) {
            return self.any_work(side);
        }
        if able.iter().any(|work| engine.parent(*work).is_some()) && !self.random.one_in(3) {
            able.retain(|work| engine.parent(*work).is_some());
        }
        (!able.is_empty()).then(|| *self.random.pick(&able))
    }

    fn any_policy(&mut self) -> RetryPolicy {
        let span = Duration::from_millis(self.random.within(1..1000));
        let policy = match self.random.within(0..4) {
            0 => RetryPolicy::fixed(span),
            1 => RetryPolicy::linear(span),
            2 => RetryPolicy::exponential(span),
            _ => RetryPolicy::default(),
        };
        let policy = policy.cap(Duration::from_secs(4));
        if self.random.one_in(2) { policy.jitter() } else { policy }
    }

    fn any_needs(&mut self) -> ResourceCost {
        let mut needs = ResourceCost::new();
        let resources =
            [("cpu", 4, 2), ("memory", 8, 2), ("api", 3, 6), ("daily", 3, 8), (SLOTS, 3, 6)];
        for (name, most, rarity) in resources {
            if self.random.one_in(rarity) {
                needs = needs.with(name, Amount::from(self.random.within(1..most) as u32));
            }
        }
        needs
    }

    pub(super) fn add_dependency(&mut self, side: usize) {
        let works: Vec<_> = self.sides[side].engine.works().collect();
        if works.is_empty() {
            return;
        }
        let recent = &works[works.len().saturating_sub(8)..];
        let (work, on) = (*self.random.pick(recent), *self.random.pick(recent));
        self.log_step(format!("{side}: {work} waits for {on}"));
        let before = self.sides[side].engine.digest();
        let added = self.call(side, |engine, world| engine.add_dependency(world, work, on.into()));
        match added {
            Ok(()) => return,
            Err(AddDependencyError::Cycle { path }) => {
                assert_eq!((path.first(), path.last()), (Some(&on), Some(&on)), "{path:?}");
                assert!(path.contains(&work), "{path:?}");
                self.report.count("dependency refused: cycle");
            }
            Err(AddDependencyError::Begun { .. }) => self.report.count("dependency refused: begun"),
            Err(error) => panic!("{error}"),
        }
        let tick = |engine: &mut Engine, world: &mut World<'_>| engine.apply(world, Input::Tick);
        self.call(side, tick).expect("time passes");
        let same = self.sides[side].engine.digest() == before || self.sides[side].look;
        assert!(same, "a refused dependency changes nothing");
    }
}

fn refused(error: &SubmissionError) -> &'static str {
    match error {
        SubmissionError::NoParent { .. } => "child refused: no parent",
        SubmissionError::Cycle { parent, path } => {
            assert_eq!(path.first(), path.last(), "{path:?}");
            assert!(path.contains(parent), "{path:?}");
            "child refused: cycle"
        }
        error => panic!("{error}"),
    }
}

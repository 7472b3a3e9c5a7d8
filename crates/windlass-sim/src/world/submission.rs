//! What is submitted: works, and dependencies added under way.

use windlass_core::{
    Amount, Dependency, DependencyError, EdgeKind, Engine, Input, ResourceCost, SLOTS, Submission,
    World,
};

use super::{RandomWorld, Side};

impl RandomWorld {
    pub(super) fn submit(&mut self, side: usize) {
        let works: Vec<_> = self.sides[side].engine.works().collect();
        let mut after = Vec::new();
        for _ in 0..self.random.within(0..3) {
            // Mostly recent works: old ones have often failed, and would block everything.
            let recent = &works[works.len().saturating_sub(6)..];
            if !recent.is_empty() {
                let work = *self.random.pick(recent);
                let kinds =
                    [EdgeKind::Success, EdgeKind::Success, EdgeKind::Done, EdgeKind::Failed];
                after.push(Dependency { work, kind: *self.random.pick(&kinds) });
            }
        }
        let needs = self.needs();
        let priority = self.random.within(0..5).cast_signed() - 2;
        let retries = self.random.within(0..3) as u32;
        let Side { engine, shadow, .. } = &mut self.sides[side];
        // A limit may stand below what is asked for just now; such a work is refused.
        let Ok(cost) = engine.cost(&self.capacity, &needs) else { return };
        let same = shadow.cost(&needs);
        assert_eq!(same, cost, "the side table is filled before its fact");
        let submission = Submission { after: &after, priority, retries, ..Submission::of(cost) };
        shadow.engine.stage(submission);
        self.tell(format!("{side}: submit {submission:?}"));
        self.call(side, |engine, world| engine.submit(world, submission)).expect("known works");
    }

    pub(super) fn needs(&mut self) -> ResourceCost {
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
        self.tell(format!("{side}: {work} waits for {on}"));
        let before = self.sides[side].engine.digest();
        let added = self.call(side, |engine, world| engine.add_dependency(world, work, on.into()));
        match added {
            Ok(()) => return,
            Err(DependencyError::Cycle { path }) => {
                assert_eq!((path.first(), path.last()), (Some(&on), Some(&on)), "{path:?}");
                assert!(path.contains(&work), "{path:?}");
                self.report.count("dependency refused: cycle");
            }
            Err(DependencyError::Begun { .. }) => self.report.count("dependency refused: begun"),
            Err(error) => panic!("{error}"),
        }
        let tick = |engine: &mut Engine, world: &mut World<'_>| engine.apply(world, Input::Tick);
        self.call(side, tick).expect("time passes");
        let same = self.sides[side].engine.digest() == before || self.sides[side].look;
        assert!(same, "a refused dependency changes nothing");
    }
}

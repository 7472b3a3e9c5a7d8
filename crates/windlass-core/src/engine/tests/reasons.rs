//! Reasons for waits in situations that random simulation seldom reaches.

use super::*;
use crate::reason::Reason;

impl Bench {
    pub(super) fn with(config: EngineConfig, limits: &ResourceCost) -> Self {
        let mut bench = Bench::new(1);
        bench.capacity = CapacityTree::new(limits);
        let client = bench.capacity.add_client(CapacityTree::ROOT);
        bench.engine = Engine::new(config, client);
        bench
    }

    fn add_needing(&mut self, cpu: u32, priority: i64) -> WorkId {
        let needs = ResourceCost::new().with("cpu", Amount::from(cpu));
        let cost = self.engine.cost(&self.capacity, &needs).expect("there is as much");
        let submission = Submission { priority, ..Submission::of(cost) };
        self.call(|engine, world| engine.submit(world, submission)).expect("it has no dependencies")
    }

    pub(super) fn reasons(&self, work: WorkId) -> Vec<Reason> {
        self.engine.explain(&self.capacity, work)
    }
}

fn cpus(count: u32) -> ResourceCost {
    ResourceCost::new().with("cpu", Amount::from(count))
}

#[test]
fn the_first_in_the_queue_is_known_before_a_search() {
    let cap = Some(Amount::from(1));
    let ageing = Ageing::new("0.001".parse().expect("an amount"), cap).expect("a small rate");
    let config = EngineConfig { ageing, ..EngineConfig::default() };
    let mut bench = Bench::with(config, &cpus(1));
    let running = bench.add_needing(1, 0);
    assert_eq!(bench.start().work, running);
    let old = bench.add_needing(1, 0);
    bench.now = Timestamp::from_millis(10_000);
    let urgent = bench.add_needing(1, 2);
    assert_eq!(bench.engine.first_in_queue(), Some(urgent), "the old one is at its cap");
    assert!(bench.reasons(old).contains(&Reason::Queued { ahead: 1, first: urgent }));
}

#[test]
fn a_reservation_is_no_reason_for_the_wait_of_its_owner() {
    let mut bench = Bench::with(EngineConfig::default(), &cpus(4));
    bench.add_needing(2, 0);
    let _ = bench.start();
    let overtaken = bench.add_needing(3, 0);
    bench.add_needing(1, -1);
    assert_eq!(bench.take(), None, "the first does not fit, and its share is reserved");
    bench.add_needing(4, 5);
    let reasons = bench.reasons(overtaken);
    let [Reason::Short { shortage, reserved_for: None, .. }, Reason::Queued { .. }] = reasons[..]
    else {
        panic!("{reasons:?}");
    };
    assert_eq!(shortage.why, crate::Short::Limit { free: 20_000, reserved: 0 });
}

#[test]
fn only_a_reservation_of_the_same_engine_is_named_with_its_owner() {
    let mut bench = Bench::with(EngineConfig::default(), &cpus(4));
    bench.add_needing(2, 0);
    let _ = bench.start();
    let first = bench.add_needing(3, 0);
    let later = bench.add_needing(2, -1);
    assert_eq!(bench.take(), None);
    let reasons = bench.reasons(later);
    let [Reason::Short { shortage, reserved_for, .. }, Reason::Queued { .. }] = &reasons[..] else {
        panic!("{reasons:?}");
    };
    assert_eq!(shortage.why, crate::Short::Limit { free: 20_000, reserved: 30_000 });
    assert_eq!(*reserved_for, Some(first));
}

#[test]
fn a_gate_is_no_reason_for_one_that_will_be_skipped() {
    let mut bench = Bench::new(1);
    let good = bench.add(&[], 0);
    let grant = bench.start();
    bench.finish(grant, Outcome::Success).expect("it runs");
    let open = bench.add(&[], 0);
    let gated = Extras { gated: true, ..Extras::default() };
    let unneeded = bench.add_with(&[Dependency::failed(good), open.into()], gated);
    assert_eq!(bench.reasons(unneeded), [Reason::Dependency(open.into())]);
    let needed = bench.add_with(&[open.into()], gated);
    assert_eq!(bench.reasons(needed), [Reason::Dependency(open.into()), Reason::Gate]);
}

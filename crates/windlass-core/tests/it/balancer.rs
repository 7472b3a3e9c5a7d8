//! Properties that a balancer keeps under random load.

use proptest::prelude::*;
use windlass_core::{
    Amount, Balancer, BalancerChild, BalancerOptions, CapacityTree, LevelId, Place, ResourceCost,
    Timestamp,
};

use crate::support::cases;

const MIN: u64 = 2;
const MAX: u64 = 9;
/// The minimum time between two moves, in milliseconds.
const THRESHOLD: u64 = 5000;

fn gpus(n: u64) -> ResourceCost {
    ResourceCost::new().with("gpu", Amount::try_from(n).expect("a few"))
}

fn limit(tree: &CapacityTree, level: LevelId) -> u64 {
    tree.limits(level).amount("gpu").expect("it has a limit").steps() / 10_000
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn limits_move_by_one_step_between_floor_and_ceiling_and_not_too_often(
        root in 0..12u64,
        steps in prop::collection::vec((0..4usize, 0..2usize, 1..6u64, 0..3000u64), 1..80),
    ) {
        let mut tree = CapacityTree::new(&gpus(root));
        let levels = [(); 2].map(|()| tree.add_level(CapacityTree::ROOT, &gpus(5)));
        let clients = levels.map(|level| tree.add_client(level));
        let child = |level| BalancerChild { level, min: gpus(MIN), max: gpus(MAX) };
        let mut balancer =
            Balancer::new(levels.map(child).into(), BalancerOptions::default())
                .expect("it is sound");
        let (mut ms, mut moved) = (0, [None; 2]);
        for (what, team, n, later) in steps {
            ms += later;
            let (client, now) = (clients[team], Timestamp::from_millis(ms));
            let some = tree.actual(levels[team], &gpus(n)).expect("declared");
            match what {
                0 => drop(tree.try_give_back(client, &some)),
                1 => drop(tree.withdraw(client)),
                _ => if let Err(refusal) = tree.try_take(client, &some, Place::First, now) {
                    tree.reserve(client, n, &refusal);
                },
            }
            let before = levels.map(|level| limit(&tree, level));
            balancer.check(&mut tree, now);
            tree.check();
            for (team, before) in before.into_iter().enumerate() {
                let after = limit(&tree, levels[team]);
                prop_assert!((MIN..=MAX).contains(&after) && after.abs_diff(before) <= 1);
                if after != before {
                    let last = moved[team].replace(ms);
                    prop_assert!(last.is_none_or(|last| ms - last >= THRESHOLD));
                }
            }
        }
    }
}

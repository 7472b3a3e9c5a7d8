//! Extreme numbers in every parameter: an error or a defined result, and the tree stays consistent.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use windlass_core::{Amount, CapacityTree, ClientId, Place, Quota, Rate, ResourceCost, Timestamp};

use crate::support::cases;

fn number() -> impl Strategy<Value = u64> {
    select(vec![0, 1, 2, 10_000, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX - 1, u64::MAX])
}

fn amount() -> impl Strategy<Value = Amount> {
    number().prop_map(Amount::from_steps)
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![number().prop_map(Duration::from_nanos), Just(Duration::MAX)]
}

#[derive(Clone, Debug)]
enum Step {
    Limit(Amount),
    Rate(Rate),
    Quota(Quota),
    Ask(Amount),
    Force(Amount),
    Reconcile(Amount, Amount),
    Release(Amount),
    Withdraw,
}

fn step() -> impl Strategy<Value = Step> {
    let rate = (amount(), duration(), amount());
    prop_oneof![
        amount().prop_map(Step::Limit),
        rate.prop_map(|(amount, per, burst)| Step::Rate(Rate { amount, per, burst })),
        (amount(), duration()).prop_map(|(amount, window)| Step::Quota(Quota { amount, window })),
        amount().prop_map(Step::Ask),
        amount().prop_map(Step::Force),
        (amount(), amount()).prop_map(|(from, to)| Step::Reconcile(from, to)),
        amount().prop_map(Step::Release),
        Just(Step::Withdraw),
    ]
}

fn apply(tree: &mut CapacityTree, client: ClientId, step: &Step, now: Timestamp) {
    let level = tree.level_of(client);
    let cost = |amount| ResourceCost::new().with("gpu", amount);
    let demand = |tree: &CapacityTree, amount| tree.actual(level, &cost(amount)).expect("declared");
    match *step {
        Step::Limit(limit) => drop(tree.set_limits(level, &cost(limit))),
        Step::Rate(rate) => drop(tree.set_rate(level, "gpu", rate, now)),
        Step::Quota(quota) => drop(tree.set_quota(level, "gpu", quota, now)),
        Step::Ask(amount) => {
            let demand = demand(tree, amount);
            if let Err(refusal) = tree.try_take(client, &demand, Place::First, now) {
                tree.reserve(client, 1, &refusal);
            }
        }
        Step::Force(amount) => {
            let demand = demand(tree, amount);
            tree.take(client, &demand, now);
        }
        Step::Reconcile(from, to) => {
            let [from, to] = [from, to].map(|amount| demand(tree, amount));
            drop(tree.reconcile(client, &from, &to, now));
        }
        Step::Release(amount) => {
            let demand = demand(tree, amount);
            drop(tree.try_give_back(client, &demand));
        }
        Step::Withdraw => drop(tree.withdraw(client)),
    }
}

/// Every query on the tree returns a result within its bounds.
fn ask_everything(tree: &CapacityTree, client: ClientId, wanted: Amount, now: Timestamp) {
    let gpu = tree.resource("gpu").expect("declared");
    for level in [tree.level_of(client), CapacityTree::ROOT] {
        for place in [Place::Resuming, Place::First, Place::Later] {
            let room = tree.room(client, level, gpu, place, now);
            let when = tree.when(client, level, gpu, wanted, place, now);
            let fits = room >= i128::from(wanted.steps());
            assert!(wanted == Amount::ZERO || when.is_none_or(|at| fits == (at <= now)));
        }
        assert!(tree.available(level, now).amount("gpu").is_some());
        assert!(tree.utilization(level).iter().all(|(_, used)| (0.0..=1.0).contains(used)));
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn absurd_numbers_give_an_error_or_a_defined_result(
        steps in prop::collection::vec((step(), any::<bool>(), number(), amount()), 1..40),
    ) {
        let one = ResourceCost::new().with("gpu", Amount::from(1));
        let mut tree = CapacityTree::new(&one);
        let level = tree.add_level(CapacityTree::ROOT, &one);
        let clients = [tree.add_client(level), tree.add_client(CapacityTree::ROOT)];
        for (step, first, now, wanted) in steps {
            let (client, now) = (clients[usize::from(first)], Timestamp::from_nanos(now));
            apply(&mut tree, client, &step, now);
            tree.check();
            // At the end of time there is no later time to return.
            if now < Timestamp::MAX {
                ask_everything(&tree, client, wanted, now);
            }
        }
        clients.into_iter().for_each(|client| drop(tree.remove_client(client)));
        tree.check();
    }
}

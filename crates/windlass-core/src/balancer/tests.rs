use std::time::Duration;

use super::*;
use crate::{Demand, Place, Rate};

const ROOT: LevelId = CapacityTree::ROOT;

fn gpus(n: u32) -> ResourceCost {
    ResourceCost::new().with("gpu", Amount::from(n))
}

/// 16 gpus for two teams with 12 each, between 4 and 15, checked every second.
struct Cluster {
    tree: CapacityTree,
    balancer: Balancer,
    levels: [LevelId; 2],
    clients: [ClientId; 2],
    second: u64,
}

impl Cluster {
    fn new(options: BalancerOptions) -> Self {
        let mut tree = CapacityTree::new(&gpus(16));
        let levels = [(); 2].map(|()| tree.add_level(ROOT, &gpus(12)));
        let clients = levels.map(|level| tree.add_client(level));
        let children = levels.map(|level| BalancerChild { level, min: gpus(4), max: gpus(15) });
        let balancer = Balancer::new(children.into(), options).expect("it is sound");
        Self { tree, balancer, levels, clients, second: 0 }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.second * 1000)
    }

    /// Checks once a second.
    fn pass(&mut self, seconds: u64) -> Vec<ClientId> {
        let mut wakes = Vec::new();
        for _ in 0..seconds {
            self.second += 1;
            let now = self.now();
            wakes.extend(self.balancer.check(&mut self.tree, now));
        }
        self.tree.check();
        wakes
    }

    fn demand(&self, team: usize, n: u32) -> Demand {
        self.tree.demand(self.levels[team], &gpus(n)).expect("it fits in principle")
    }

    fn take(&mut self, team: usize, n: u32) {
        let demand = self.demand(team, n);
        let now = self.now();
        self.tree.try_take(self.clients[team], &demand, Place::First, now).expect("enough");
    }

    /// Makes a refused client reserve what it lacks.
    fn ask(&mut self, team: usize, n: u32) {
        let demand = self.demand(team, n);
        let (client, now) = (self.clients[team], self.now());
        let refusal = self.tree.try_take(client, &demand, Place::First, now).unwrap_err();
        self.tree.reserve(client, 1, &refusal);
        for short in refusal.shortages {
            self.tree.watch(client, short.level, short.resource);
        }
    }

    /// Returns the limits of both teams.
    fn limits(&self) -> [u64; 2] {
        self.levels.map(|level| {
            self.tree.limits(level).amount("gpu").expect("it has a limit").steps() / 10_000
        })
    }

    fn set_limit(&mut self, team: usize, n: u32) {
        self.tree.set_limits(self.levels[team], &gpus(n));
    }
}

#[test]
fn idle_teams_shrink_to_their_floor_and_busy_teams_grow_to_their_ceiling() {
    let mut cluster = Cluster::new(BalancerOptions::default());
    cluster.take(0, 12);
    cluster.pass(5);
    assert_eq!(cluster.limits(), [12, 12], "the first look was four seconds ago");
    cluster.pass(1);
    assert_eq!(cluster.limits(), [13, 11]);
    cluster.pass(4);
    assert_eq!(cluster.limits(), [13, 11], "the time begins anew after each step");
    cluster.pass(1);
    assert_eq!(cluster.limits(), [14, 10], "12 of 13 are still above the threshold");
    cluster.take(0, 1);
    cluster.pass(100);
    assert_eq!(cluster.limits(), [15, 4]);
}

#[test]
fn a_break_begins_the_time_anew() {
    let mut cluster = Cluster::new(BalancerOptions::default());
    cluster.pass(5);
    cluster.take(1, 6);
    cluster.pass(1);
    let six = cluster.demand(1, 6);
    cluster.tree.give_back(cluster.clients[1], &six);
    cluster.pass(5);
    assert_eq!(cluster.limits(), [10, 12], "the second team had a break");
    cluster.pass(1);
    assert_eq!(cluster.limits(), [10, 11]);
}

#[test]
fn between_the_thresholds_nothing_moves() {
    let mut cluster = Cluster::new(BalancerOptions::default());
    cluster.set_limit(0, 10);
    cluster.set_limit(1, 10);
    cluster.take(0, 3);
    cluster.take(1, 8);
    cluster.pass(60);
    assert_eq!(cluster.limits(), [10, 10], "0.3 is not below 0.3, nor 0.8 above 0.85");
}

#[test]
fn a_limit_of_0_can_grow_again() {
    let mut cluster = Cluster::new(BalancerOptions::default());
    let one = cluster.demand(1, 1);
    cluster.set_limit(1, 0);
    let (client, now) = (cluster.clients[1], cluster.now());
    let refusal = cluster.tree.try_take(client, &one, Place::First, now).unwrap_err();
    cluster.tree.reserve(client, 1, &refusal);
    cluster.tree.watch(client, cluster.levels[1], refusal.shortages[0].resource);
    assert_eq!(cluster.pass(6), [client], "the waiting client is woken");
    assert_eq!(cluster.limits()[1], 1);
    cluster.pass(60);
    assert_eq!(cluster.limits()[1], 1, "it fits now, and no client was refused since");
}

#[test]
fn repeated_attempts_without_a_reservation_count_as_demand() {
    let mut cluster = Cluster::new(BalancerOptions::default());
    let one = cluster.demand(1, 1);
    cluster.set_limit(1, 0);
    for _ in 0..6 {
        let now = cluster.now();
        assert!(cluster.tree.try_take(cluster.clients[1], &one, Place::First, now).is_err());
        cluster.pass(1);
    }
    assert_eq!(cluster.limits()[1], 1);
}

#[test]
fn a_level_whose_attempts_the_parent_refuses_is_starved() {
    let mut cluster = Cluster::new(BalancerOptions::default());
    cluster.take(0, 12);
    let five = cluster.demand(1, 5);
    for _ in 0..60 {
        let now = cluster.now();
        assert!(cluster.tree.try_take(cluster.clients[1], &five, Place::First, now).is_err());
        cluster.pass(1);
    }
    assert_eq!(cluster.limits()[1], 12);
}

#[test]
fn a_child_that_is_refused_by_its_parent_is_starved_not_idle() {
    let mut cluster = Cluster::new(BalancerOptions::default());
    cluster.take(0, 12);
    cluster.set_limit(0, 15);
    cluster.take(0, 2);
    cluster.ask(1, 3);
    cluster.pass(60);
    assert_eq!(cluster.limits()[1], 12, "its level has room, the root has not");
    cluster.tree.withdraw(cluster.clients[1]);
    cluster.pass(6);
    assert_eq!(cluster.limits()[1], 11, "now no client asks");
}

#[test]
fn demand_that_is_refused_further_down_is_demand() {
    let mut cluster = Cluster::new(BalancerOptions::default());
    let inner = cluster.tree.add_level(cluster.levels[1], &gpus(1));
    let client = cluster.tree.add_client(inner);
    let one = cluster.tree.demand(inner, &gpus(1)).expect("it fits");
    cluster.tree.take(client, &one, Timestamp::ZERO);
    let refusal = cluster.tree.try_take(client, &one, Place::First, Timestamp::ZERO).unwrap_err();
    cluster.tree.reserve(client, 1, &refusal);
    cluster.pass(60);
    assert_eq!(cluster.limits()[1], 12);
}

#[test]
fn a_reservation_that_fits_its_own_level_is_no_reason_to_grow() {
    let mut cluster = Cluster::new(BalancerOptions::default());
    cluster.take(0, 10);
    cluster.take(1, 6);
    cluster.set_limit(1, 8);
    cluster.ask(1, 3);
    cluster.pass(6);
    assert_eq!(cluster.limits()[1], 9, "both its level and the root refused it");
    cluster.pass(60);
    assert_eq!(cluster.limits()[1], 9, "its level does not any more, the root still does");
}

#[test]
fn every_resource_moves_by_its_own_increment() {
    let limits = gpus(8).with("cpu", Amount::from(8)).with("disk", Amount::from(8));
    let mut tree = CapacityTree::new(&limits);
    let max = limits.clone().with("tape", Amount::from(9));
    let min = max.iter().map(|(name, _)| (name.to_owned(), Amount::ZERO)).collect();
    let children = vec![BalancerChild { level: ROOT, min, max }];
    let half: Amount = "0.5".parse().expect("a number");
    let increment = gpus(7).with("disk", half);
    let options = BalancerOptions { increment, ..BalancerOptions::default() };
    let mut balancer = Balancer::new(children, options).expect("it is sound");
    let mut check = |ms| {
        balancer.check(&mut tree, Timestamp::from_millis(ms));
        tree.limits(ROOT).to_string()
    };
    assert_eq!(check(0), "cpu=8 disk=8 gpu=8", "what is not limited is left alone");
    assert_eq!(check(5000), "cpu=7 disk=7.5 gpu=1");
    assert_eq!(check(4000), "cpu=7 disk=7.5 gpu=1", "time does not go back");
    assert_eq!(check(10_000), "cpu=6 disk=7 gpu=0");
}

#[test]
fn one_busy_resource_is_enough_and_rates_do_not_count() {
    let limits = gpus(8).with("cpu", Amount::from(8));
    let mut tree = CapacityTree::new(&limits);
    let rate = Rate { amount: 1.into(), per: Duration::from_secs(1), burst: 1.into() };
    tree.set_rate(ROOT, "calls", rate, Timestamp::ZERO).expect("a sound rate");
    let all = limits.clone().with("calls", Amount::from(1));
    let max = all.iter().map(|(name, _)| (name.to_owned(), Amount::from(9))).collect();
    let min = all.iter().map(|(name, _)| (name.to_owned(), Amount::ZERO)).collect();
    let children = vec![BalancerChild { level: ROOT, min, max }];
    let mut balancer = Balancer::new(children, BalancerOptions::default()).expect("ok");
    let client = tree.add_client(ROOT);
    let demand = tree.demand(ROOT, &gpus(7).with("calls", Amount::from(1))).expect("it fits");
    tree.take(client, &demand, Timestamp::ZERO);
    for ms in [0, 5000] {
        balancer.check(&mut tree, Timestamp::from_millis(ms));
    }
    assert_eq!(tree.limits(ROOT).to_string(), "cpu=9 gpu=9");
    assert_eq!(tree.rate(ROOT, "calls"), Some(rate));
}

#[test]
fn the_defaults_are_those_that_are_documented() {
    let options = BalancerOptions::default();
    let durations =
        [options.check_interval, options.idle_time_threshold, options.busy_time_threshold];
    assert_eq!(durations.map(|d| d.as_millis()), [1000, 5000, 5000]);
    assert_eq!([options.idle_threshold, options.busy_threshold], [0.3, 0.85]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let child = |min, max| vec![BalancerChild { level: ROOT, min, max }];
    let build = |children, options| Balancer::new(children, options).map(|_| ());
    let plain = BalancerOptions::default;
    let sound = || child(gpus(1), gpus(2));
    assert_eq!(build(sound(), plain()), Ok(()));
    assert_eq!(build(vec![], plain()), Ok(()));

    let name = || "gpu".to_owned();
    let [min, max] = [3, 2].map(Amount::from);
    let error = BalancerError::MinAboveMax { name: name(), min, max };
    assert_eq!(build(child(gpus(3), gpus(2)), plain()), Err(error));
    let one_sided = Err(BalancerError::OneSided { name: name() });
    assert_eq!(build(child(gpus(1), ResourceCost::new()), plain()), one_sided);
    assert_eq!(build(child(ResourceCost::new(), gpus(1)), plain()), one_sided);
    let twice = [sound(), sound()].concat();
    assert_eq!(build(twice, plain()), Err(BalancerError::Twice { level: ROOT }));

    for threshold in [-0.1, 1.0001, f64::NAN, f64::INFINITY, 0.12345] {
        let options = BalancerOptions { busy_threshold: threshold, ..plain() };
        let error = build(sound(), options).unwrap_err();
        assert!(matches!(error, BalancerError::Threshold { .. }), "{threshold}");
    }
    for (idle_threshold, busy_threshold) in [(0.5, 0.5), (0.9, 0.1)] {
        let options = BalancerOptions { idle_threshold, busy_threshold, ..plain() };
        let error = BalancerError::Crossed { idle: idle_threshold, busy: busy_threshold };
        assert_eq!(build(sound(), options), Err(error));
    }
    let increment = |increment| BalancerOptions { increment, ..plain() };
    let error = BalancerError::ZeroIncrement { name: name() };
    assert_eq!(build(sound(), increment(gpus(0))), Err(error));
    let unknown = ResourceCost::new().with("cpu", Amount::from(1));
    let error = BalancerError::UnknownIncrement { name: "cpu".to_owned() };
    assert_eq!(build(sound(), increment(unknown)), Err(error));
    let options = BalancerOptions { check_interval: Duration::ZERO, ..plain() };
    assert_eq!(build(sound(), options), Err(BalancerError::ZeroInterval));
}

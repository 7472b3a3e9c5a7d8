//! Fleets of many workers.

use windlass_sim::fleet::{FleetSize, simulate};

#[test]
fn every_work_of_a_large_fleet_ends_and_no_worker_has_too_many() {
    let report = simulate(1, FleetSize { workers: 1000, works: 6000, runs: 20 });
    assert_eq!(report.started, 6000 + report.lost);
}

#[test]
fn every_work_of_a_small_fleet_ends_though_workers_come_and_go() {
    for seed in 0..20 {
        let report = simulate(seed, FleetSize { workers: 5, works: 300, runs: 4 });
        assert_eq!(report.started, 300 + report.lost);
    }
}

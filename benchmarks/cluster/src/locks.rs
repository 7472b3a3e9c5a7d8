//! Locks: taken and given back by one client, and by eight clients with a name each.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use windlass_bench_report::Table;
use windlass_bench_service::{Extent, Windlass};
use windlass_core::{HolderId, Name, Need};
use windlass_store::{Claim, Claimed, Process, Store};

use crate::database::server;

const CLIENTS: usize = 8;

pub(crate) fn run(windlass: &Windlass, extent: Extent, table: &mut Table) {
    let url = server().new_store();
    let place = windlass.place_on(url.clone());
    let pairs = extent.of(50, 2000);
    let alone = client(&url, place.dir(), 0, pairs);
    table.add_delays("a lock and its release, one client", "windlass-store", &alone).goal("≤ 2");
    let mut rates = Vec::new();
    for _ in 0..extent.of(2, 5) {
        let began = Instant::now();
        thread::scope(|scope| {
            for number in 0..CLIENTS {
                let (url, dir) = (&url, place.dir());
                scope.spawn(move || client(url, dir, number, pairs));
            }
        });
        rates.push((pairs * CLIENTS) as f64 / began.elapsed().as_secs_f64());
    }
    let work = format!("a lock and its release, {CLIENTS} clients on {CLIENTS} names");
    table.add(&work, "windlass-store", "pairs/s", rates).goal("≥ 2,500");
}

/// Takes a lock of its own and gives it back, again and again. Returns how long each time took.
fn client(url: &str, homes: &Path, number: usize, pairs: usize) -> Vec<Duration> {
    let mut store = Store::in_database(url, homes).expect("there is a store");
    let process = Process::current().expect("it runs");
    let name = Name::Lock(format!("lock-{number}"));
    let (holder, needs) = (HolderId::new(format!("client {number}")), [Need::one(name.clone())]);
    let pair = |_| {
        let began = Instant::now();
        let claimed = store.transact_leases(|transaction| {
            let claim = Claim { process: Some(&process), ..Claim::new(&holder, &needs) };
            transaction.leases().claim(&claim)
        });
        let Ok(Claimed::Held(holds)) = claimed else { panic!("the name is free") };
        let released = store.transact_leases(|transaction| {
            transaction.leases().release(&name, &holder, holds[0].token)
        });
        released.expect("the store works");
        began.elapsed()
    };
    (0..pairs).map(pair).collect()
}

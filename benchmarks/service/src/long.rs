//! A queue to which very many commands were added over time: what its scheduler needs, and how soon the next one
//! leads it after a kill.

use std::thread;
use std::time::Instant;

use windlass_bench_report::Table;
use windlass_bench_service::{Extent, Place, Process, Windlass};

use crate::thousand::SLOTS;
use crate::usage::resident_mib;

/// How many shells add commands at a time.
const SHELLS: usize = 4;
/// How many commands a shell adds in a row, and then waits until they have ended.
const IN_A_ROW: usize = 250;

pub(crate) fn run(windlass: &Windlass, extent: Extent, table: &mut Table) {
    let place = windlass.place();
    let mut scheduler = Process::scheduler(&place);
    scheduler.await_event("leading");
    // Only a queue that exists can be given other slots than one per CPU.
    place.expect(&["add", "--", "true"]);
    place.expect(&["queue", "default", "--slots", &SLOTS.to_string()]);
    let _worker = Process::worker(&place, SLOTS);
    let mut ended = 0;
    for total in [extent.of(1_000, 50_000), extent.of(2_000, 200_000)] {
        while ended < total {
            add(&place);
            ended += SHELLS * IN_A_ROW;
        }
        let work = format!("a queue after {ended} commands");
        let memory = resident_mib(scheduler.id());
        table.add(&format!("{work}: memory"), "windlass serve", "MiB", vec![memory]).goal("≤ 30");
        let rounds = extent.of(2, 5);
        let (mut leads, mut memory) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            scheduler.kill();
            let began = Instant::now();
            scheduler = Process::scheduler(&place);
            leads.push(scheduler.await_event("began").duration_since(began));
            memory.push(resident_mib(scheduler.id()));
        }
        let restart = format!("{work}: restart of the scheduler, killed,");
        let leads = table.add_delays(&restart, "until it leads the queue", &leads);
        leads.goal("≤ 1000");
        let next = format!("{work}: memory of the next scheduler");
        table.add(&next, "windlass serve", "MiB", memory).goal("≤ 30");
    }
}

/// Adds commands from several shells, and waits until all have ended.
fn add(place: &Place) {
    thread::scope(|scope| {
        for _ in 0..SHELLS {
            scope.spawn(|| (0..IN_A_ROW).for_each(|_| drop(place.expect(&["add", "--", "true"]))));
        }
    });
    place.expect(&["wait", "default"]);
}

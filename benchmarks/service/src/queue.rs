//! A thousand commands that are added to a queue one after the other, eight executed at a time, beside pueue.

use std::time::{Duration, Instant};

use windlass_bench_report::Table;
use windlass_bench_service::{Extent, Place, Process, Windlass, time_in_foreground};

use crate::pueue::Pueue;
use crate::thousand::{SLOTS, per_step};

/// How many ended commands a queue of windlass remembers.
const REMEMBERED: usize = 1000;

/// When commands are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// While others are added.
    AtOnce,
    /// Once all are added.
    WhenAllAreAdded,
}

/// What one pass has taken.
struct Pass {
    adds: Vec<Duration>,
    /// From the first add, or from when the commands may begin, until the last has ended.
    took: Duration,
}

/// A tool with a queue, whose processes end with this value.
pub(crate) trait Contender {
    /// Adds `true` to the queue.
    fn add(&mut self);

    /// Lets the commands begin.
    fn release(&mut self);

    /// Waits until so many commands have ended, and returns when the last one did. Checks that all have
    /// succeeded.
    fn ended(&mut self, commands: usize) -> Instant;
}

pub(crate) fn run(windlass: &Windlass, extent: Extent, table: &mut Table) {
    let commands = extent.of(50, 1000);
    let has_pueue = Pueue::is_installed();
    if !has_pueue {
        eprintln!(
            "pueue is left out, because pueue and pueued are not on the PATH; to measure it, too: \
             cargo install pueue --locked --root DIR, and add DIR/bin to the PATH"
        );
    }
    let work = format!("{commands} × `true` added to a queue, {SLOTS} at a time");
    let foreground: Vec<_> = (0..extent.of(1, 3))
        .map(|_| per_step(time_in_foreground(&windlass.place(), commands, SLOTS), commands))
        .collect();
    table.add(&format!("{work}, per step"), "windlass run, for comparison", "ms", foreground);
    for begin in [Begin::WhenAllAreAdded, Begin::AtOnce] {
        let (mut own, mut pueue) = (Vec::new(), Vec::new());
        for _ in 0..extent.of(1, 3) {
            own.push(pass(&mut Own::new(windlass, begin), begin, commands));
            if has_pueue {
                pueue.push(pass(
                    &mut Pueue::new(windlass, begin == Begin::AtOnce),
                    begin,
                    commands,
                ));
            }
        }
        for (name, passes) in [("windlass add", own), ("pueue add", pueue)] {
            add_rows(&work, name, begin, commands, &passes, table);
        }
    }
}

fn pass(contender: &mut dyn Contender, begin: Begin, commands: usize) -> Pass {
    let first = Instant::now();
    let mut adds = Vec::new();
    for _ in 0..commands {
        let began = Instant::now();
        contender.add();
        adds.push(began.elapsed());
    }
    let since = match begin {
        Begin::AtOnce => first,
        Begin::WhenAllAreAdded => Instant::now(),
    };
    if begin == Begin::WhenAllAreAdded {
        contender.release();
    }
    Pass { adds, took: contender.ended(commands).duration_since(since) }
}

fn add_rows(
    work: &str,
    name: &str,
    begin: Begin,
    commands: usize,
    passes: &[Pass],
    table: &mut Table,
) {
    if passes.is_empty() {
        return;
    }
    let (when, from) = match begin {
        Begin::AtOnce => ("executed meanwhile", "the first add"),
        Begin::WhenAllAreAdded => ("executed later", "the last add"),
    };
    let adds: Vec<_> = passes.iter().flat_map(|pass| pass.adds.iter().copied()).collect();
    table.add_delays(&format!("{work}, {when}: one add"), name, &adds);
    let each = passes.iter().map(|pass| per_step(pass.took, commands)).collect();
    let each_work = format!("{work}, {when}: from {from} until all have ended, per step");
    table.add(&each_work, name, "ms", each);
}

/// The queue of windlass.
struct Own {
    place: Place,
    _scheduler: Process,
    worker: Option<Process>,
}

impl Own {
    fn new(windlass: &Windlass, begin: Begin) -> Self {
        let place = windlass.place();
        let mut scheduler = Process::scheduler(&place);
        scheduler.await_event("leading");
        // Only a queue that exists can be given other slots than one per CPU.
        place.expect(&["add", "--", "true"]);
        place.expect(&["queue", "default", "--slots", &SLOTS.to_string()]);
        let mut own = Self { place, _scheduler: scheduler, worker: None };
        if begin == Begin::AtOnce {
            own.release();
        }
        own
    }
}

impl Contender for Own {
    fn add(&mut self) {
        self.place.expect(&["add", "--", "true"]);
    }

    fn release(&mut self) {
        self.worker = Some(Process::worker(&self.place, SLOTS));
    }

    fn ended(&mut self, commands: usize) -> Instant {
        self.place.expect(&["wait", "default"]);
        let now = Instant::now();
        let shown = self.place.expect(&["queue", "default", "--json"]);
        let succeeded = shown.matches("\"state\":\"success\"").count();
        // One more has created the queue, and the first of many are forgotten.
        assert_eq!(succeeded, REMEMBERED.min(commands + 1));
        now
    }
}

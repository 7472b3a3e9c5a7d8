//! Another process keeps a run from writing to the store.

use std::time::Duration;

use signal_hook::consts::SIGTERM;
use windlass_core::WorkState;
use windlass_store::RunOutcome;

use super::super::End;
use super::super::attempts::StopMode;
use super::doubles::{Case, Outside, Script, Seen, Told, command};

/// A step that ends after a second, one that takes ten and may take twelve, and one that follows.
const TEXT: &str = "[step.short]\nrun = 'x'\n[step.long]\nrun = 'x'\ntimeout = '12s'\n\
    [step.last]\nrun = 'x'\nafter = ['long']\ntimeout = '2s'\n";

/// Leads a run that cannot store the end of the short step for a minute.
fn lead(case: Case) -> Told {
    case.stalled(1, 60).lead(|id| Script::Exit(if id == command(1, 1) { 10 } else { 1 }, 0))
}

fn notice() -> Seen {
    let blocker = "/gate is locked by a process that cannot be seen from here; if it is suspended, \
        resume or kill it";
    Seen::Notice(format!("waiting for the store: {blocker}"))
}

#[test]
fn a_run_goes_on_when_it_can_write_again_and_its_time_has_paused() {
    let told = lead(Case::of(TEXT));
    assert_eq!(*told.end.as_ref().expect("it is led to its end"), End::Succeeded);
    let outcome = told.world.ended.flatten().map(|end| end.outcome);
    assert_eq!(outcome, Some(RunOutcome::Succeeded), "no step has timed out");
    let seen = &told.world.seen;
    assert_eq!(seen.iter().filter(|(_, seen)| *seen == notice()).count(), 1, "{seen:?}");
    assert!(seen.contains(&(4, notice())), "it is told after three seconds: {seen:?}");
    assert_eq!(told.starts()[2], (61, command(2, 1)), "what follows waits for the store");
    assert!(told.world.leases_kept > 50, "more often than every second");
}

#[test]
fn a_signal_ends_a_run_that_cannot_write() {
    let told = lead(Case::of(TEXT).at(3, Outside::Signal(SIGTERM)));
    let end = told.end.as_ref().expect("it is interrupted");
    assert_eq!(*end, End::Interrupted { signal: SIGTERM });
    let changed = |step: &str| Seen::Changed(step.to_owned(), WorkState::Running, 1);
    let grace = Duration::from_secs(10);
    let seen = [
        (0, Seen::Start(command(0, 1))),
        (0, Seen::Start(command(1, 1))),
        (0, changed("short")),
        (0, changed("long")),
        (3, Seen::Stopping),
        (3, Seen::Stop(command(1, 1), StopMode::Ask { grace })),
    ];
    assert_eq!(told.world.seen, seen);
    assert!(told.world.ended.is_none() && told.world.attempts.is_empty(), "nothing was stored");
}

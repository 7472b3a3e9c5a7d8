//! The loop of a run, driven without a store and without processes, in virtual time.

use std::time::Duration;

use signal_hook::consts::SIGTERM;
use windlass_core::WorkState;
use windlass_store::{AttemptEnd, RunOutcome};

use super::super::End;
use super::super::attempts::{OrderId, StopMode};
use super::doubles::{Case, Outside, Script, Seen, Told, check, command, finally, not_yet, passed};

/// Succeeds after a second, whatever it is.
fn succeed(_: OrderId) -> Script {
    Script::Exit(1, 0)
}

fn changed(step: &str, state: WorkState, attempt: u32) -> Seen {
    Seen::Changed(step.to_owned(), state, attempt)
}

#[track_caller]
fn assert_seen(told: &Told, expected: &[(u64, Seen)]) {
    assert_eq!(told.world.seen, expected);
}

#[track_caller]
fn assert_ended(told: &Told, end: End, outcome: Option<RunOutcome>) {
    assert_eq!(*told.end.as_ref().expect("it is led to its end"), end);
    let stored = told.world.ended.expect("it has given up the lead");
    assert_eq!(stored.map(|end| end.outcome), outcome);
}

#[test]
fn a_step_that_fails_is_tried_again_after_its_delay_and_nothing_else_happens() {
    let text = "[step.a]\nrun = 'x'\nretry = { count = 1, delay = '30s' }\n";
    let told = Case::of(text).lead(|id| Script::Exit(1, i32::from(id == command(0, 1))));
    assert_ended(&told, End::Succeeded, Some(RunOutcome::Succeeded));
    assert_seen(
        &told,
        &[
            (0, Seen::Start(command(0, 1))),
            (0, changed("a", WorkState::Running, 1)),
            (1, changed("a", WorkState::Pending, 1)),
            (31, Seen::Start(command(0, 2))),
            (31, changed("a", WorkState::Running, 2)),
            (32, changed("a", WorkState::Success, 2)),
        ],
    );
}

#[test]
fn a_step_that_exceeds_its_timeout_is_stopped_and_has_failed() {
    let text = "[step.a]\nrun = 'x'\ntimeout = '1m'\ngrace = '3s'\n";
    let told = Case::of(text).lead(|_| Script::Never);
    assert_ended(&told, End::Failed, Some(RunOutcome::Failed));
    let grace = Duration::from_secs(3);
    assert_seen(
        &told,
        &[
            (0, Seen::Start(command(0, 1))),
            (0, changed("a", WorkState::Running, 1)),
            (60, Seen::Stop(command(0, 1), StopMode::Ask { grace })),
            (60, changed("a", WorkState::Failed, 1)),
        ],
    );
}

#[test]
fn a_cancelled_run_stops_what_runs_and_starts_nothing_more() {
    let text = "[step.a]\nrun = 'x'\n[step.b]\nrun = 'x'\nafter = ['a']\n";
    let told = Case::of(text).at(5, Outside::Request("cancel")).lead(|_| Script::Never);
    assert_ended(&told, End::Cancelled, Some(RunOutcome::Cancelled));
    let grace = Duration::from_secs(10);
    assert_seen(
        &told,
        &[
            (0, Seen::Start(command(0, 1))),
            (0, changed("a", WorkState::Running, 1)),
            (5, changed("b", WorkState::Cancelled, 0)),
            (5, Seen::Stop(command(0, 1), StopMode::Ask { grace })),
            (5, changed("a", WorkState::Cancelled, 1)),
        ],
    );
}

#[test]
fn a_paused_run_starts_nothing_and_its_deadline_stands_still() {
    let text = "concurrency = 1\ndeadline = '20s'\n[step.a]\nrun = 'x'\npriority = 1\n\
        retry = { count = 1, delay = '1s' }\n[step.b]\nrun = 'x'\n";
    let told = Case::of(text)
        .at(2, Outside::Request("pause"))
        .at(60, Outside::Request("unpause"))
        .lead(|id| Script::Exit(5, i32::from(id == command(0, 1))));
    assert_ended(&told, End::Succeeded, Some(RunOutcome::Succeeded));
    let notice = |what: &str| Seen::Notice(what.to_owned());
    assert_seen(
        &told,
        &[
            (0, Seen::Start(command(0, 1))),
            (0, changed("a", WorkState::Running, 1)),
            (
                2,
                notice(
                    "paused: what runs may end, and nothing starts; to continue: windlass unpause 1",
                ),
            ),
            (5, changed("a", WorkState::Pending, 1)),
            (60, Seen::Start(command(0, 2))),
            (60, changed("a", WorkState::Running, 2)),
            (60, notice("continues after a pause")),
            (65, Seen::Start(command(1, 1))),
            (65, changed("a", WorkState::Success, 2)),
            (65, changed("b", WorkState::Running, 1)),
            (70, changed("b", WorkState::Success, 1)),
        ],
    );
}

#[test]
fn a_halted_command_has_the_rest_of_its_time_when_it_continues() {
    let text = "[step.a]\nrun = 'x'\ntimeout = '10s'\n[step.b]\nrun = 'x'\n";
    let grace = Duration::from_secs(10);
    for (takes, end) in [(9, WorkState::Success), (11, WorkState::Failed)] {
        let told = Case::of(text)
            .at(4, Outside::Request("pause a"))
            .at(4, Outside::Request("halt a"))
            .at(50, Outside::Request("unpause a"))
            .lead(move |id| Script::Exit(if id == command(0, 1) { takes } else { 6 }, 0));
        let stopped = (56, Seen::Stop(command(0, 1), StopMode::Ask { grace }));
        let at = if end == WorkState::Success { 55 } else { 56 };
        let mut expected = vec![
            (0, Seen::Start(command(0, 1))),
            (0, Seen::Start(command(1, 1))),
            (0, changed("a", WorkState::Running, 1)),
            (0, changed("b", WorkState::Running, 1)),
            (4, Seen::Stop(command(0, 1), StopMode::Halt)),
            (4, Seen::Waits("a".to_owned(), "the end of a pause".to_owned())),
            (6, changed("b", WorkState::Success, 1)),
            (50, Seen::Stop(command(0, 1), StopMode::Continue)),
        ];
        expected.extend((end == WorkState::Failed).then_some(stopped));
        expected.push((at, changed("a", end, 1)));
        assert_eq!(told.world.seen, expected);
    }
}

#[test]
fn a_lost_attempt_is_tried_again_and_uses_up_no_retry() {
    let text = "[step.a]\nrun = 'x'\n";
    let told = Case::of(text).lead(|id| match id == command(0, 1) {
        true => Script::Lost(5),
        false => Script::Exit(1, 0),
    });
    assert_ended(&told, End::Succeeded, Some(RunOutcome::Succeeded));
    assert_eq!(told.starts(), [(0, command(0, 1)), (5, command(0, 2))]);
    assert_eq!(told.ends(), [(1, AttemptEnd::Lost), (2, AttemptEnd::Success)]);
}

#[test]
fn a_lost_finally_and_a_lost_check_are_repeated() {
    let text = "[step.a]\nrun = 'x'\nfinally = 'x'\nguard = 'g'\n\
        [guard.g]\ncondition = 'x'\nretry = { max = 1, interval = '3s' }\n";
    let mut finals = 0;
    let told = Case::of(text).lead(move |id| match id {
        OrderId::Check { round: 1, .. } => Script::Lost(2),
        OrderId::Check { .. } => passed(),
        OrderId::Finally(_) => {
            finals += 1;
            if finals == 1 { Script::Lost(2) } else { Script::Exit(1, 0) }
        }
        _ => Script::Exit(1, 0),
    });
    assert_ended(&told, End::Succeeded, Some(RunOutcome::Succeeded));
    let expected = [
        (0, check(0, 1)),
        (2, check(0, 2)),
        (2, command(0, 1)),
        (3, finally(0, 1)),
        (5, finally(0, 1)),
    ];
    assert_eq!(told.starts(), expected);
}

#[test]
fn a_guard_is_checked_at_its_interval_until_it_passes() {
    let text = "[step.a]\nrun = 'x'\nguard = 'g'\n\
        [guard.g]\ncondition = 'x'\nretry = { max = 5, interval = '3s' }\n";
    let told = Case::of(text).lead(|id| match id {
        OrderId::Check { round, .. } if round < 3 => not_yet(),
        OrderId::Check { .. } => passed(),
        _ => Script::Exit(1, 0),
    });
    assert_ended(&told, End::Succeeded, Some(RunOutcome::Succeeded));
    let what = "guard g: exit code 1: not there".to_owned();
    assert_seen(
        &told,
        &[
            (0, Seen::Start(check(0, 1))),
            (0, Seen::Waits("a".to_owned(), what)),
            (3, Seen::Start(check(0, 2))),
            (6, Seen::Start(check(0, 3))),
            (6, Seen::Start(command(0, 1))),
            (6, changed("a", WorkState::Running, 1)),
            (7, changed("a", WorkState::Success, 1)),
        ],
    );
}

#[test]
fn an_event_has_a_guard_checked_at_once() {
    let text = "[step.a]\nrun = 'x'\nguard = 'g'\n\
        [guard.g]\ncondition = 'x'\nwake_on = ['data:ready']\nretry = { max = 5, interval = '1h' }\n";
    let case =
        Case::of(text).at(5, Outside::Event("other:thing")).at(7, Outside::Event("data:ready"));
    let told = case.lead(|id| match id {
        OrderId::Check { round: 1, .. } => not_yet(),
        OrderId::Check { .. } => passed(),
        _ => Script::Exit(1, 0),
    });
    assert_ended(&told, End::Succeeded, Some(RunOutcome::Succeeded));
    assert_eq!(told.starts(), [(0, check(0, 1)), (7, check(0, 2)), (7, command(0, 1))]);
}

#[test]
fn a_guard_that_is_approved_while_it_is_checked_stops_its_check() {
    let text = "[step.a]\nrun = 'x'\nguard = 'g'\n[guard.g]\ncondition = 'x'\n";
    let told = Case::of(text).at(5, Outside::Decision("approve", 0, "g")).lead(|id| match id {
        OrderId::Check { .. } => Script::Never,
        _ => Script::Exit(1, 0),
    });
    assert_ended(&told, End::Succeeded, Some(RunOutcome::Succeeded));
    assert_seen(
        &told,
        &[
            (0, Seen::Start(check(0, 1))),
            (5, Seen::Start(command(0, 1))),
            (5, Seen::Stop(check(0, 1), StopMode::Kill)),
            (5, changed("a", WorkState::Running, 1)),
            (6, changed("a", WorkState::Success, 1)),
        ],
    );
}

#[test]
fn a_hook_starts_once_the_end_is_shown_and_the_run_waits_for_it() {
    let text = "[on]\nsuccess = 'x'\nfailure = 'x'\n[step.a]\nrun = 'x'\n";
    let told = Case::of(text).lead(|id| match id {
        OrderId::Hook(_) => Script::Exit(4, 3),
        _ => Script::Exit(1, 0),
    });
    assert_ended(&told, End::Succeeded, Some(RunOutcome::Succeeded));
    let notice = "on.success: exit code 3; its output: /nowhere/runs/1/on.success.log".to_owned();
    assert_seen(
        &told,
        &[
            (0, Seen::Start(command(0, 1))),
            (0, changed("a", WorkState::Running, 1)),
            (1, changed("a", WorkState::Success, 1)),
            (1, Seen::Start(OrderId::Hook(1))),
            (5, Seen::Notice(notice)),
        ],
    );
}

#[test]
fn a_decision_counts_for_its_guard_and_for_no_other() {
    let text = "[step.a]\nrun = 'x'\nguard = ['g', 'h']\n\
        [guard.g]\ncondition = 'x'\n[guard.h]\ncondition = 'x'\n";
    // The first guard passes while the decision about it is on its way; the second is checked slowly.
    let told = Case::of(text)
        .at(5, Outside::Decision("approve", 0, "g"))
        .at(20, Outside::Decision("approve", 0, "h"))
        .lead(|id| match id {
            OrderId::Check { round: 1, .. } => passed(),
            OrderId::Check { .. } => Script::Never,
            _ => Script::Exit(1, 0),
        });
    assert_ended(&told, End::Succeeded, Some(RunOutcome::Succeeded));
    assert_eq!(told.starts(), [(0, check(0, 1)), (0, check(0, 2)), (20, command(0, 1))]);
}

#[test]
fn a_guard_that_was_decided_before_its_turn_is_not_checked() {
    let text = "[step.a]\nrun = 'x'\nguard = ['g', 'h']\n\
        [guard.g]\ncondition = 'x'\nretry = { max = 9, interval = '10s' }\n\
        [guard.h]\ncondition = 'x'\n";
    let told = Case::of(text).at(5, Outside::Decision("reject", 0, "h")).lead(|id| match id {
        OrderId::Check { round: 1, .. } => not_yet(),
        OrderId::Check { .. } => passed(),
        _ => Script::Exit(1, 0),
    });
    assert_ended(&told, End::Failed, Some(RunOutcome::Failed));
    assert_eq!(told.starts(), [(0, check(0, 1)), (10, check(0, 2))]);
}

#[test]
fn an_escalated_guard_emits_its_event_before_its_hook_starts() {
    let text = "[on]\nescalate = 'x'\n[step.a]\nrun = 'x'\nguard = 'g'\n\
        [guard.g]\ncondition = 'x'\ntimeout = '5s'\non_timeout = 'escalate'\n";
    let told = Case::of(text).at(9, Outside::Decision("reject", 0, "g")).lead(|id| match id {
        OrderId::Check { .. } => not_yet(),
        _ => Script::Exit(1, 0),
    });
    assert_ended(&told, End::Failed, Some(RunOutcome::Failed));
    assert_eq!(told.starts(), [(0, check(0, 1)), (5, OrderId::Hook(1))]);
    assert_eq!(told.world.events, ["guard:g:escalated"]);
}

#[test]
fn the_first_signal_asks_and_the_second_one_kills() {
    let text = "[step.a]\nrun = 'x'\nfinally = 'x'\n";
    let case = Case::of(text).at(5, Outside::Signal(SIGTERM)).at(7, Outside::Signal(SIGTERM));
    let told = case.lead(|_| Script::Never);
    assert_ended(&told, End::Interrupted { signal: SIGTERM }, None);
    let grace = Duration::from_secs(10);
    assert_seen(
        &told,
        &[
            (0, Seen::Start(command(0, 1))),
            (0, changed("a", WorkState::Running, 1)),
            (5, Seen::Stop(command(0, 1), StopMode::Ask { grace })),
            (5, Seen::Stopping),
            (5, Seen::Start(finally(0, 1))),
            (7, Seen::Stop(finally(0, 1), StopMode::Kill)),
            (7, changed("a", WorkState::Pending, 1)),
        ],
    );
}

#[test]
fn a_finally_that_an_interrupt_ends_leaves_the_result_of_its_step_open() {
    let text = "[step.a]\nrun = 'x'\ngrace = '3s'\nfinally = 'x'\n\
        [step.b]\nrun = 'x'\nafter = ['a']\n[on]\nfailure = 'x'\n";
    let told = Case::of(text).at(5, Outside::Signal(SIGTERM)).lead(|id| match id {
        OrderId::Finally(_) => Script::Never,
        _ => Script::Exit(1, 0),
    });
    assert_ended(&told, End::Interrupted { signal: SIGTERM }, None);
    let grace = Duration::from_secs(3);
    assert_seen(
        &told,
        &[
            (0, Seen::Start(command(0, 1))),
            (0, changed("a", WorkState::Running, 1)),
            (1, Seen::Start(finally(0, 1))),
            (5, Seen::Stop(finally(0, 1), StopMode::Finish { grace })),
            (5, Seen::Stopping),
        ],
    );
    assert_eq!(told.ends(), [(1, AttemptEnd::Finishing), (1, AttemptEnd::Finishing)]);
}

#[test]
fn a_finally_that_ends_in_time_after_an_interrupt_ends_its_step() {
    let text = "[step.a]\nrun = 'x'\nfinally = 'x'\n";
    let told = Case::of(text).at(2, Outside::Signal(SIGTERM)).lead(|id| match id {
        OrderId::Command(_) => Script::Never,
        _ => Script::Exit(1, 4),
    });
    assert_ended(&told, End::Interrupted { signal: SIGTERM }, None);
    assert_eq!(told.starts(), [(0, command(0, 1)), (2, finally(0, 1))]);
    assert_eq!(told.ends(), [(1, AttemptEnd::Finishing), (1, AttemptEnd::Interrupted)]);
}

#[test]
fn a_finally_that_follows_an_interrupted_wait_for_a_retry_is_recorded() {
    let text = "[step.a]\nrun = 'x'\nretry = { count = 1, delay = '30s' }\nfinally = 'x'\n";
    for code in [0, 4] {
        let told = Case::of(text).at(5, Outside::Signal(SIGTERM)).lead(move |id| match id {
            OrderId::Finally(_) => Script::Exit(1, code),
            _ => Script::Exit(1, 1),
        });
        assert_ended(&told, End::Interrupted { signal: SIGTERM }, None);
        assert_eq!(told.starts(), [(0, command(0, 1)), (5, finally(0, 1))]);
        assert_eq!(told.ends(), [(1, AttemptEnd::Retry), (1, AttemptEnd::Interrupted)]);
    }
    let case = Case::of(text).at(5, Outside::Signal(SIGTERM)).at(6, Outside::Signal(SIGTERM));
    let told = case.lead(|id| match id {
        OrderId::Finally(_) => Script::Never,
        _ => Script::Exit(1, 1),
    });
    assert_eq!(told.ends(), [(1, AttemptEnd::Retry)], "its finally was killed and is still due");
}

#[test]
fn what_a_step_has_to_ensure_is_given_up_when_it_is_cancelled() {
    let text = "[step.a]\nrun = 'x'\nensure = 'g'\n[guard.g]\ncondition = 'x'\n";
    let told = Case::of(text).at(5, Outside::Request("cancel a")).lead(|id| match id {
        OrderId::Check { .. } => Script::Never,
        _ => Script::Exit(1, 0),
    });
    assert_ended(&told, End::Cancelled, Some(RunOutcome::Cancelled));
    assert_seen(
        &told,
        &[
            (0, Seen::Start(command(0, 1))),
            (0, changed("a", WorkState::Running, 1)),
            (1, Seen::Start(check(0, 1))),
            (5, Seen::Stop(check(0, 1), StopMode::Kill)),
            (5, changed("a", WorkState::Cancelled, 1)),
        ],
    );
}

#[test]
fn an_order_that_is_late_is_repeated_unless_its_name_is_lost() {
    let late_once = || {
        let mut orders = 0;
        move |_| {
            orders += 1;
            if orders == 1 { Script::Late } else { Script::Exit(1, 0) }
        }
    };
    let text = "[step.a]\nrun = 'x'\n";
    let told = Case::of(text).lead(late_once());
    assert_ended(&told, End::Succeeded, Some(RunOutcome::Succeeded));
    assert_eq!(told.starts(), [(0, command(0, 1))]);

    let told = Case::of(text).losing_names().lead(late_once());
    assert_ended(&told, End::Failed, Some(RunOutcome::Failed));
    assert_eq!(told.starts(), []);
}

/// Uses everything that starts, is shown or is stored.
const EVERYTHING: &str = "concurrency = 2\n\
    [on]\nfailure = 'x'\nescalate = 'x'\n\
    [step.a]\nrun = 'x'\nretry = { count = 1, delay = '2s' }\nfinally = 'x'\n\
    [step.b]\nrun = 'x'\nafter = ['a']\nensure = 'g'\n\
    [step.c]\nrun = 'x'\nwhen = 'x'\nguard = 'h'\n\
    [step.d]\nrun = 'x'\nafter = ['b', 'c']\ntimeout = '7s'\nfinally = 'x'\n\
    [step.e]\nrun = 'x'\nafter = ['d']\n\
    [guard.g]\ncondition = 'x'\nretry = { max = 3, interval = '1s' }\n\
    [guard.h]\ncondition = 'x'\ntimeout = '5s'\non_timeout = 'escalate'\n";

fn everything() -> Case {
    Case::of(EVERYTHING).at(9, Outside::Decision("approve", 2, "h"))
}

fn everything_script() -> impl FnMut(OrderId) -> Script + 'static {
    let d = windlass_core::WorkId::from_index(3);
    move |id| match id {
        OrderId::Command(grant) if grant.work == d => Script::Never,
        OrderId::Command(grant) if grant.attempt == 1 && grant.work.index() == 0 => {
            Script::Exit(1, 1)
        }
        // The first check is that of `when`.
        OrderId::Check { round: 1, .. } => passed(),
        OrderId::Check { round, .. } if round % 3 != 0 => not_yet(),
        OrderId::Check { .. } => passed(),
        other => succeed(other),
    }
}

#[test]
fn a_journal_that_fails_at_any_write_leaves_nothing_started_or_shown_that_was_not_committed() {
    // The world checks each start and each change against what the journal has, and that nothing
    // follows a failure.
    let whole = everything().lead(everything_script());
    assert_ended(&whole, End::Failed, Some(RunOutcome::Failed));
    let kinds = |told: &Told, is: fn(&OrderId) -> bool| told.starts().iter().any(|(_, id)| is(id));
    assert!(kinds(&whole, |id| matches!(id, OrderId::Finally(_))));
    assert!(kinds(&whole, |id| matches!(id, OrderId::Hook(1))));
    assert!(kinds(&whole, |id| matches!(id, OrderId::Hook(2))));
    assert!(whole.world.writes > 20, "{}", whole.world.writes);

    for n in 1..=whole.world.writes {
        let failed = everything().failing_at(n).lead(everything_script());
        failed.end.expect_err("the journal has failed");
        assert_eq!(failed.world.seen.last().map(|(_, seen)| seen), Some(&Seen::JournalFailed));
        let before = failed.world.seen.len() - 1;
        assert_eq!(failed.world.seen[..before], whole.world.seen[..before], "write {n}");
    }
}

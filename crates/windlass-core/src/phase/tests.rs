use super::*;

const DUE: Timestamp = Timestamp::from_millis(7);

const PENDING: [Phase; 7] = [
    Phase::Waiting,
    Phase::Gated,
    Phase::Ready,
    Phase::Granted,
    Phase::WaitingOutside,
    Phase::Paused,
    Phase::Delayed { due: DUE },
];
const UNDER_WAY: [Phase; 5] =
    [Phase::Running, Phase::Halted, Phase::Suspended, Phase::Resuming, Phase::Joining];
const ENDED: [Phase; 5] =
    [Phase::Success, Phase::Skipped, Phase::Failed, Phase::Blocked, Phase::Cancelled];
const WHYS: [StopReason; 3] = [StopReason::Timeout, StopReason::Deadline, StopReason::Cancel];

const fn stopping(why: StopReason, holds: bool) -> Phase {
    Phase::Cancelling { why, holds }
}

fn all_stopping() -> Vec<Phase> {
    WHYS.iter().flat_map(|&why| [stopping(why, true), stopping(why, false)]).collect()
}

fn phases() -> Vec<Phase> {
    [&PENDING[..], &UNDER_WAY, &all_stopping(), &ENDED].concat()
}

fn steps() -> Vec<Step> {
    let plain = [
        Step::Unblock,
        Step::ReachGate,
        Step::Open,
        Step::RejectedBeforeStart,
        Step::Block,
        Step::Skip,
        Step::Hold,
        Step::Grant,
        Step::HandBack,
        Step::Refuse,
        Step::Notify,
        Step::Pause,
        Step::Unpause,
        Step::Start,
        Step::Halt,
        Step::Continue,
        Step::Suspend,
        Step::ResumeRequested,
        Step::Resume,
        Step::Join,
        Step::RetryAt(DUE),
        Step::ComeDue,
        Step::Interrupt,
        Step::Succeed,
        Step::Fail,
        Step::Stop,
        Step::Reopen,
    ];
    plain.into_iter().chain(WHYS.map(Step::Ask)).collect()
}

/// All allowed steps and the phases they lead to.
fn table() -> Vec<(Phase, Step, Phase)> {
    use Phase::*;
    let mut table = vec![
        (Waiting, Step::Unblock, Ready),
        (Waiting, Step::ReachGate, Gated),
        (Waiting, Step::Block, Blocked),
        (Waiting, Step::Skip, Skipped),
        (Gated, Step::Skip, Skipped),
        (Gated, Step::Open, Ready),
        (Gated, Step::Hold, Waiting),
        (Ready, Step::Hold, Waiting),
        (Granted, Step::Hold, Waiting),
        (WaitingOutside, Step::Hold, Waiting),
        (Ready, Step::Grant, Granted),
        (Granted, Step::HandBack, Ready),
        (Granted, Step::Refuse, WaitingOutside),
        (WaitingOutside, Step::Notify, Ready),
        (Ready, Step::Pause, Paused),
        (Granted, Step::Pause, Paused),
        (WaitingOutside, Step::Pause, Paused),
        (Paused, Step::Hold, Waiting),
        (Paused, Step::Unpause, Ready),
        (Granted, Step::Start, Running),
        (Ready, Step::Start, Running),
        (Delayed { due: DUE }, Step::ComeDue, Ready),
        (Running, Step::Halt, Halted),
        (Halted, Step::Continue, Running),
        (Running, Step::Suspend, Suspended),
        (Resuming, Step::Suspend, Suspended),
        (Suspended, Step::ResumeRequested, Resuming),
        (Resuming, Step::Resume, Running),
        (Running, Step::Join, Joining),
        (Halted, Step::Join, Joining),
        (Suspended, Step::Join, Joining),
        (Resuming, Step::Join, Joining),
    ];
    for pending in PENDING {
        table.push((pending, Step::RejectedBeforeStart, Failed));
        table.push((pending, Step::Ask(StopReason::Cancel), Cancelled));
    }
    for attempt in UNDER_WAY {
        table.push((attempt, Step::Succeed, Success));
        table.push((attempt, Step::Fail, Failed));
        table.push((attempt, Step::RetryAt(DUE), Delayed { due: DUE }));
        table.push((attempt, Step::Interrupt, Ready));
        let holds = matches!(attempt, Running | Halted);
        table.extend(WHYS.map(|why| (attempt, Step::Ask(why), stopping(why, holds))));
    }
    for holds in [true, false] {
        for (place, &why) in WHYS.iter().enumerate() {
            let graver = |asked: usize| stopping(WHYS[place.max(asked)], holds);
            table.extend((0..3).map(|n| (stopping(why, holds), Step::Ask(WHYS[n]), graver(n))));
        }
        table.push((stopping(StopReason::Cancel, holds), Step::Stop, Cancelled));
        table.push((stopping(StopReason::Deadline, holds), Step::Fail, Failed));
        table.push((stopping(StopReason::Timeout, holds), Step::Fail, Failed));
        table.push((
            stopping(StopReason::Timeout, holds),
            Step::RetryAt(DUE),
            Delayed { due: DUE },
        ));
    }
    let idle = [&PENDING[..], &ENDED].concat();
    table.extend(idle.into_iter().map(|idle| (idle, Step::Reopen, Waiting)));
    table
}

#[test]
fn every_step_is_in_the_table_or_an_error() {
    let table = table();
    let mut allowed = 0;
    for from in phases() {
        for step in steps() {
            let known = table.iter().find(|entry| (entry.0, entry.1) == (from, step));
            let expected = known.map(|entry| entry.2).ok_or(IllegalStep { from, step });
            assert_eq!(from.after(step), expected);
            allowed += usize::from(expected.is_ok());
        }
    }
    assert_eq!(table.len(), allowed, "no line of it is there twice");
}

#[test]
fn an_end_is_left_only_by_a_persons_retry() {
    for from in ENDED {
        let out: Vec<_> = steps().into_iter().filter(|step| from.after(*step).is_ok()).collect();
        assert_eq!(out, [Step::Reopen], "{from:?}");
    }
}

#[test]
fn only_what_runs_or_is_about_to_holds_anything() {
    let holds = phases().into_iter().filter(|phase| phase.holds());
    let stopping: Vec<_> = WHYS.map(|why| stopping(why, true)).to_vec();
    let expected = [vec![Phase::Granted, Phase::Running, Phase::Halted], stopping].concat();
    assert_eq!(holds.collect::<Vec<_>>(), expected);
}

use super::super::outline::ResourceOutline;
use super::*;
use WorkState::{Blocked, Cancelled, Failed, Pending, Running, Success};

/// `fetch`, then `build` and `test` after it, then `deploy` after both; `build` uses both GPUs.
pub(crate) fn board() -> Board {
    let step = |name: &str, after: &[usize]| StepOutline {
        name: name.to_owned(),
        label: name.to_owned(),
        after: after.to_vec(),
        uses: Vec::new(),
        before: Before::default(),
    };
    let mut steps =
        vec![step("fetch", &[]), step("build", &[0]), step("test", &[0]), step("deploy", &[1, 2])];
    steps[1].uses = vec![(0, Quantity::whole(2))];
    let gpu = ResourceOutline { label: "gpu".to_owned(), limit: Quantity::whole(2) };
    let (run, workflow) = ("3fa9c2d1".to_owned(), "nightly".to_owned());
    Board::new(Outline { run, workflow, steps, slots: 4, resources: vec![gpu] })
}

/// Returns a change of a step; `fetch` has two retries, and the others have none.
pub(crate) fn change(step: &str, state: WorkState, attempt: u32, at_ms: u64) -> StepChange {
    StepChange {
        step: step.to_owned(),
        state,
        attempt,
        most_attempts: if step == "fetch" { 3 } else { 1 },
        at_ms,
        log: None,
        finally_log: None,
        due_ms: None,
        why: None,
        skipped: false,
    }
}

pub(crate) fn because(why: &str, change: StepChange) -> StepChange {
    StepChange { why: Some(why.to_owned()), ..change }
}

fn running(board: &Board) -> Vec<&str> {
    board.running().map(|(place, _)| board.step(place).name.as_str()).collect()
}

#[test]
fn every_step_is_counted_in_its_state() {
    let mut board = board();
    board.apply(change("fetch", Running, 1, 0));
    assert_eq!(board.counts(), Counts { running: 1, ..Counts::default() });
    board.apply(change("fetch", Success, 1, 500));
    board.apply(change("test", Running, 1, 600));
    board.apply(change("build", Running, 1, 601));
    assert_eq!(running(&board), ["test", "build"], "in the order of their starts");
    assert_eq!(board.in_use(), [Quantity::whole(2)]);
    board.apply(change("build", Failed, 1, 700));
    board.apply(change("deploy", Blocked, 0, 700));
    board.apply(change("test", Cancelled, 1, 701));
    let (succeeded, failed, blocked, cancelled) = (1, 1, 1, 1);
    let counts = Counts { succeeded, failed, blocked, cancelled, ..Counts::default() };
    assert_eq!(board.counts(), counts);
    assert_eq!((board.counts().ended(), running(&board).len()), (4, 0));
    assert_eq!(board.in_use(), [Quantity::whole(0)]);
}

#[test]
fn an_event_has_the_time_of_its_attempt() {
    let mut board = board();
    board.apply(change("fetch", Running, 1, 1_000));
    let again = board.apply(because("exit code 6", change("fetch", Pending, 1, 1_500)));
    assert_eq!((again.kind, again.took), (Kind::Again, Some(Duration::from_millis(500))));
    assert_eq!(again.why.as_deref(), Some("exit code 6"));
    let started = board.apply(change("fetch", Running, 2, 3_000));
    assert_eq!((started.kind, started.took), (Kind::Started, None));
    let end = board.apply(change("fetch", Success, 2, 3_250));
    assert_eq!((end.kind, end.took), (Kind::Succeeded, Some(Duration::from_millis(250))));
}

#[test]
fn a_step_waits_until_it_does_something_else() {
    let mut board = board();
    let event = board.wait("fetch", "waits for lock deploy", 0);
    assert_eq!(event.kind, Kind::Waits);
    assert_eq!(board.waiting().collect::<Vec<_>>(), [(0, "waits for lock deploy")]);
    board.apply(change("fetch", Running, 1, 10));
    assert_eq!(board.waiting().len(), 0);
}

#[test]
fn a_step_that_has_begun_may_wait_and_still_runs() {
    let mut board = board();
    board.apply(change("build", Running, 1, 1_000));
    let event = board.wait("build", "waits for guard site_up\nwindlass approve x", 2_000);
    assert_eq!(event.why.as_deref(), Some("waits for guard site_up; windlass approve x"));
    assert_eq!((event.kind, event.took), (Kind::Waits, None));
    assert_eq!((board.note(1), board.counts().running), (Some("waits for guard site_up"), 1));
    assert_eq!(board.waiting().len(), 0);
    let end = board.apply(change("build", Success, 1, 3_000));
    assert_eq!((end.took, board.note(1)), (Some(Duration::from_secs(2)), None));
}

#[test]
fn a_blocked_step_names_the_step_that_blocks_it() {
    let mut board = board();
    board.apply(change("fetch", Success, 1, 0));
    board.apply(change("test", Failed, 1, 0));
    let blocked = board.apply(change("deploy", Blocked, 0, 0));
    assert_eq!(blocked.why.as_deref(), Some("by test"));
}

#[test]
fn changes_may_be_missing_before_the_latest() {
    let mut board = board();
    board.apply(change("fetch", Running, 1, 0));
    board.apply(change("fetch", Running, 3, 50));
    assert_eq!((board.counts().running, running(&board).len()), (1, 1));
    let end = board.apply(change("build", Failed, 2, 70));
    assert_eq!((end.took, board.failures().len()), (None, 1));
    assert_eq!(board.in_use(), [Quantity::whole(0)]);
    board.apply(change("unannounced", Running, 1, 80));
    assert_eq!(running(&board), ["fetch", "unannounced"]);
}

#[test]
fn what_ended_before_a_resume_is_counted() {
    let mut outline = board().outline;
    outline.steps[0].before.ended = Some(Kind::Succeeded);
    assert_eq!(Board::new(outline).counts().succeeded, 1);
}

#[test]
fn a_skipped_step_is_no_success_of_its_own() {
    let mut board = board();
    let skipped = StepChange { skipped: true, ..change("fetch", Success, 0, 0) };
    assert_eq!(board.apply(skipped).kind, Kind::Skipped);
    assert_eq!((board.counts().skipped, board.counts().succeeded), (1, 0));
}

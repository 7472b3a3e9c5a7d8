use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use windlass_core::{Fact, Happening, Timestamp, WorkId};
use windlass_store::{
    AttemptEnd, AttemptRecord, Decision, GuardWait, RunEnd, RunListing, RunOutcome, RunRecord,
    StepOutput, StoreError, Transaction,
};

use super::*;

fn fact(number: u64) -> Fact {
    let work = WorkId::new(number).expect("not zero");
    Fact { at: Timestamp::from_nanos(number), what: Happening::Submitted { work } }
}

fn insert(on: &mut Fixture, id: &str) -> RunRecord {
    let (id, file, text) = (id.to_owned(), "f".to_owned(), "t".to_owned());
    let run = RunRecord { id, file, text, dir: "/".into(), ..RunRecord::default() };
    on.store.transact(|transaction| transaction.runs().insert(&run)).expect("the store works");
    run
}

pub(super) fn facts_come_back_as_they_were_written(on: &mut Fixture) {
    insert(on, "abc");
    assert_eq!(on.tokens("leader", "run/abc"), [1]);
    on.store
        .transact(|transaction| {
            transaction.facts().append("abc", Token(1), &[fact(1), fact(2)])?;
            transaction.facts().append("abc", Token(1), &[fact(3)])
        })
        .expect("the store works");
    assert_eq!(on.store.facts("abc").expect("it was written"), [fact(1), fact(2), fact(3)]);
    assert!(on.store.facts("xyz").expect("it can be read").is_empty());
}

pub(super) fn a_run_in_a_directory_that_is_not_utf8_is_refused(on: &mut Fixture) {
    let dir = PathBuf::from(OsStr::from_bytes(b"/bad\xff"));
    let run = RunRecord { id: "abc".to_owned(), dir, ..RunRecord::default() };
    let refused = on.store.transact(|transaction| transaction.runs().insert(&run));
    let refused = refused.expect_err("it could not be found again");
    assert!(matches!(refused, StoreError::PathNotUtf8 { .. }) && refused.is_usage(), "{refused}");
    assert!(on.store.run("abc").is_err(), "nothing is stored");
}

pub(super) fn a_stale_epoch_is_refused(on: &mut Fixture) {
    insert(on, "abc");
    let append = |on: &mut Fixture, epoch| {
        on.store.transact(|transaction| transaction.facts().append("abc", Token(epoch), &[fact(1)]))
    };
    assert!(matches!(append(on, 1), Err(StoreError::StaleEpoch { .. })), "the run has no leader");
    assert_eq!(on.tokens("one", "run/abc"), [1]);
    append(on, 1).expect("it leads");
    on.clock.advance(TIMEOUT * 2);
    append(on, 1).expect("it still leads");
    assert_eq!(on.tokens("two", "run/abc"), [2]);
    assert!(matches!(append(on, 1), Err(StoreError::StaleEpoch { .. })));
    append(on, 2).expect("it leads");
    assert_eq!(on.store.facts("abc").expect("it was written").len(), 3);
}

pub(super) fn runs_are_found_by_a_prefix_of_their_id(on: &mut Fixture) {
    let run = insert(on, "abc");
    insert(on, "axy");
    assert_eq!(on.store.run("ab").expect("it is the only one"), run);
    assert!(matches!(on.store.run("a"), Err(StoreError::AmbiguousRun { .. })));
    assert!(matches!(on.store.run("zz"), Err(StoreError::UnknownRun { .. })));
    let fresh =
        on.store.transact(|transaction| transaction.runs().find(&transaction.runs().new_id()?));
    assert!(matches!(fresh, Err(StoreError::UnknownRun { .. })));
}

fn attempt(work: u64, attempt: u32, end: AttemptEnd) -> AttemptRecord {
    AttemptRecord {
        work: WorkId::new(work).expect("not zero"),
        attempt,
        step: format!("step {work} \u{1f980}\n"),
        started_ms: 5,
        ended_ms: 7,
        end,
        code: Some(-1),
        signal: None,
        why: Some("because".to_owned()),
        peak_kib: Some(u64::from(u32::MAX)),
        cpu_ms: None,
    }
}

pub(super) fn values_of_attempts_go_with_their_run(on: &mut Fixture) {
    insert(on, "abc");
    insert(on, "xyz");
    let output = |work, attempt, text: &str| {
        let work = WorkId::new(work).expect("not zero");
        StepOutput { work, attempt, text: text.to_owned() }
    };
    on.store
        .transact(|transaction| {
            let steps = transaction.steps();
            steps.put_output("abc", &output(2, 1, "{\"a\":\"\u{1f980}\"}"))?;
            steps.put_output("abc", &output(1, 2, "old"))?;
            steps.put_output("abc", &output(1, 2, "new"))?;
            steps.put_output("xyz", &output(1, 1, "other"))
        })
        .expect("the store works");
    let mut outputs = |run: &str| {
        on.store.read(|transaction| transaction.steps().outputs(run)).expect("the store works")
    };
    let expected = [output(1, 2, "new"), output(2, 1, "{\"a\":\"\u{1f980}\"}")];
    assert_eq!(outputs("abc"), expected);
    on.store.transact(|transaction| transaction.runs().delete("abc")).expect("the store works");
    let mut outputs = |run: &str| {
        on.store.read(|transaction| transaction.steps().outputs(run)).expect("the store works")
    };
    assert_eq!((outputs("abc").len(), outputs("xyz").len()), (0, 1));
}

pub(super) fn a_run_comes_back_as_it_was_submitted(on: &mut Fixture) {
    let run = RunRecord {
        id: "abc".to_owned(),
        workflow: "nightly \"1\"".to_owned(),
        params: [("k".to_owned(), "v\n".to_owned())].into(),
        steps: vec!["a[1]".to_owned()],
        jobs: Some(3),
        priority: Some(-7),
        dir: "/a b".into(),
        ..RunRecord::default()
    };
    on.store.transact(|transaction| transaction.runs().insert(&run)).expect("the store works");
    assert_eq!(on.store.run("abc").expect("it is there"), run);
}

pub(super) fn runs_are_listed_the_newest_first_with_their_ends(on: &mut Fixture) {
    for (id, workflow) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let (id, workflow) = (id.to_owned(), workflow.to_owned());
        let run = RunRecord { id, workflow, ..RunRecord::default() };
        on.store.transact(|transaction| transaction.runs().insert(&run)).expect("the store works");
    }
    let end = RunEnd { at_ms: 9, outcome: RunOutcome::TooLate };
    on.store.transact(|transaction| transaction.runs().set_end("c", Some(end))).expect("it works");
    let mut listed = |workflow: Option<&str>, limit| {
        let runs = on.store.read(|transaction| transaction.runs().latest(workflow, limit));
        let runs = runs.expect("the store works").into_iter();
        runs.map(|run| (run.id, run.end)).collect::<Vec<_>>()
    };
    let run = |id: &str, end| (id.to_owned(), end);
    assert_eq!(listed(None, 2), [run("c", Some(end)), run("b", None)]);
    assert_eq!(listed(Some("x"), 9), [run("c", Some(end)), run("a", None)]);
    assert_eq!(listed(Some("z"), 9), []);
    let last = on.store.run("last").expect("there are runs");
    assert_eq!(last.id, "c");
    let mut listed = |workflow: Option<&str>, limit| {
        let runs = on.store.read(|transaction| transaction.runs().latest(workflow, limit));
        runs.expect("the store works")
    };
    assert_eq!(listed(None, usize::MAX).len(), 3);
    let one = on.store.read(|transaction| transaction.runs().listing("c")).expect("it is there");
    assert_eq!((one.workflow.as_str(), one.end), ("x", Some(end)));
    let none = on.store.read(|transaction| transaction.runs().listing("d"));
    assert!(matches!(none, Err(StoreError::UnknownRun { .. })), "{none:?}");
    let open = on.store.read(open_runs).expect("the store works");
    assert_eq!(open.into_iter().map(|run| run.id).collect::<Vec<_>>(), ["b", "a"]);
}

fn open_runs(transaction: &Transaction<'_>) -> Result<Vec<RunListing>, StoreError> {
    transaction.runs().open()
}

pub(super) fn decisions_are_kept_with_their_run(on: &mut Fixture) {
    insert(on, "abc");
    let work = |number| WorkId::new(number).expect("not zero");
    let decision = |number: u64, guard: &str, attempt: u32, at_ms: i64| Decision {
        work: work(number),
        guard: guard.to_owned(),
        attempt,
        verdict: "approve".to_owned(),
        uid: 7,
        at_ms,
    };
    let (first, second) = (decision(2, "g", 2, 5), decision(2, "h", 1, 9));
    let other = decision(3, "g", 1, 10);
    let put = on.store.transact(|transaction| {
        let decisions = [&second, &first, &other];
        decisions.iter().try_for_each(|new| transaction.steps().insert_decision("abc", new))
    });
    put.expect("the store works");
    let kept = |on: &mut Fixture| {
        let look = on.store.read(|transaction| transaction.steps().decisions("abc"));
        look.expect("the store works")
    };
    assert_eq!(kept(on), [first, second, other.clone()], "the earliest first");
    let deleted =
        on.store.transact(|transaction| transaction.steps().delete_decisions("abc", work(2)));
    deleted.expect("the store works");
    assert_eq!(kept(on), [other]);
    on.store.transact(|transaction| transaction.runs().delete("abc")).expect("it works");
    assert_eq!(kept(on), []);
}

pub(super) fn attempts_and_guard_waits_are_deleted_with_their_run(on: &mut Fixture) {
    insert(on, "abc");
    insert(on, "abd");
    let work = WorkId::new(2).expect("not zero");
    let wait = GuardWait {
        work,
        guard: "g".to_owned(),
        since_ms: 1,
        checks: 2,
        last_result: Some("no".to_owned()),
        escalated: true,
    };
    let put = on.store.transact(|transaction| {
        let two = [attempt(2, 1, AttemptEnd::Finishing), attempt(1, 1, AttemptEnd::Failed)];
        let again = [attempt(1, 1, AttemptEnd::Retry), attempt(1, 1, AttemptEnd::Success)];
        transaction.steps().put_attempts("abc", &two.each_ref())?;
        transaction.steps().put_attempts("abc", &again.each_ref())?;
        transaction.steps().put_attempts("abc", &[&attempt(2, 1, AttemptEnd::Retry)])?;
        transaction.steps().put_attempts("abd", &[&attempt(1, 1, AttemptEnd::Failed)])?;
        transaction.steps().put_guard_wait("abc", &wait)
    });
    put.expect("the store works");
    let kept = |on: &mut Fixture, run: &str| {
        let look = on.store.read(|transaction| {
            Ok((transaction.steps().attempts(run)?, transaction.steps().guard_waits(run)?))
        });
        look.expect("the store works")
    };
    let all = vec![attempt(1, 1, AttemptEnd::Success), attempt(2, 1, AttemptEnd::Retry)];
    assert_eq!(kept(on, "abc"), (all, vec![wait]));
    on.store
        .transact(|transaction| transaction.steps().delete_guard_wait("abc", work))
        .expect("it works");
    assert!(kept(on, "abc").1.is_empty());
    let _ = held(on.claim("leader", "run/abc"));
    on.store.transact(|transaction| transaction.runs().delete("abc")).expect("it works");
    assert_eq!(on.store.overview().expect("it can be read"), [], "a deleted run has no leader");
    assert_eq!(kept(on, "abc"), (Vec::new(), Vec::new()));
    assert!(matches!(on.store.run("abc"), Err(StoreError::UnknownRun { .. })));
    assert_eq!(kept(on, "abd").0, [attempt(1, 1, AttemptEnd::Failed)], "others stay");
}

//! Works from closures: what they may capture, and which errors they may return.

use std::error::Error;

use windlass::{
    Fatal, WorkError, WorkScheduler, WorkSpec, WorkState, work_async, work_cpu_after, work_fn,
    work_once,
};

fn scheduler() -> WorkScheduler {
    WorkScheduler::default()
}

/// Runs one work and returns its state, its attempts and its last error.
async fn run<T>(spec: WorkSpec<T>) -> (WorkState, u32, Option<String>) {
    let mut scheduler = scheduler();
    let id = scheduler.submit(spec).expect("it fits");
    _ = scheduler.run_until_done().await;
    let seen = scheduler.snapshot_of(id).expect("it is known");
    (seen.state, seen.attempts, seen.last_error.map(|error| error.to_string()))
}

#[tokio::test(start_paused = true)]
async fn an_async_closure_borrows_what_it_captured_in_every_attempt() {
    let mut left = vec![3, 2, 1];
    let work = work_async("pops", async move |ctx: windlass::WorkContext| {
        let last = left.pop();
        tokio::task::yield_now().await;
        assert_eq!((left.len(), last), (2, Some(1)), "each attempt has a clone of the captures");
        if ctx.attempt < 3 { Err("not yet".into()) } else { Ok(()) }
    });
    assert_eq!(run(work.retries(5)).await, (WorkState::Success, 3, Some("not yet".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_can_be_called_once_is_not_retried() {
    let text = String::from("gone");
    let work = work_once("gives away", async move |_ctx| Err::<(), _>(text.into()));
    let (state, attempts, error) = run(work.retries(5)).await;
    assert_eq!((state, attempts, error.as_deref()), (WorkState::Failed, 1, Some("gone")));
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_can_be_called_once_fails_when_its_work_is_reopened() {
    let mut scheduler = scheduler();
    let work = work_once("once", async |_ctx| Err::<(), _>("no".into()));
    let id = scheduler.submit(work).expect("it fits");
    _ = scheduler.run_until_done().await;
    scheduler.reopen(id).expect("it has failed");
    _ = scheduler.run_until_done().await;
    let seen = scheduler.snapshot_of(id).expect("it is known");
    assert_eq!(seen.status(), "failed: a `work_once` cannot be repeated");
}

#[tokio::test(start_paused = true)]
async fn a_question_mark_takes_boxed_errors_texts_and_fatal_ones() {
    fn boxed() -> Result<(), Box<dyn Error + Send + Sync>> {
        Err("in a box".into())
    }
    fn port(text: &str) -> Result<u16, WorkError> {
        match text {
            "box" => boxed()?,
            "text" => Err("a text")?,
            "fatal" => Err(Fatal("a fatal text"))?,
            _ => {}
        }
        Ok(text.parse()?)
    }
    let cases = [
        ("box", "in a box", false),
        ("text", "a text", false),
        ("fatal", "a fatal text", true),
        ("x", "invalid digit found in string", false),
    ];
    for (text, expected, is_fatal) in cases {
        let error = port(text).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.is_fatal()), (expected, is_fatal));
    }
}

#[tokio::test]
async fn a_work_on_the_cpu_pool_takes_the_values_of_others() {
    let mut scheduler = scheduler();
    let left = scheduler.spawn(work_fn("left", |_| async { Ok(40_u32) })).expect("it fits");
    let right = scheduler.spawn(work_fn("right", |_| async { Ok(2_u32) })).expect("it fits");
    let sum = work_cpu_after("sum", (&left, &right), |_, (left, right)| Ok(*left + *right));
    let sum = scheduler.spawn(sum).expect("it fits");
    _ = scheduler.run_until_done().await;
    assert_eq!(*sum.await.expect("it succeeded"), 42);
}

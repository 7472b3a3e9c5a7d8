//! The errors of closures as the sources of failures.

use std::error::Error;
use std::fmt;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass::{
    ExecuteError, Fatal, WorkContext, WorkError, WorkFailure, WorkHandle, WorkSpec, work_cpu,
    work_fn,
};

use crate::support::*;

/// An error that knows a number.
#[derive(Debug)]
struct NoRoute(u32);

impl fmt::Display for NoRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no route {}", self.0)
    }
}

impl Error for NoRoute {}

fn is_no_route(error: &(dyn Error + 'static)) -> bool {
    error.is::<NoRoute>()
}

fn number(failure: &WorkFailure) -> Option<u32> {
    failure.source()?.downcast_ref().map(|NoRoute(number)| *number)
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_closure_is_the_source_of_its_failure() {
    let mut scheduler = scheduler(4);
    let attempts =
        work_fn("attempts", |ctx| async move { Err::<(), _>(NoRoute(ctx.attempt).into()) });
    let fatal = work_fn("fatal", |_| async { Err::<(), _>(Fatal(NoRoute(7)).into()) });
    let computes = work_cpu("computes", |_| Err::<(), _>(NoRoute(8).into()));
    let works = [(attempts.retries(2), 3), (fatal.retries(2), 7), (computes, 8)];
    let works =
        works.map(|(work, expected)| (scheduler.spawn(work).expect("it can run"), expected));
    let summary = scheduler.run_until_done().await;
    assert!(summary.failures.iter().all(|failure| number(failure).is_some()));
    for (work, expected) in works {
        let failure = work.await.expect_err("all of them fail");
        assert_eq!(number(&failure), Some(expected));
        assert!(failure.error.as_ref().is_some_and(|text| text.starts_with("no route")));
        assert_eq!(ExecuteError::from(failure.clone()).source().map(is_no_route), Some(true));
        assert_eq!(failure.clone(), failure);
    }
}

#[tokio::test]
async fn the_failure_of_a_family_has_the_source_of_the_child_that_failed() {
    let mut scheduler = scheduler(4);
    let parent = work_fn("parent", |ctx| async move {
        let child = work_fn("child", |ctx: WorkContext| async move {
            ctx.spawn_child(work_fn("grandchild", |_| async { Err::<(), _>(NoRoute(3).into()) }))?;
            Ok(())
        });
        ctx.spawn_child(child)?;
        Ok(())
    });
    let parent = scheduler.spawn(parent).expect("it can run");
    _ = scheduler.run_until_done().await;
    assert_eq!(number(&parent.await.expect_err("a grandchild failed")), Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_no_error_has_caused_has_no_source() {
    let mut scheduler = scheduler(8);
    let failing =
        add(&scheduler, work_fn("failing", |_| async { Err::<(), _>(NoRoute(1).into()) }));
    let panics = work_fn("panics", |ctx| async move {
        if ctx.attempt == 1 { Err::<(), _>(NoRoute(1).into()) } else { panic!("on purpose") }
    });
    let works = [
        ok("blocked").after([failing]),
        fails("says a text"),
        deaf("timed out").timeout(ms(5)),
        panics.retries(1),
    ];
    let works = works.map(|work| scheduler.spawn(work).expect("it can run"));
    _ = scheduler.run_until_done().await;
    for work in works {
        let failure = work.await.expect_err("none of them succeeds");
        assert!(failure.source().is_none(), "{failure:?}");
    }
}

/// A work that waits for another one, as a child and as any work in turn, so many times, until the last one
/// fails.
fn mixed(depth: u32) -> WorkSpec {
    work_fn(format!("level {depth}"), move |ctx| -> BoxFuture<'static, Result<(), WorkError>> {
        async move {
            match depth {
                0 => return Err(NoRoute(0).into()),
                _ if depth.is_multiple_of(2) => _ = ctx.add_child(mixed(depth - 1))?,
                _ => _ = ctx.suspend(ctx.handle().execute(mixed(depth - 1))).await??,
            }
            Ok(())
        }
        .boxed()
    })
}

#[tokio::test]
async fn the_text_of_a_failure_does_not_grow_with_the_works_between_it_and_its_origin() {
    for depth in [4, 300] {
        let mut scheduler = scheduler(1);
        let outer = scheduler.spawn(mixed(depth)).expect("it can run");
        _ = scheduler.run_until_done().await;
        let failure = outer.await.expect_err("the innermost fails");
        let child = depth - 1;
        let text =
            format!("its child \"level {child}\" failed: work \"level 0\" failed: no route 0");
        assert_eq!(failure.error.as_deref(), Some(&*text));
        let below =
            scheduler.snapshot().into_iter().find(|work| work.name == format!("level {child}"));
        let text =
            format!("work \"level {}\" failed: work \"level 0\" failed: no route 0", child - 1);
        assert_eq!(below.and_then(|work| work.last_error), Some(text));
    }
}

#[tokio::test]
async fn the_causes_around_the_failure_of_another_work_are_named() {
    #[derive(Debug, thiserror::Error)]
    #[error("the import broke off")]
    struct BrokenOff(#[source] WorkFailure);

    let mut scheduler = scheduler(1);
    let handle = scheduler.handle();
    let outer = work_fn("outer", move |ctx| {
        let handle = handle.clone();
        async move {
            let inner = handle.spawn(nested(handle.clone(), 2))?;
            Ok(_ = ctx.suspend(inner).await?.map_err(BrokenOff)?)
        }
    });
    let outer = scheduler.spawn(outer).expect("it can run");
    _ = scheduler.run_until_done().await;
    let nested = "work \"nested\" failed";
    let text = format!("the import broke off: {nested}: {nested}: no route 0");
    assert_eq!(outer.await.expect_err("the innermost fails").error, Some(text));
}

/// A work that waits for another one of the same kind, so many times, until the last one fails.
fn nested(handle: WorkHandle, depth: u32) -> WorkSpec {
    work_fn("nested", move |ctx| -> BoxFuture<'static, Result<(), WorkError>> {
        let handle = handle.clone();
        async move {
            if depth == 0 {
                return Err(NoRoute(0).into());
            }
            ctx.suspend(handle.execute(nested(handle.clone(), depth - 1))).await??;
            Ok(())
        }
        .boxed()
    })
}

#[tokio::test]
async fn nested_failures_name_their_cause_once_and_have_a_bounded_chain_of_sources() {
    for (depth, reaches_the_first) in [(5, true), (300, false)] {
        let mut scheduler = scheduler(1);
        let outer = scheduler.spawn(nested(scheduler.handle(), depth)).expect("it can run");
        _ = scheduler.run_until_done().await;
        let failure = outer.await.expect_err("the innermost fails");
        let text = failure.to_string();
        assert_eq!(text.matches("no route").count(), 1, "{text}");
        let named = text.matches("work \"nested\" failed").count();
        assert_eq!(named, 3, "the outer one, the one that it waits for, and the origin");
        let sources = std::iter::successors(failure.source(), |&error| error.source());
        assert!(sources.clone().count() <= 65);
        assert_eq!(sources.last().is_some_and(is_no_route), reaches_the_first);
    }
}

/// An error that uses a handle when it is dropped: under the scheduler's lock that would never end.
struct Nosy(WorkHandle);

impl Drop for Nosy {
    fn drop(&mut self) {
        _ = self.0.snapshot();
    }
}

impl fmt::Debug for Nosy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nosy")
    }
}

impl fmt::Display for Nosy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nosy")
    }
}

impl Error for Nosy {}

#[test]
fn an_error_may_use_a_handle_when_it_is_dropped() {
    in_time(|| async {
        let builder = windlass::WorkScheduler::builder().retry_delay(ms(1)).keep_ended(1);
        let mut scheduler = builder.build().expect("slots");
        let nosy = || work_fn("nosy", |ctx| async move { Err::<(), _>(Nosy(ctx.handle()).into()) });
        add(&scheduler, nosy().retries(2));
        let parent = move |ctx: WorkContext| async move {
            ctx.spawn_child(nosy())?;
            Ok(())
        };
        add(&scheduler, work_fn("parent", parent).retries(2));
        let cancelled = work_fn("cancelled", |ctx| async move {
            ctx.handle().cancel(ctx.id);
            Err::<(), _>(Nosy(ctx.handle()).into())
        });
        add(&scheduler, cancelled);
        let summary = scheduler.run_until_done().await;
        assert_eq!((summary.failed, summary.cancelled), (3, 1), "{summary}");
    });
}

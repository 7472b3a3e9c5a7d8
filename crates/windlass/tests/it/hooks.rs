//! The hooks beside a work's body.

use std::collections::VecDeque;

use windlass::{
    BatchWork, ConditionalWork, Work, WorkContext, WorkOutcome, WorkScheduler, WorkSpec,
    WorkWithCallback,
};

use crate::support::*;

/// A work that logs all calls of its methods.
struct Hooked {
    log: Log,
    answers: VecDeque<WorkOutcome>,
}

impl Hooked {
    fn new(log: &Log, answers: &[WorkOutcome]) -> Self {
        Self { log: log.clone(), answers: answers.iter().cloned().collect() }
    }
}

#[windlass::async_trait]
impl Work for Hooked {
    fn name(&self) -> &str {
        "hooked"
    }

    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        self.log.add(format!("run {}", ctx.attempt));
        match self.answers.pop_front() {
            Some(answer) => answer,
            None => {
                ctx.cancel_token().cancelled().await;
                WorkOutcome::Success
            }
        }
    }

    fn on_reset(&mut self) {
        self.log.add("reset");
    }

    fn on_success(&mut self) {
        self.log.add("success");
    }

    fn on_failure_retry(&mut self) {
        self.log.add("retry");
    }

    fn on_failure_raise(&mut self) {
        self.log.add("raise");
    }

    fn on_abort(&mut self) {
        self.log.add("abort");
    }
}

#[tokio::test(start_paused = true)]
async fn every_attempt_begins_with_a_reset_and_ends_with_its_hook() {
    let again = retry(ms(1));
    let cases: [(&[WorkOutcome], &[&str]); 5] = [
        (&[WorkOutcome::Success], &["reset", "run 1", "success"]),
        (
            &[again.clone(), WorkOutcome::Success],
            &["reset", "run 1", "retry", "reset", "run 2", "success"],
        ),
        (&[again.clone(), again], &["reset", "run 1", "retry", "reset", "run 2", "raise"]),
        (&[failed("broken")], &["reset", "run 1", "raise"]),
        (&[WorkOutcome::Cancelled], &["reset", "run 1", "abort"]),
    ];
    for (answers, expected) in cases {
        let (mut scheduler, log) = (scheduler(1), Log::default());
        add(&scheduler, WorkSpec::new(Hooked::new(&log, answers)).retries(1));
        _ = scheduler.run_until_done().await;
        assert_eq!(log.take(), expected, "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn on_abort_is_called_only_if_an_attempt_was_under_way() {
    let (mut scheduler, log) = (scheduler(1), Log::default());
    let before = add(&scheduler, WorkSpec::new(Hooked::new(&log, &[])));
    scheduler.cancel(before);
    _ = scheduler.run_until_done().await;
    assert_eq!(log.take(), [""; 0]);
    let running = add(&scheduler, WorkSpec::new(Hooked::new(&log, &[])));
    let handle = scheduler.handle();
    tokio::spawn(async move {
        tokio::time::sleep(ms(5)).await;
        handle.cancel(running);
    });
    _ = scheduler.run_until_done().await;
    assert_eq!(log.take(), ["reset", "run 1", "abort"]);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_calls_the_hooks_of_a_failure() {
    let log = Log::default();
    let mut scheduler = scheduler(1);
    let work = WorkSpec::new(Hooked::new(&log, &[])).timeout(ms(5)).retries(1);
    add(&scheduler, work);
    _ = scheduler.run_until_done().await;
    assert_eq!(log.take(), ["reset", "run 1", "retry", "reset", "run 2", "raise"]);
}

#[tokio::test(start_paused = true)]
async fn dependents_start_after_the_hook_of_a_work() {
    let (mut scheduler, log) = (scheduler(4), Log::default());
    let first = add(&scheduler, WorkSpec::new(Hooked::new(&log, &[WorkOutcome::Success])));
    let second = Hooked::new(&log, &[WorkOutcome::Success]);
    add(&scheduler, WorkSpec::new(second).after([first]));
    _ = scheduler.run_until_done().await;
    assert_eq!(log.take(), ["reset", "run 1", "success", "reset", "run 1", "success"]);
}

#[tokio::test(start_paused = true)]
async fn wrappers_pass_the_hooks_on() {
    let log = Log::default();
    let hooked = || Hooked::new(&log, &[retry(ms(1)), WorkOutcome::Success]);
    let callback = std::sync::Arc::new(|_: &WorkOutcome, _: &WorkContext| {});
    let wrapped: [Box<dyn Work>; 3] = [
        Box::new(WorkWithCallback::new(hooked(), callback)),
        Box::new(ConditionalWork::new(|| true, hooked())),
        Box::new(Box::new(hooked()) as Box<dyn Work>),
    ];
    for work in wrapped {
        assert_eq!(work.name(), "hooked");
        let mut scheduler = scheduler(1);
        scheduler.add_work(work, vec![], 1);
        _ = scheduler.run_until_done().await;
        let expected = ["reset", "run 1", "retry", "reset", "run 2", "success"];
        assert_eq!(log.take(), expected);
    }
}

/// A work that panics in one of its hooks.
struct Brittle {
    hook: &'static str,
    log: Log,
    answer: WorkOutcome,
}

impl Brittle {
    fn reach(&self, hook: &'static str) {
        self.log.add(hook);
        assert_ne!(self.hook, hook, "it breaks here");
    }
}

#[windlass::async_trait]
impl Work for Brittle {
    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        self.log.add("run");
        if self.answer == WorkOutcome::Cancelled {
            ctx.handle().cancel(ctx.id);
        }
        self.answer.clone()
    }

    fn on_reset(&mut self) {
        self.reach("reset");
    }

    fn on_success(&mut self) {
        self.reach("success");
    }

    fn on_failure_retry(&mut self) {
        self.reach("retry");
    }

    fn on_failure_raise(&mut self) {
        self.reach("raise");
    }

    fn on_abort(&mut self) {
        self.reach("abort");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_hook_fails_the_work() {
    let cases: [(&str, WorkOutcome, &[&str], &str); 5] = [
        ("reset", WorkOutcome::Success, &["reset", "raise"], "Failed"),
        ("success", WorkOutcome::Success, &["reset", "run", "success", "raise"], "Failed"),
        ("retry", retry(ms(1)), &["reset", "run", "retry", "raise"], "Failed"),
        ("raise", failed("broken"), &["reset", "run", "raise"], "Failed"),
        ("abort", WorkOutcome::Cancelled, &["reset", "run", "abort"], "Cancelled"),
    ];
    for (hook, answer, expected, end) in cases {
        let (mut scheduler, mut events) = watch(WorkScheduler::builder().max_concurrency(1));
        let log = Log::default();
        let work = Brittle { hook, log: log.clone(), answer };
        let work = add(&scheduler, WorkSpec::new(work).retries(3));
        let next = add(&scheduler, ok("next"));
        _ = scheduler.run_until_done().await;
        assert_eq!(log.take(), expected, "{hook}");
        assert_eq!(state(&scheduler, work).to_string(), end, "{hook}");
        if end == "Failed" {
            let error = last_error(&scheduler, work);
            assert!(error.contains("panicked") && error.contains("it breaks here"), "{error}");
        }
        assert!(state(&scheduler, next).is_success(), "its slot is free again");
        assert_eq!(events.take().len(), 4);
        assert!(scheduler.take_work(work).is_some());
    }
}

/// A work that uses a handle in all of its hooks.
struct Busy(windlass::WorkHandle);

impl Busy {
    fn use_handle(&self, name: &str) {
        add(&self.0, ok(name));
        assert!(!self.0.snapshot().is_empty());
        assert!(self.0.metrics().total > 0);
    }
}

#[windlass::async_trait]
impl Work for Busy {
    async fn run(&mut self, ctx: WorkContext) -> WorkOutcome {
        if ctx.attempt == 1 { retry(ms(1)) } else { WorkOutcome::Success }
    }

    fn on_reset(&mut self) {
        self.use_handle("from reset");
    }

    fn on_success(&mut self) {
        self.use_handle("from success");
    }

    fn on_failure_retry(&mut self) {
        self.use_handle("from retry");
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_may_use_a_handle() {
    let mut scheduler = scheduler(1);
    add(&scheduler, WorkSpec::new(Busy(scheduler.handle())).retries(1));
    _ = scheduler.run_until_done().await;
    assert_eq!(scheduler.metrics().success, 5);
    assert_done(&scheduler);
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_no_hooks_of_its_own_and_its_children_have() {
    let (mut scheduler, log) = (scheduler(1), Log::default());
    let seen = log.clone();
    let children = move || {
        let log = seen.clone();
        (0..2).map(move |_| WorkSpec::new(Hooked::new(&log, &[WorkOutcome::Success])))
    };
    add(&scheduler, WorkSpec::new(BatchWork::new("batch", 1, children)));
    _ = scheduler.run_until_done().await;
    assert_eq!(log.take(), ["reset", "run 1", "success", "reset", "run 1", "success"]);
}

/// A body that returns when its deadline passes, and logs its hooks.
struct Punctual(Log);

#[windlass::async_trait]
impl Work for Punctual {
    async fn run(&mut self, _ctx: WorkContext) -> WorkOutcome {
        std::thread::sleep(std::time::Duration::from_micros(200));
        WorkOutcome::Success
    }

    fn on_success(&mut self) {
        self.0.add("success");
    }

    fn on_failure_raise(&mut self) {
        self.0.add("raise");
    }
}

#[tokio::test]
async fn the_last_hook_matches_the_end_also_if_the_deadline_passes_meanwhile() {
    for n in 0..200 {
        let (mut scheduler, log) = (scheduler(1), Log::default());
        let timeout = std::time::Duration::from_micros(150 + n);
        let work = add(&scheduler, WorkSpec::new(Punctual(log.clone())).timeout(timeout));
        _ = scheduler.run_until_done().await;
        let last = log.take().pop().expect("a hook was called");
        let expected = if state(&scheduler, work).is_success() { "success" } else { "raise" };
        assert_eq!(last, expected, "after {timeout:?}");
    }
}

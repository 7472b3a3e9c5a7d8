//! Random graphs of tasks, run to the end or dropped on the way.

use proptest::prelude::*;

use super::*;
use crate::support::cases;

/// One task of a random graph.
#[derive(Clone, Debug)]
struct Plan {
    /// Taken modulo its place.
    after: Vec<usize>,
    cpus: u32,
    yields: u32,
    fails: bool,
}

fn plan() -> impl Strategy<Value = Plan> {
    let after = prop::collection::vec(any::<usize>(), 0..3);
    let fails = prop::bool::weighted(0.15);
    (after, 0..4u32, 0..4u32, fails).prop_map(|(after, cpus, yields, fails)| Plan {
        after,
        cpus,
        yields,
        fails,
    })
}

type Progress = TaskProgress<u32, usize, &'static str>;

fn task(key: usize, plan: &Plan) -> ScheduledTask<u32, usize, &'static str> {
    let Plan { cpus: wanted, yields, fails, .. } = *plan;
    let task = ScheduledTask::streaming(key.to_string(), move |progress| async move {
        for n in 0..yields {
            progress.send(n).await;
            tokio::task::yield_now().await;
        }
        if fails { Err("on purpose") } else { Ok(key) }
    });
    task.cost(if wanted == 0 { ResourceCost::new() } else { cpus(wanted) })
}

fn source_of_plans(
    plans: &[Plan],
) -> DependencySource<usize, ScheduledTask<u32, usize, &'static str>> {
    let source = DependencySource::open();
    for (key, plan) in plans.iter().enumerate() {
        let after: Vec<_> = plan.after.iter().filter_map(|n| n.checked_rem(key)).collect();
        source.enqueue(key, task(key, plan), &after).expect("a new key after known ones");
    }
    source.close();
    source
}

/// Which tasks end well, badly, or not at all when nothing is stopped.
fn fates(plans: &[Plan]) -> Vec<Option<bool>> {
    let mut fates = Vec::<Option<bool>>::new();
    for (key, plan) in plans.iter().enumerate() {
        let after = plan.after.iter().filter_map(|n| n.checked_rem(key));
        let runs = after.into_iter().all(|key| fates[key] == Some(true));
        fates.push(runs.then_some(!plan.fails));
    }
    fates
}

/// Returns everything that the stream yields until its end, or until it is dropped after so many polls.
async fn told(run: impl Stream<Item = Progress>, polls: Option<usize>) -> Vec<Progress> {
    let mut run = Box::pin(run);
    let mut told = Vec::new();
    let Some(polls) = polls else { return run.collect().await };
    for _ in 0..polls {
        match poll_once(&mut run.next()) {
            std::task::Poll::Ready(Some(progress)) => told.push(progress),
            std::task::Poll::Ready(None) => break,
            std::task::Poll::Pending => tokio::task::yield_now().await,
        }
    }
    told
}

fn check(plans: &[Plan], on_error: OnError, polls: Option<usize>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let capacity = ResourceCapacity::new(cpus(3));
        let source = source_of_plans(plans);
        let run = TaskPoolRunner::new("random", &source, &capacity).run_tasks(on_error);
        let told = told(run, polls).await;
        assert_eq!(capacity.available(), cpus(3));
        assert_eq!((capacity.metrics().waiting, capacity.metrics().in_flight), (0, 0));
        assert_eq!(source.len(), 0);
        check_told(plans, &told, on_error == OnError::Continue && polls.is_none());
    });
}

/// Values come in order, then at most one end; and after what a task waits for.
fn check_told(plans: &[Plan], told: &[Progress], whole: bool) {
    let fates = fates(plans);
    let mut ends = vec![None; plans.len()];
    let mut values = vec![0; plans.len()];
    for progress in told {
        let key: usize = progress.key.parse().expect("keys are numbers");
        assert_eq!(ends[key], None, "nothing follows the end of {key}");
        let mut after = plans[key].after.iter().filter_map(|n| n.checked_rem(key));
        assert!(after.all(|before| ends[before] == Some(true)), "{key} ran too early");
        match progress.kind {
            TaskProgressKind::Intermediate(n) => {
                assert_eq!(n, values[key], "in order");
                values[key] += 1;
            }
            TaskProgressKind::Final(_) => ends[key] = Some(true),
            TaskProgressKind::Error(_) => ends[key] = Some(false),
        }
    }
    for key in 0..plans.len() {
        assert!(ends[key].is_none() || ends[key] == fates[key], "how {key} ended");
        assert!(!whole || ends[key] == fates[key], "whether {key} ended");
        assert!(ends[key].is_none() || values[key] == plans[key].yields, "no value is lost");
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn random_graphs_run_in_order_and_leave_the_capacity_whole(
        plans in prop::collection::vec(plan(), 1..14),
        stops in any::<bool>(),
        polls in prop::option::of(0..40usize),
    ) {
        check(&plans, if stops { OnError::Stop } else { OnError::Continue }, polls);
    }
}

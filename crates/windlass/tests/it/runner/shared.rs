//! Several runners, and others, on one capacity.

use super::*;

/// Tasks that all take a cpu for a millisecond, and the times at which they ended.
async fn ends(prefix: &'static str, tasks: u32, capacity: ResourceCapacity) -> Vec<u128> {
    let began = Instant::now();
    let source = PrioritySource::new();
    for n in 0..tasks {
        let task = ScheduledTask::<(), _, Infallible>::new(format!("{prefix}-{n}"), || async {
            sleep(Duration::from_millis(1)).await;
            Ok(())
        });
        source.enqueue(task.cost(cpus(1)), 1).expect("it is open");
    }
    source.close();
    let run = TaskPoolRunner::new(prefix, &source, &capacity).run_tasks(OnError::Stop);
    run.map(|_| began.elapsed().as_millis()).collect().await
}

#[tokio::test(start_paused = true)]
async fn runners_on_one_capacity_share_it_in_turn() {
    let capacity = ResourceCapacity::new(cpus(1));
    let [a, b] = [("a", 20), ("b", 20)].map(|(name, n)| ends(name, n, capacity.clone()));
    let (a, b) = tokio::join!(a, b);
    let (last_a, last_b) = (a[19], b[19]);
    assert_eq!(last_a.max(last_b), 40, "nothing idles");
    assert!(last_a.min(last_b) >= 38, "neither has to wait for all of the other's: {a:?} {b:?}");
    assert_eq!(capacity.available(), cpus(1));
}

/// Two runners of a source of tasks that take a cpu for a millisecond: what the first one has under way counts
/// where the source takes from when there is a second one.
async fn check_second_runner(first: &ResourceCapacity, second: &ResourceCapacity) {
    let source = PrioritySource::new();
    for n in 0..4 {
        let task = ScheduledTask::<(), _, Infallible>::new(n.to_string(), || async {
            sleep(Duration::from_millis(1)).await;
            Ok(())
        });
        source.enqueue(task.cost(cpus(1)), 1).expect("it is open");
    }
    source.close();
    let began = Instant::now();
    let mut run = TaskPoolRunner::new("first", &source, first).run_tasks(OnError::Stop);
    assert!(poll_once(&mut run.next()).is_pending());
    let another = TaskPoolRunner::new("second", &source, second).run_tasks(OnError::Stop);
    assert_eq!(second.available(), cpus(0), "the first one's task has it");
    let (told, by_the_other) = tokio::join!(run.count(), another.count());
    assert_eq!((told + by_the_other, began.elapsed().as_millis()), (4, 4), "one at a time");
    assert_eq!((first.available(), second.available()), (cpus(1), cpus(1)));
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_first_runner_count_when_their_source_gets_a_second() {
    let [one, other] = [(); 2].map(|()| ResourceCapacity::new(cpus(1)));
    check_second_runner(&one, &one).await;
    check_second_runner(&one, &other).await;
}

#[tokio::test(start_paused = true)]
async fn a_runner_and_waiting_callers_share_in_turn() {
    let capacity = ResourceCapacity::new(cpus(1));
    let acquire = async {
        let began = Instant::now();
        for _ in 0..5 {
            let permit = capacity.acquire(&cpus(1)).await.expect("it can be had");
            sleep(Duration::from_millis(1)).await;
            drop(permit);
        }
        began.elapsed().as_millis()
    };
    let (ended, acquired) = tokio::join!(ends("run", 20, capacity.clone()), acquire);
    assert_eq!(ended[19], 25);
    assert!(acquired <= 11, "it waits for one of the runner's tasks each time: {acquired}");
}

#[tokio::test(start_paused = true)]
async fn children_of_a_capacity_bound_their_own_runner_and_all_together() {
    let cluster = ResourceCapacity::new(cpus(3));
    let [a, b] = [(); 2].map(|()| cluster.child(cpus(2)));
    let (a, b) = tokio::join!(ends("a", 12, a), ends("b", 12, b));
    let shorter = a[11].min(b[11]);
    let mut both: Vec<_> = a.iter().chain(&b).copied().filter(|end| *end <= shorter).collect();
    both.sort_unstable();
    let thirds = (0..both.len() as u128).map(|n| n / 3 + 1);
    assert!(both.iter().copied().eq(thirds), "three at a time: {a:?} {b:?}");
    assert!(shorter >= 6, "neither has more than two at a time: {a:?} {b:?}");
}

#[tokio::test(start_paused = true)]
async fn a_runner_is_notified_when_others_release() {
    let capacity = ResourceCapacity::new(cpus(1));
    let held = capacity.try_acquire(cpus(1)).expect("everything is free");
    let waits = tokio::spawn(ends("waits", 1, capacity.clone()));
    settle().await;
    assert_eq!(capacity.metrics().waiting, 1);
    drop(held);
    assert_eq!(waits.await.expect("no panic").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn runners_on_several_threads_finish_and_leave_the_capacity_whole() {
    let cluster = ResourceCapacity::new(cpus(3));
    let runners = (0..8).map(|n: usize| {
        let capacity = if n.is_multiple_of(2) { cluster.clone() } else { cluster.child(cpus(2)) };
        tokio::spawn(async move {
            let tasks = stream::iter(0..200u32).map(|n| {
                let task =
                    ScheduledTask::<(), _, Infallible>::new(n.to_string(), move || async move {
                        if n % 3 == 0 {
                            tokio::task::yield_now().await;
                        }
                        Ok(n)
                    });
                task.cost(cpus(1 + n % 2))
            });
            let runner = TaskPoolRunner::from_stream("many", tasks, &capacity);
            runner.run_tasks(OnError::Stop).count().await
        })
    });
    for runner in runners.collect::<Vec<_>>() {
        assert_eq!(runner.await.expect("no panic"), 200);
    }
    assert_eq!(cluster.available(), cpus(3));
    assert_eq!((cluster.metrics().waiting, cluster.metrics().in_flight), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_runner_and_the_works_of_a_scheduler_share_in_turn() {
    let capacity = ResourceCapacity::new(cpus(1));
    let mut scheduler = WorkScheduler::builder().capacity(&capacity).build().expect("slots");
    for n in 0..20 {
        let work = work_fn(format!("work {n}"), |_| async {
            sleep(Duration::from_millis(1)).await;
            Ok(())
        });
        scheduler.submit(work.needs(cpus(1))).expect("it fits");
    }
    let works = async {
        let began = Instant::now();
        _ = scheduler.run_until_done().await;
        began.elapsed().as_millis()
    };
    let (ended, worked) = tokio::join!(ends("run", 20, capacity.clone()), works);
    assert_eq!(ended[19].max(worked), 40, "nothing idles");
    assert!(ended[19].min(worked) >= 38, "neither has to wait for all of the other's");
    assert_eq!(scheduler.metrics().success, 20);
    assert_eq!(capacity.available(), cpus(1));
}

//! Ten records through three stages: extract, transform, load, each stage with its own limit.
//!
//! Every record's stages follow each other; different records overlap as far as the stages allow.
//! The runner reports completions to the source itself. Time is virtual.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant, sleep};
use windlass::core::DependencyGraph;
use windlass::streams::{
    OnError, PriorityDependencyOptions, PriorityDependencySource, ScheduledTask, TaskPoolRunner,
    TaskProgressKind,
};
use windlass::{ResourceCapacity, ResourceCost};

type Stage = ScheduledTask<(), (), std::io::Error>;

/// Stages, how many of each may run at once, and how long one takes in milliseconds.
const STAGES: [(&str, u32, u64); 3] = [("extract", 4, 20), ("transform", 2, 30), ("load", 1, 10)];
const RECORDS: u32 = 10;

/// How many run in each stage, and the most that ever did.
type Counts = Arc<Mutex<BTreeMap<&'static str, (u32, u32)>>>;

fn stage(key: String, name: &'static str, millis: u64, counts: &Counts) -> Stage {
    let counts = Arc::clone(counts);
    let task = Stage::new(key, move || {
        let counts = Arc::clone(&counts);
        async move {
            let enter = |counts: &mut BTreeMap<_, (u32, u32)>| {
                let (now, most) = counts.entry(name).or_default();
                *now += 1;
                *most = (*most).max(*now);
            };
            enter(&mut counts.lock().expect("no panic"));
            sleep(Duration::from_millis(millis)).await;
            counts.lock().expect("no panic").entry(name).or_default().0 -= 1;
            Ok(())
        }
    });
    task.cost([(name, 1)])
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut graph, mut tasks) = (DependencyGraph::new(), Vec::new());
    let counts = Counts::default();
    for record in 0..RECORDS {
        let mut before = None;
        for (name, _, millis) in STAGES {
            let key = format!("{name}-{record}");
            graph.add_node(key.clone(), before.replace(key.clone()))?;
            tasks.push((key.clone(), stage(key, name, millis, &counts)));
        }
    }
    // Of what is ready, what is furthest along goes first, so that records get through.
    let urgent = |key: &String| if key.starts_with("load") { 3 } else { 1 };
    let options = PriorityDependencyOptions::new().priority(move |key, _| urgent(key));
    let source = PriorityDependencySource::new(&graph, tasks, options)?;
    let stages = STAGES.map(|(name, limit, _)| (name, limit));
    let capacity = ResourceCapacity::new(ResourceCost::of(stages)?);

    let began = Instant::now();
    let run = TaskPoolRunner::new("etl", &source, &capacity).run_tasks(OnError::Stop);
    let done: Vec<_> = run.collect().await;
    let took = began.elapsed();
    assert!(done.iter().all(|progress| matches!(progress.kind, TaskProgressKind::Final(()))));

    println!("{} tasks of {RECORDS} records in {took:?}", done.len());
    for (name, limit, _) in STAGES {
        let most = counts.lock().expect("no panic")[name].1;
        println!("{name:>10}: at most {most} of {limit} at once");
        assert_eq!(most, limit, "the limit is reached and kept");
    }
    assert_eq!(done.len(), 30);
    // Two transforms at a time are the bottleneck: ten of them take 150 ms, after the first extract
    // and before the last loads.
    assert_eq!(took, Duration::from_millis(20 + 150 + 2 * 10));
    Ok(())
}

//! Random graphs, run to their end and held against a model that knows only the rules.

use std::collections::BTreeMap;

use tokio::task::yield_now;
use windlass::core::{EdgeKind, Random};
use windlass::{
    Dependency, ResourceCost, WorkEvent, WorkId, WorkOutcome, WorkScheduler, WorkState,
};

use crate::events::check_order;
use crate::support::*;

const SLOTS: usize = 3;
const GPUS: u32 = 3;

/// One work: its dependencies, what it needs, and how its attempts end.
#[derive(Debug)]
struct Plan {
    after: Vec<(usize, EdgeKind)>,
    gpus: u32,
    retries: u32,
    answers: Vec<WorkOutcome>,
}

/// How a work must end; skipped ones have no attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fate {
    state: WorkState,
    attempts: u32,
}

fn plan(random: &mut Random, place: usize) -> Plan {
    let kinds = [EdgeKind::Success, EdgeKind::Success, EdgeKind::Done, EdgeKind::Failed];
    let edges = if place == 0 { 0 } else { random.within(0..4) };
    let after = (0..edges).map(|_| (random.within(0..place as u64) as usize, *random.pick(&kinds)));
    let after = after.collect();
    let good = WorkOutcome::Success;
    let answers = [good.clone(), good, failed("on purpose"), retry(ms(1)), WorkOutcome::Cancelled];
    Plan {
        after,
        gpus: random.within(0..u64::from(GPUS) + 1) as u32,
        retries: random.within(0..3) as u32,
        answers: (0..3).map(|_| random.pick(&answers).clone()).collect(),
    }
}

/// Returns how each work must end by the rules, dependencies first.
fn fates(plans: &[Plan]) -> Vec<Fate> {
    let mut fates: Vec<Fate> = Vec::new();
    for plan in plans {
        let fate = fate(plan, &fates);
        fates.push(fate);
    }
    fates
}

fn fate(plan: &Plan, before: &[Fate]) -> Fate {
    let never = |state| Fate { state, attempts: 0 };
    let says = |&(source, kind): &(usize, EdgeKind)| (kind, before[source].state);
    let said: Vec<_> = plan.after.iter().map(says).collect();
    let blocks = |(kind, state): &(EdgeKind, WorkState)| match kind {
        EdgeKind::Success => !state.is_success(),
        EdgeKind::Failed => matches!(state, WorkState::Blocked | WorkState::Cancelled),
        EdgeKind::Done => false,
    };
    if said.iter().any(blocks) {
        return never(WorkState::Blocked);
    }
    if said.contains(&(EdgeKind::Failed, WorkState::Success)) {
        return never(WorkState::Success);
    }
    for attempts in 1.. {
        let answer = &plan.answers[(attempts as usize).min(plan.answers.len()) - 1];
        let state = match answer {
            WorkOutcome::Success => WorkState::Success,
            WorkOutcome::Failed(_) => WorkState::Failed,
            WorkOutcome::Cancelled => WorkState::Cancelled,
            WorkOutcome::Retry { .. } if attempts > plan.retries => WorkState::Failed,
            WorkOutcome::Retry { .. } => continue,
        };
        return Fate { state, attempts };
    }
    unreachable!("retries are used up")
}

/// Asserts that no work starts before its dependencies have ended, and that never too many run at once.
fn check_starts(events: &[WorkEvent], plans: &BTreeMap<WorkId, &Plan>, ids: &[WorkId]) {
    let mut states: BTreeMap<WorkId, WorkState> = BTreeMap::new();
    for event in events {
        states.insert(event.id, event.state);
        let running = states.iter().filter(|(_, state)| **state == WorkState::Running);
        let running: Vec<_> = running.map(|(work, _)| *work).collect();
        assert!(running.len() <= SLOTS, "too many run: {running:?}");
        let gpus: u32 = running.iter().map(|work| plans[work].gpus).sum();
        assert!(gpus <= GPUS, "{gpus} GPUs in use");
        if event.state == WorkState::Running {
            for (source, _) in &plans[&event.id].after {
                let ended = states.get(&ids[*source]).is_some_and(|state| state.is_terminal());
                assert!(ended, "{event:?} started before work {}", ids[*source]);
            }
        }
    }
}

async fn run_a_world(seed: u64) {
    let mut random = Random::new(seed);
    let plans: Vec<_> = (0..25).map(|place| plan(&mut random, place)).collect();
    let limits = ResourceCost::from([("gpu", GPUS)]);
    let builder = WorkScheduler::builder().max_concurrency(SLOTS).limits(limits);
    let (mut scheduler, mut events) = watch(builder.seed(seed));
    let mut ids: Vec<WorkId> = Vec::new();
    for plan in &plans {
        let answers = plan.answers.clone();
        let work = act("work", move |ctx| {
            let answer = answers[(ctx.attempt as usize).min(answers.len()) - 1].clone();
            async move {
                for _ in 0..ctx.id.number() % 3 {
                    yield_now().await;
                }
                answer
            }
        });
        let edges = plan.after.iter().map(|&(place, kind)| Dependency { work: ids[place], kind });
        let needs = ResourceCost::from([("gpu", plan.gpus)]);
        let spec = work.after(edges.collect::<Vec<_>>()).needs(needs).retries(plan.retries);
        ids.push(add(&scheduler, spec));
    }
    _ = scheduler.run_until_done().await;
    let seen = events.take();
    check_order(&seen);
    check_starts(&seen, &ids.iter().copied().zip(&plans).collect(), &ids);
    for (place, fate) in fates(&plans).into_iter().enumerate() {
        let snapshot = look(&scheduler, ids[place]);
        let got = Fate { state: snapshot.state, attempts: snapshot.attempts };
        assert_eq!(got, fate, "seed {seed}, work {place}: {:?}", plans[place]);
        let skipped = fate.attempts == 0 && fate.state.is_success();
        assert_eq!(snapshot.skipped, skipped, "seed {seed}, work {place}");
    }
    assert_done(&scheduler);
}

#[test]
fn random_graphs_end_by_the_rules() {
    in_time(|| async {
        for seed in 0..150 {
            run_a_world(seed).await;
        }
    });
}

#[test]
fn random_graphs_end_by_the_rules_on_several_threads() {
    within(secs(20), || {
        threads(3).block_on(async {
            for seed in 150..250 {
                run_a_world(seed).await;
            }
        });
    });
}

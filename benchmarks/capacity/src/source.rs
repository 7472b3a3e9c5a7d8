//! A priority source with many items: push one, pop the most urgent.

use futures::{FutureExt, StreamExt};
use windlass::{Ageing, PrioritySource};
use windlass_bench_report::{Report, Row, Run};

const TIMES: u64 = 20_000;

pub(crate) fn run(report: &mut Report) {
    for (name, queued) in
        [("enqueue + next at 1k queued", 1000), ("enqueue + next at 1M queued", 1_000_000)]
    {
        let ageing = Ageing::new("0.001".parse().expect("an amount"), Some(50.into()));
        let contenders: Vec<(&'static str, Run<'_>)> = vec![
            ("windlass", source(queued, Ageing::NONE)),
            ("windlass, ageing", source(queued, ageing.expect("slow enough"))),
        ];
        report.measure(Row { name, operations: TIMES, expected: TIMES, contenders });
    }
}

/// Filled in the first run, which is not measured.
fn source(queued: i64, ageing: Ageing) -> Run<'static> {
    let mut filled = None;
    let mut n = queued;
    Box::new(move || {
        let source = filled.get_or_insert_with(|| fill(queued, ageing));
        let mut pulled = 0;
        for _ in 0..TIMES {
            n += 1;
            source.enqueue(n, n * 7919 % 1000).expect("it is open");
            pulled += u64::from(source.next().now_or_never().flatten().is_some());
        }
        pulled
    })
}

fn fill(queued: i64, ageing: Ageing) -> PrioritySource<i64> {
    let source = PrioritySource::with_ageing(ageing);
    (0..queued).for_each(|n| _ = source.enqueue(n, n * 7919 % 1000).expect("it is open"));
    source
}

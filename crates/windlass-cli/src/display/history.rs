//! Looks up how long the steps of a workflow took in its last runs.

use std::time::Duration;

use windlass_server::{AttemptEnd, Store, StoreError};

use super::estimate::Expected;

/// How many runs are looked at.
const RUNS: usize = 8;
/// After how many attempts no further run is looked at, so that the look stays short.
const ATTEMPTS: usize = 50_000;

/// What the last runs of a workflow let expect of the next one.
pub(crate) fn expected(store: &mut Store, workflow: &str) -> Result<Expected, StoreError> {
    let runs = store.look(|transaction| transaction.latest_runs(Some(workflow), RUNS))?;
    let mut past = Vec::new();
    for run in runs {
        // One look for each run: a reader must not stand in the way of the log's truncation.
        let attempts = store.look(|transaction| transaction.attempts(&run.id))?;
        let good = attempts.into_iter().filter(|attempt| attempt.end == AttemptEnd::Success);
        let ran = good.filter(|attempt| attempt.attempt > 0);
        past.extend(ran.map(|attempt| {
            let took = attempt.ended_ms.saturating_sub(attempt.started_ms);
            (attempt.step, Duration::from_millis(u64::try_from(took).unwrap_or_default()))
        }));
        if past.len() > ATTEMPTS {
            break;
        }
    }
    Ok(Expected::from_past(past))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_without_runs_lets_expect_nothing() {
        let mut store = Store::in_memory().expect("a store");
        let expected = expected(&mut store, "nightly").expect("it can be looked at");
        assert_eq!(expected.of("build"), None);
    }
}

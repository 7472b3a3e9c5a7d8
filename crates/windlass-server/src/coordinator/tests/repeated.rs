//! Whole runs over a store that repeats transactions, and one that loses the replies of commits.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::{Amount, Happening};
use windlass_sim::store::{Faults, Odds};
use windlass_store::{BootClock, LimitKind, Memory};

use super::*;

/// Steps with and without locks, limits of the store, retries and conditions. Each attempt appends a line to
/// `record`.
const FLOW: &str = "concurrency = 4\n\
    [step.a]\nrun = 'echo a >> record'\n\
    [step.b]\nlock = 'one'\nuse = { 'shared.part' = 1 }\nrun = 'echo b >> record'\n\
    [step.c]\nlock = 'one'\nafter = ['a']\nrun = 'echo c >> record'\n\
    [step.d]\nlock = 'one'\nrun = 'echo d >> record; exit 1'\nretry = { count = 1, delay = '1ms' }\n\
    use = { 'shared.part' = 2 }\n\
    [step.e]\nsemaphore = { slots = 1 }\nafter = ['b', 'c']\nrun = 'echo e >> record'\n\
    finally = 'echo f >> record'\n\
    [step.g]\nwhen = 'true'\nuse = { 'shared.part' = 1 }\nrun = 'echo g >> record'\n\
    [semaphore.slots]\ncapacity = 2\n";

/// A store in memory whose transactions meet faults, with the record of a run in it.
struct Stage {
    dir: tempfile::TempDir,
    store: Store,
    faults: Faults,
}

impl Stage {
    fn new(seed: u64, odds: Odds) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let faults = Faults::new(seed, odds);
        let clock = Arc::new(BootClock::start().expect("this is Linux"));
        let backend = faults.over(Box::new(Memory::default()));
        let mut store = Store::new(Box::new(backend), clock, &dir.path().join("state"));
        let two = LimitKind::Amount(Amount::from(2));
        store.transact(|transaction| transaction.limits().set("part", &two)).expect("it is set");
        Self { dir, store, faults }
    }

    fn open(&self) -> Store {
        self.store.try_clone().expect("it is in memory")
    }

    fn run(&self) -> RunRecord {
        RunRecord {
            file: "flow.toml".to_owned(),
            text: FLOW.to_owned(),
            dir: self.dir.path().to_owned(),
            ..RunRecord::default()
        }
    }

    /// Returns how often each step has begun an attempt, by the steps' own record.
    fn attempts(&self) -> BTreeMap<String, usize> {
        let record = fs::read_to_string(self.dir.path().join("record")).expect("the steps wrote");
        let mut attempts = BTreeMap::new();
        record.lines().for_each(|line| *attempts.entry(line.to_owned()).or_default() += 1);
        attempts
    }
}

/// Returns the digest to which the journal of a run leads.
fn replayed(store: &mut Store, run: &str) -> u64 {
    let record = store.run(run).expect("it was submitted");
    let mut schedule = Schedule::new(plan_of(&record).expect("it can be read"));
    schedule.replay(&store.facts(run).expect("the store works"));
    schedule.engine().digest()
}

/// Returns how many attempts of each step the journal has.
fn journaled(store: &mut Store, run: &str) -> BTreeMap<String, usize> {
    let mut begun = BTreeMap::new();
    for fact in store.facts(run).expect("the store works") {
        if let Happening::Started { work, .. } = fact.what {
            let name = ["a", "b", "c", "d", "e", "g"][work.index()];
            *begun.entry(name.to_owned()).or_default() += 1;
        }
    }
    begun
}

#[test]
fn a_run_whose_commits_are_repeated_runs_every_step_once() {
    for seed in 0..8 {
        let stage = Stage::new(seed, Odds { abort: Some(2), lose: None });
        let mut coordinator = Coordinator::submit(stage.open(), stage.run()).expect("it is stored");
        let run = coordinator.run_id().to_owned();
        let end = coordinator.run.run(&mut |_| {}).expect("it is led to its end");
        assert_eq!(end, End::Failed, "seed {seed}: step d fails");
        let live = coordinator.run.state().schedule().engine().digest();
        assert_eq!(live, replayed(&mut stage.open(), &run), "seed {seed}");
        let once = |step: &str| (step.to_owned(), 1);
        let mut expected = BTreeMap::from(["a", "b", "c", "e", "f", "g"].map(once));
        expected.insert("d".to_owned(), 2);
        let recorded = stage.open().read(|transaction| transaction.steps().attempts(&run));
        assert_eq!(stage.attempts(), expected, "seed {seed}: {recorded:?}");
        expected.remove("f");
        assert_eq!(journaled(&mut stage.open(), &run), expected, "seed {seed}");
        let held = stage.open().overview().expect("the store works");
        assert!(held.is_empty(), "seed {seed}: nothing is held or waited for: {held:?}");
        assert!(stage.faults.seen().aborts > 0, "seed {seed}: {:?}", stage.faults.seen());
    }
}

#[test]
fn a_run_that_is_not_answered_ends_and_can_be_resumed() {
    for seed in 0..4 {
        let stage = Stage::new(seed, Odds::default());
        // The names of a run end with its process, and this one goes on.
        let is_of_names = |line: &&str| {
            ["lock", "use", "semaphore", "[semaphore", "capacity"]
                .iter()
                .any(|of| line.starts_with(of))
        };
        let text = FLOW.lines().filter(|line| !is_of_names(line)).collect::<Vec<_>>().join("\n");
        let order = RunRecord { text, ..stage.run() };
        let coordinator = Coordinator::submit(stage.open(), order).expect("it is stored");
        let run = coordinator.run_id().to_owned();
        stage.faults.set(Odds { abort: None, lose: Some(4) });
        let mut led = Ok(coordinator);
        let (mut end, mut again) = (None, 0);
        while end.is_none() {
            // Neither a start nor what follows it is answered for ever.
            end = match led.and_then(|coordinator| coordinator.lead(|_| {})) {
                Ok(end) => Some(end),
                Err(RunError::Store(StoreError::Unanswered { .. })) => None,
                // The end was stored, and only the answer was lost.
                Err(RunError::Over { .. }) => Some(End::Failed),
                Err(error) => panic!("seed {seed}: {error}"),
            };
            again += 1;
            assert!(again < 200, "seed {seed}: it never ends");
            led = Coordinator::resume(stage.open(), &run);
        }
        drop(led);
        assert_eq!(end, Some(End::Failed), "seed {seed}: step d fails");
        assert!(stage.faults.seen().losses > 0, "seed {seed}: {:?}", stage.faults.seen());
        let (ran, known) = (stage.attempts(), journaled(&mut stage.open(), &run));
        for (step, attempts) in &known {
            let ran = ran.get(step).copied().unwrap_or_default();
            assert!(ran <= *attempts, "seed {seed}: {step} ran {ran} of {attempts} times");
        }
    }
}

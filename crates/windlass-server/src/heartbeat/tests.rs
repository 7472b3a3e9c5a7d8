//! Heartbeats whose first connection cannot be opened.

use std::sync::atomic::AtomicBool;

use windlass_core::Need;
use windlass_store::{
    Backend, Claim, Claimed, ManualClock, Memory, OnWait, Opener, ReadBody, Topic, TransactionBody,
    Wakeup,
};

use super::*;

/// A store to which the first further connection cannot be opened.
struct Crowded {
    memory: Memory,
    is_full: Arc<AtomicBool>,
}

impl Backend for Crowded {
    fn transact(
        &mut self,
        durability: Durability,
        on_wait: OnWait<'_>,
        body: TransactionBody<'_>,
    ) -> Result<(), StoreError> {
        self.memory.transact(durability, on_wait, body)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.memory.sync()
    }

    fn read(&mut self, body: ReadBody<'_>) -> Result<(), StoreError> {
        self.memory.read(body)
    }

    fn opener(&self) -> Opener {
        let (memory, is_full) = (self.memory.clone(), Arc::clone(&self.is_full));
        Box::new(move || match is_full.swap(false, Ordering::SeqCst) {
            true => Err(StoreError::Interrupted),
            false => Ok(Box::new(memory.clone())),
        })
    }

    fn register(&self, topic: &Topic) -> Result<Wakeup, StoreError> {
        self.memory.register(topic)
    }
}

#[test]
fn a_worker_whose_heartbeats_find_no_connection_at_first_sends_them_on_the_next() {
    let is_full = Arc::new(AtomicBool::new(true));
    let backend = Crowded { memory: Memory::default(), is_full: Arc::clone(&is_full) };
    let clock = Arc::new(ManualClock::default());
    let mut store = Store::new(Box::new(backend), clock, &std::env::temp_dir());
    let process = Process::current().expect("this is Linux");
    let (holder, worker) = (HolderId::new("worker one"), "one".to_owned());
    let needs = [Need::one(Name::Worker(worker.clone()))];
    let terms = LeaseTerms { heartbeat_timeout: Duration::from_millis(60), max_hold: None };
    let claim = Claim { process: Some(&process), terms, ..Claim::new(&holder, &needs) };
    let begun = store.transact(|tx| Ok((tx.leases().claim(&claim)?, tx.era()?)));
    let (Claimed::Held(holds), era) = begun.expect("the store works") else {
        panic!("it is free");
    };
    let life = Life { worker, token: holds[0].token };
    let beats = WorkerBeats { process, life, terms, settled: SettledEra::new(era) };
    let (tell, told) = mpsc::channel();
    let heartbeat = Heartbeat::of_worker(&store, beats, move |beat| {
        // The test may have seen enough.
        let _ = tell.send(matches!(beat, Beat::Good { .. }));
    });
    let heartbeat = heartbeat.expect("the thread can be started");
    assert!(told.recv_timeout(Duration::from_secs(60)).expect("it tells"), "it is a good one");
    assert!(!is_full.load(Ordering::SeqCst), "the first connection was refused");
    drop(heartbeat);
}

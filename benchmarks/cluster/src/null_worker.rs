//! A worker that starts nothing: it reports every order as a success at once. What is left is the cost of the
//! scheduler and the store.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use windlass_core::{HolderId, Name, Need};
use windlass_store::{
    Claim, Claimed, Durability, Life, Process, Store, StoredWorker, Topic, WorkerState,
};

/// How long it waits for a wake-up before it looks again, so that it notices when it is to end.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// A worker on a thread of this process. It ends when it is dropped.
pub(crate) struct NullWorker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl NullWorker {
    pub(crate) fn start(url: &str, homes: &Path, slots: u32) -> Self {
        let store = Store::in_database(url, homes).expect("there is a store");
        let stop = Arc::new(AtomicBool::new(false));
        let (mut duty, stopped) = (Duty::begin(store, slots), Arc::clone(&stop));
        let thread = thread::spawn(move || duty.work(&stopped));
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for NullWorker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(matches!(ended, Some(Ok(()))) || thread::panicking(), "the worker has failed");
    }
}

struct Duty {
    store: Store,
    life: Life,
    last: u64,
}

impl Duty {
    fn begin(mut store: Store, slots: u32) -> Self {
        let process = Process::current().expect("it runs");
        let (name, holder) = ("null".to_owned(), HolderId::new("worker null"));
        let needs = [Need::one(Name::Worker(name.clone()))];
        let life = store.transact(|transaction| {
            let claim = Claim { process: Some(&process), ..Claim::new(&holder, &needs) };
            let Claimed::Held(holds) = transaction.leases().claim(&claim)? else {
                panic!("another worker has the name")
            };
            let life = Life { worker: name.clone(), token: holds[0].token };
            let state = WorkerState::Up;
            let worker = StoredWorker {
                life: life.clone(),
                slots,
                offer: String::new(),
                state,
                since_ms: 0,
                about: "{}".to_owned(),
            };
            transaction.orders().put_worker(&worker)?;
            Ok(life)
        });
        Self { store, life: life.expect("the store works"), last: 0 }
    }

    fn work(&mut self, stop: &AtomicBool) {
        let wakeup = self.store.register(&Topic::Orders).expect("the store works");
        while !stop.load(Ordering::Relaxed) {
            if self.look() {
                continue;
            }
            let mut ready = [PollFd::new(&wakeup, PollFlags::IN)];
            poll(&mut ready, Some(&LOOK_AGAIN)).expect("it can be watched");
            wakeup.drain();
        }
    }

    /// Reports the new orders. Returns whether there were any.
    fn look(&mut self) -> bool {
        let (life, last) = (&self.life, self.last);
        let orders = self.store.read(|transaction| transaction.orders().of_life(life, last));
        let orders = orders.expect("the store works");
        let at = self.store.now().at.as_nanos();
        let report = format!(
            r#"{{"at":{at},"end":{{"ended":{{"exit":{{"code":0}},"usage":{{}},"flaw":null,"left":[]}}}}}}"#
        );
        let reports: Vec<_> = orders.iter().map(|order| (order.token, report.clone())).collect();
        let Some((last, _)) = reports.last() else { return false };
        self.last = *last;
        let taken = self.store.transact_with(Durability::Process, |transaction| {
            transaction.orders().report(life, &reports)
        });
        assert!(taken.expect("the store works"), "its life is not over");
        true
    }
}

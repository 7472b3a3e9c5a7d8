//! A world by seed: processes over one store, faults, and what must hold all the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use windlass_sim::store::{Faults, Odds};
use windlass_store::{Memory, Store};

use super::actors::{Actor, LEASES, SchedulerActor, WorkerActor};
use super::connection::Connection;
use super::flow::Flow;
use super::machine::{Condition, Machine, process};

/// How many things happen while there are faults.
const TICKS: usize = 150;
/// How many things may happen until everything has ended once the faults have stopped.
const CALM_TICKS: usize = 4000;
/// How deep processes may be suspended in the middle of each other's calls.
const DEPTH: usize = 3;
/// Two schedulers, two workers, and users.
const ACTORS: usize = 5;
const SECOND: u64 = 1_000_000_000;

pub(super) struct World {
    seed: u64,
    pub(super) machine: Machine,
    memory: Memory,
    pub(super) faults: Faults,
    dir: TempDir,
    pub(super) lease: Duration,
    /// Whether there are no faults any more.
    calm: AtomicBool,
    /// When the processes send their next heartbeats.
    next_beat: AtomicU64,
    /// How many processes were suspended in the middle of each other's calls.
    depth: AtomicUsize,
    /// What is to happen before a try of a transaction, and before how many others.
    meanwhile: Mutex<Option<(usize, Meanwhile)>>,
    /// An actor is taken out while it acts.
    actors: Mutex<Vec<Option<Actor>>>,
    truth: Mutex<Truth>,
}

/// Something that happens between two tries of transactions.
type Meanwhile = Box<dyn FnOnce(&Arc<World>) + Send>;

/// What the world knows besides the store.
#[derive(Default)]
pub(super) struct Truth {
    /// The workflows to submit, under the names of their places.
    pub(super) flows: Vec<Flow>,
    tried: usize,
    /// The runs that users know of, with the places of their workflows.
    pub(super) runs: BTreeMap<String, usize>,
    /// Runs that users have steered.
    pub(super) steered: BTreeSet<String>,
    /// The orders whose ends workers have seen.
    pub(super) ended: BTreeSet<u64>,
    /// Processes that have a signal pending.
    signals: BTreeSet<u32>,
    counts: BTreeMap<&'static str, usize>,
}

/// Simulates the world of a seed. Returns how often what has happened.
pub(super) fn simulate(seed: u64) -> BTreeMap<&'static str, usize> {
    let machine = Machine::new(seed);
    let flows = (0..machine.within(1..5)).map(|_| Flow::random(&machine)).collect();
    let lease = LEASES[machine.within(0..2) as usize];
    let world = World::new(seed, machine, lease, flows);
    for _ in 0..TICKS {
        world.tick();
    }
    world.end();
    let seen = world.faults.seen();
    world.add("aborts", seen.aborts);
    world.add("lost replies", seen.losses);
    std::mem::take(&mut world.truth().counts)
}

impl World {
    fn new(seed: u64, machine: Machine, lease: Duration, flows: Vec<Flow>) -> Arc<Self> {
        let odds = Odds { abort: Some(machine.within(2..9)), lose: Some(machine.within(4..20)) };
        let actors: [Actor; ACTORS] = [
            Actor::Scheduler(SchedulerActor::default()),
            Actor::Scheduler(SchedulerActor::default()),
            Actor::Worker(WorkerActor::new("one", machine.within(1..4) as u32)),
            Actor::Worker(WorkerActor::new("two", machine.within(1..3) as u32)),
            Actor::User,
        ];
        Arc::new(Self {
            seed,
            memory: Memory::repeatable(),
            faults: Faults::new(seed, odds),
            dir: tempfile::tempdir().expect("a directory"),
            lease,
            calm: AtomicBool::new(false),
            next_beat: AtomicU64::new(0),
            depth: AtomicUsize::new(0),
            meanwhile: Mutex::new(None),
            actors: Mutex::new(actors.into_iter().map(Some).collect()),
            truth: Mutex::new(Truth { flows, ..Truth::default() }),
            machine,
        })
    }

    /// Creates a world without faults, in which a user submits workflows.
    pub(super) fn quiet(flows: Vec<Flow>) -> Arc<Self> {
        let world = Self::new(0, Machine::new(0), LEASES[1], flows);
        world.calm.store(true, Ordering::Relaxed);
        world.faults.set(Odds::default());
        world
    }

    /// Stops all faults, and checks what follows.
    pub(super) fn end(self: &Arc<Self>) {
        self.calm_down();
        self.check_ends();
        self.actors().clear();
    }

    fn actors(&self) -> MutexGuard<'_, Vec<Option<Actor>>> {
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connects a process to the store.
    pub(super) fn connect(self: &Arc<Self>, pid: u32) -> Store {
        let (memory, world) = (self.memory.clone(), Arc::downgrade(self));
        let backend = self.faults.over(Box::new(Connection { memory, world, pid }));
        Store::new(Box::new(backend), Arc::new(self.machine.clone()), self.dir.path())
    }

    /// Connects the world itself, without faults.
    pub(super) fn look(&self) -> Store {
        let memory = Box::new(self.memory.clone());
        Store::new(memory, Arc::new(self.machine.clone()), self.dir.path())
    }

    pub(super) fn start_process(&self, what: &str) -> u32 {
        let pid = self.machine.start_process();
        self.machine.log(|| format!("process {pid} starts: {what}"));
        pid
    }

    pub(super) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, what: &'static str) {
        self.add(what, 1);
    }

    pub(super) fn add(&self, what: &'static str, count: usize) {
        *self.truth().counts.entry(what).or_default() += count;
    }

    pub(super) fn counted(&self, what: &'static str) -> usize {
        self.truth().counts.get(what).copied().unwrap_or_default()
    }

    /// Has one thing happen.
    fn tick(self: &Arc<Self>) {
        let most = match self.machine.within(0..20) {
            0..14 => SECOND / 2,
            14..19 => 5 * SECOND,
            _ => 30 * SECOND,
        };
        self.let_time_pass(self.machine.within(0..most));
        let running = self.machine.running();
        let any = |world: &Self| running[world.machine.within(0..running.len() as u64) as usize];
        match self.machine.within(0..100) {
            0..2 if !running.is_empty() => self.kill(any(self)),
            2..4 if !running.is_empty() => self.suspend(any(self)),
            4..6 if !running.is_empty() => self.signal(any(self)),
            _ => {
                let place = self.machine.within(0..ACTORS as u64);
                self.act(place as usize);
            }
        }
    }

    /// Has the actor at a place act once, unless it does already.
    pub(super) fn act(self: &Arc<Self>, place: usize) {
        let Some(mut actor) = self.actors()[place].take() else { return };
        actor.act(self);
        self.actors()[place] = Some(actor);
    }

    pub(super) fn let_time_pass(&self, span: u64) {
        let until = self.machine.at() + span;
        loop {
            let at = self.machine.at();
            let beat = self.next_beat.load(Ordering::Relaxed).max(at);
            self.machine.advance(beat.min(until) - at);
            if beat > until {
                return;
            }
            self.beat();
            self.next_beat.store(beat + self.lease.as_nanos() as u64 / 4, Ordering::Relaxed);
        }
    }

    /// Has the processes that run send a heartbeat, as their threads for that do.
    fn beat(&self) {
        let running = self.machine.running();
        let beat = self.look().transact(|transaction| {
            running.iter().try_for_each(|pid| {
                transaction.leases().heartbeat_process(&process(*pid)).map(drop)
            })
        });
        beat.expect("the store works");
    }

    fn kill(&self, pid: u32) {
        self.machine.log(|| format!("process {pid} is killed"));
        self.count("kills");
        self.machine.end_process(pid);
        if self.machine.one_in(4) {
            // The kernel had no memory left, for example.
            self.machine.signal_children(self.machine.at(), 9, |child| child.parent == pid);
        }
    }

    fn suspend(&self, pid: u32) {
        let most = 3 * self.lease.as_millis() as u64;
        let span = Duration::from_millis(self.machine.within(1..most));
        self.machine.log(|| format!("process {pid} is suspended for {span:?}"));
        self.count(if span > self.lease { "long suspensions" } else { "short suspensions" });
        self.machine.suspend(pid, span);
    }

    pub(super) fn signal(&self, pid: u32) {
        self.machine.log(|| format!("process {pid} gets a signal"));
        self.truth().signals.insert(pid);
    }

    /// Notes that a worker has seen the end of what it has started for an order.
    pub(super) fn note_end(&self, token: u64) {
        self.truth().ended.insert(token);
    }

    /// Takes the pending signal of a process.
    pub(super) fn take_signal(&self, pid: u32) -> bool {
        self.truth().signals.remove(&pid)
    }

    /// Has `act` be called between the next try of a transaction and the one after it.
    pub(super) fn after_next_try(&self, act: impl FnOnce(&Arc<World>) + Send + 'static) {
        *self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner) = Some((1, Box::new(act)));
    }

    fn take_meanwhile(&self) -> Option<Meanwhile> {
        let mut meanwhile = self.meanwhile.lock().unwrap_or_else(PoisonError::into_inner);
        let (tries, act) = meanwhile.take()?;
        if tries == 0 {
            return Some(act);
        }
        *meanwhile = Some((tries - 1, act));
        None
    }

    /// Has something happen to a process before it tries a transaction.
    pub(super) fn before_transaction(self: &Arc<Self>, pid: u32) {
        if let Some(act) = self.take_meanwhile() {
            act(self);
        }
        self.interrupt(pid, "killed before a transaction");
    }

    /// Has something happen to a process that does not know yet that its transaction is committed.
    pub(super) fn after_commit(self: &Arc<Self>, pid: u32) {
        self.interrupt(pid, "killed after a commit");
    }

    /// Has something happen to a process after it has read.
    pub(super) fn after_read(self: &Arc<Self>, pid: u32) {
        self.interrupt(pid, "killed after a read");
    }

    /// Kills a process, suspends it, or has the others go on for a moment before it does; or does nothing.
    fn interrupt(self: &Arc<Self>, pid: u32, killed: &'static str) {
        if self.is_calm() || self.depth.load(Ordering::Relaxed) == DEPTH {
            return;
        }
        let ticks = match self.machine.within(0..100) {
            0 => {
                self.count(killed);
                self.kill(pid);
                0
            }
            1 => {
                self.suspend(pid);
                usize::MAX
            }
            2..7 => self.machine.within(1..5) as usize,
            _ => 0,
        };
        self.depth.fetch_add(1, Ordering::Relaxed);
        for _ in 0..ticks {
            self.tick();
            let is_suspended = matches!(self.machine.condition(pid), Condition::Suspended(_));
            if ticks == usize::MAX && !is_suspended {
                break;
            }
        }
        self.depth.fetch_sub(1, Ordering::Relaxed);
        // It goes on only once it runs again.
        while let Condition::Suspended(until) = self.machine.condition(pid) {
            self.let_time_pass(until - self.machine.at());
        }
    }

    /// Stops all faults. Then every run ends.
    fn calm_down(self: &Arc<Self>) {
        self.machine.log(|| "the faults stop".to_owned());
        self.calm.store(true, Ordering::Relaxed);
        self.faults.set(Odds::default());
        self.truth().signals.clear();
        self.machine.resume_all();
        for _ in 0..CALM_TICKS {
            self.let_time_pass(self.machine.within(0..2 * SECOND));
            (0..ACTORS).for_each(|place| self.act(place));
            if self.is_over() {
                return;
            }
        }
        panic!("these runs never end:\n{}", self.open_runs());
    }

    /// Returns whether every run was submitted and has ended, and all orders were taken in.
    fn is_over(&self) -> bool {
        let Truth { tried, flows, .. } = &*self.truth();
        let over = self.look().read(|transaction| {
            let orders = transaction.orders().counts("")?;
            Ok(transaction.runs().served()?.is_empty() && orders.is_empty())
        });
        *tried == flows.len() && over.expect("the store works")
    }

    /// Returns the next workflow to submit, if it is time to, and a name that no other has.
    pub(super) fn next_flow(&self) -> Option<(String, Flow)> {
        if !self.is_calm() && !self.machine.one_in(3) {
            return None;
        }
        let Truth { flows, tried, .. } = &mut *self.truth();
        let flow = flows.get(*tried)?.clone();
        *tried += 1;
        Some((format!("f{}", *tried - 1), flow))
    }

    pub(super) fn note_submitted(&self, name: &str, run: String) {
        let place = place_of(name);
        let before = self.truth().runs.insert(run, place);
        assert_eq!(before, None, "the id of a run is given twice");
    }

    /// Returns a run that a user knows, and one of its steps or none, and notes that it is steered.
    pub(super) fn any_step(&self) -> Option<(String, Option<String>)> {
        let Truth { runs, flows, steered, .. } = &mut *self.truth();
        let place = self.machine.within(0..runs.len().max(1) as u64) as usize;
        let (run, flow) = runs.iter().nth(place)?;
        let steps = flows[*flow].steps.len() as u64;
        let step = self.machine.within(0..steps + 1);
        steered.insert(run.clone());
        Some((run.clone(), (step < steps).then(|| format!("s{step}"))))
    }
}

/// Returns the place of the workflow that has a name.
pub(super) fn place_of(name: &str) -> usize {
    name[1..].parse().expect("a name is a letter and a number")
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.machine.take_log().join("\n  ");
            eprintln!("the last of seed {}:\n  {log}", self.seed);
            eprintln!(
                "repeat with: WINDLASS_SEED={} cargo test -p windlass-server --lib simulated",
                self.seed
            );
        }
    }
}

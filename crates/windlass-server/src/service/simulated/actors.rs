//! Who acts in a world: schedulers, workers and users. Each drives what its process ships; when the process
//! is gone, all that it knew is gone, too, and another process begins.

use std::sync::Arc;
use std::time::Duration;

use windlass_store::{Access, Claimed, Leftover, RunRecord, Store, StoreError};

use super::attempts::SimulatedAttempts;
use super::machine::{Condition, process};
use super::world::World;
use crate::clock::Clock;
use crate::coordinator::served::Host;
use crate::coordinator::{Ask, RunError, ask};
use crate::service::duty::{Begun, Duty, Place};
use crate::service::scheduler::{Rounds, claim_lead};
use crate::service::worker::{WorkerError, WorkerSettings, lease_terms};
use crate::service::{Equipment, WorkersNeeded, submit};

pub(super) enum Actor {
    Scheduler(SchedulerActor),
    Worker(WorkerActor),
    User,
}

impl Actor {
    pub(super) fn act(&mut self, world: &Arc<World>) {
        match self {
            Actor::Scheduler(scheduler) => scheduler.act(world),
            Actor::Worker(worker) => worker.act(world),
            Actor::User => use_service(world),
        }
    }
}

/// A scheduler: stands by, or leads.
#[derive(Default)]
pub(super) struct SchedulerActor(Option<SchedulerProcess>);

struct SchedulerProcess {
    pid: u32,
    store: Store,
    rounds: Option<Rounds>,
}

impl SchedulerActor {
    fn act(&mut self, world: &Arc<World>) {
        let this = self.0.get_or_insert_with(|| {
            let pid = world.start_process("scheduler");
            SchedulerProcess { pid, store: world.connect(pid), rounds: None }
        });
        let pid = this.pid;
        if world.machine.condition(pid) == Condition::Runs {
            match &mut this.rounds {
                Some(_) => this.lead(world),
                None => this.stand_by(world),
            }
        }
        if world.machine.is_gone(pid) {
            self.0 = None;
        }
    }
}

impl SchedulerProcess {
    fn stand_by(&mut self, world: &Arc<World>) {
        let (process, terms) = (process(self.pid), lease_terms(world.lease));
        match claim_lead(&mut self.store, &process, terms, "scheduler") {
            Ok(Claimed::Held(holds)) => {
                let epoch = holds[0].token;
                world.machine.log(|| format!("process {} leads under {epoch}", self.pid));
                world.count("leads");
                let clock = Clock::manual(world.machine.nanos());
                let host = Host::new(self.store.dir(), process, clock);
                self.rounds = Some(Rounds::new(epoch, "scheduler", host));
            }
            Ok(Claimed::Refused(_)) | Err(StoreError::Unanswered { .. }) => {}
            Err(error) => panic!("a scheduler cannot claim the lead: {error}"),
        }
    }

    fn lead(&mut self, world: &Arc<World>) {
        let Self { pid, store, rounds } = self;
        let leading = rounds.as_mut().expect("it leads");
        let mut end_leftovers = |leftovers: Vec<Leftover>| {
            let mut cleared = Vec::new();
            for Leftover { name, token, tree, .. } in leftovers {
                world.machine.log(|| format!("process {pid} kills what holds {name}"));
                world.count("leftovers of a name");
                world.machine.kill(&[tree]);
                cleared.push((name, token));
            }
            Ok(cleared)
        };
        let next = leading.next(store, &mut end_leftovers, &mut |news| {
            world.machine.log(|| format!("process {pid}: {news:?}"));
        });
        match next {
            Ok(Some(_)) => world.check_digests(leading),
            Ok(None) => {
                world.machine.log(|| format!("process {pid} has lost the lead"));
                world.count("leads lost");
                *rounds = None;
            }
            Err(_) if world.machine.is_gone(*pid) => {}
            Err(error) => panic!("a scheduler has ended: {error}"),
        }
    }
}

/// A worker of one name, in one life after the other.
pub(super) struct WorkerActor {
    name: &'static str,
    slots: u32,
    life: Option<(u32, Duty<SimulatedAttempts>)>,
}

impl WorkerActor {
    pub(super) fn new(name: &'static str, slots: u32) -> Self {
        Self { name, slots, life: None }
    }

    fn act(&mut self, world: &Arc<World>) {
        let pid = match &self.life {
            Some((pid, _)) => *pid,
            None => {
                let pid = world.start_process(self.name);
                self.life = self.begin(world, pid).map(|duty| (pid, duty));
                pid
            }
        };
        if world.machine.condition(pid) == Condition::Runs {
            self.go_on(world, pid);
        }
        if world.machine.is_gone(pid) {
            self.life = None;
        }
    }

    fn begin(&self, world: &Arc<World>, pid: u32) -> Option<Duty<SimulatedAttempts>> {
        let store = world.connect(pid);
        let dir = store.dir().join("workers").join(self.name);
        Access::create_dir(&dir).expect("a directory");
        let (name, slots) = (self.name.to_owned(), self.slots);
        let (lease, guardian) = (world.lease, Vec::new());
        let settings = WorkerSettings {
            name,
            slots,
            equipment: Equipment::default(),
            lease,
            idle: None,
            guardian,
            kept_log: 0,
        };
        let (process, tag) = (process(pid), format!("worker-{}", self.name));
        let attempts = SimulatedAttempts::new(world, pid, &tag);
        let clock = Clock::manual(world.machine.nanos());
        let kill = |trees: &[_]| {
            world.machine.kill(trees);
            Ok(())
        };
        let place = Place { dir: &dir, tag: &tag, process: &process, kill: &kill };
        match Duty::begin(store, settings, &place, attempts, clock) {
            Ok((duty, Begun { lost, .. })) => {
                world
                    .machine
                    .log(|| format!("process {pid} begins a life; {lost} orders are lost"));
                world.count("lives");
                world.add("lost orders", lost);
                Some(duty)
            }
            // The command ends with it.
            Err(WorkerError::Store(StoreError::Unanswered { .. })) => {
                world.machine.end_process(pid);
                None
            }
            Err(error) => panic!("a worker cannot begin: {error}"),
        }
    }

    fn go_on(&mut self, world: &Arc<World>, pid: u32) {
        let Some((_, duty)) = &mut self.life else { return };
        let gone_on = duty.go_on(&mut |news| {
            world.machine.log(|| format!("process {pid}: {news:?}"));
        });
        match gone_on {
            Ok(None) => {}
            Ok(Some(end)) => {
                world.machine.log(|| format!("process {pid} ends: {end:?}"));
                world.count("ends of workers");
                let (_, duty) = self.life.take().expect("it was there");
                // If the store does not answer, its process ends all the same.
                let _ = duty.end(end);
                world.machine.end_process(pid);
            }
            Err(_) if world.machine.is_gone(pid) => {}
            Err(error) => panic!("a worker has ended: {error}"),
        }
    }
}

/// Submits a run, cancels one, or emits an event.
fn use_service(world: &Arc<World>) {
    if let Some((name, flow)) = world.next_flow() {
        let text = flow.text(&name);
        let (pid, workflow) = (world.start_process("user"), windlass_workflow::parse(&name, &text));
        let workflow = workflow.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut store = world.connect(pid);
        let (file, dir) = (name.clone(), store.dir().to_owned());
        let run = RunRecord { file, text, dir, ..RunRecord::default() };
        let submitted = submit(&mut store, run, workflow, &[], WorkersNeeded::Now);
        world.machine.log(|| format!("process {pid} submits {name}: {submitted:?}"));
        world.machine.end_process(pid);
        match submitted {
            Ok(run) => world.note_submitted(&name, run),
            Err(RunError::Store(StoreError::Unanswered { .. })) => {
                world.count("unknown submissions");
            }
            Err(error) => panic!("a run cannot be submitted: {error}"),
        }
        return;
    }
    if world.is_calm() || !world.machine.one_in(8) {
        return;
    }
    let Some((run, step)) = world.any_step() else { return };
    let pid = world.start_process("user");
    let asked = ask(&mut world.connect(pid), &run, &[Ask::Cancel(step.clone())]);
    world.machine.log(|| format!("process {pid} cancels {run} {step:?}: {asked:?}"));
    world.machine.end_process(pid);
    match asked {
        Ok(()) => world.count("cancelled"),
        Err(RunError::Over { .. } | RunError::Store(StoreError::Unanswered { .. })) => {}
        Err(error) => panic!("a run cannot be cancelled: {error}"),
    }
}

/// How long nothing can go on before another process may act in its place.
pub(super) const LEASES: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];

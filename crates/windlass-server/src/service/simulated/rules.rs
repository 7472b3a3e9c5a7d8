//! What must hold in every world: while there are faults, and at the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use windlass_core::{Ending, Fact, Happening, Input, Name, Timestamp};
use windlass_store::{RunRecord, Transaction};

use super::flow::{Flow, FlowStep, SLOTS};
use super::machine::{Child, process};
use super::world::{World, place_of};
use crate::coordinator::attempts::OrderKind;
use crate::coordinator::plan_of;
use crate::ended::Exit;
use crate::schedule::Schedule;
use crate::service::scheduler::Rounds;

impl World {
    /// Starts what an order asks for, and checks that it may.
    pub(super) fn start_child(&self, mut child: Child) {
        self.machine
            .log(|| format!("process {} starts {:?} {}", child.parent, child.kind, child.tags[1]));
        self.count(match child.kind {
            OrderKind::Command => "commands",
            OrderKind::Finally => "finally",
            OrderKind::Check => "checks",
            OrderKind::Hook(_) => "hooks",
        });
        let twin = self.machine.children().into_iter().find(|other| other.token == child.token);
        assert!(twin.is_none(), "an order is executed twice");
        self.check_order(&child);
        let (mut nanos, mut exit) = (self.machine.within(1..3_000_000_000), Exit::Code(0));
        if let Some((run, work, attempt)) = child.attempt() {
            let flow = self.flow(run);
            self.check_overlap(&child, run, work);
            if child.kind == OrderKind::Command {
                self.check_start(run, work, attempt, &flow);
                let step = &flow.steps[work];
                (nanos, exit) = (step.nanos, Exit::Code(i32::from(step.fails)));
            }
        }
        (child.ends, child.exit) = (self.machine.at() + nanos, exit);
        self.machine.start_child(child);
    }

    /// Notes that an order was not started in time.
    pub(super) fn on_late(&self, token: u64) {
        self.machine.log(|| format!("order {token} is late"));
        self.count("late orders");
    }

    /// Returns the workflow of a run.
    fn flow(&self, run: &str) -> Flow {
        let record = self.look().run(run).expect("it was submitted");
        self.truth().flows[place_of(&record.workflow)].clone()
    }

    /// Returns whether a process is a worker whose life is not over.
    pub(super) fn has_life(&self, pid: u32) -> bool {
        let found = self.look().read(|transaction| {
            let live = transaction.orders().live_workers()?;
            Ok(live.iter().any(|(_, of_it)| *of_it == process(pid)))
        });
        found.expect("the store works")
    }

    /// Checks that the store has the order of a child, for a life of the process that executes it.
    fn check_order(&self, child: &Child) {
        let found = self.look().read(|transaction| {
            let mut orders = Vec::new();
            for (worker, of_it) in transaction.orders().live_workers()? {
                if of_it == process(child.parent) {
                    orders.extend(transaction.orders().of_life(&worker.life, 0)?);
                }
            }
            Ok(orders.iter().any(|order| order.token == child.token))
        });
        assert!(found.expect("the store works"), "a process starts without an order");
    }

    /// Checks that no process of the step is left, and that a command finds its limits kept.
    fn check_overlap(&self, child: &Child, run: &str, work: usize) {
        let live = self.machine.live_children();
        let works = live.iter().filter_map(|other| Some((other, other.attempt()?)));
        let works: Vec<_> = works.map(|(other, (run, work, _))| (other, run, work)).collect();
        let twin = works.iter().find(|(_, of, step)| (*of, *step) == (run, work));
        assert!(twin.is_none(), "two processes of a step run at a time: {twin:?}");
        let mut flows: BTreeMap<&str, Flow> = BTreeMap::new();
        for (_, run, _) in &works {
            flows.entry(run).or_insert_with(|| self.flow(run));
        }
        let flow = self.flow(run);
        let step = &flow.steps[work];
        let others = |is_it: &dyn Fn(&FlowStep) -> bool| {
            let holding = works.iter().filter(|(other, ..)| other.holds && child.holds);
            holding.filter(|(_, run, work)| is_it(&flows[run].steps[*work])).count()
        };
        let locked = others(&|other| step.lock.is_some() && other.lock == step.lock);
        assert_eq!(locked, 0, "two processes have a lock at a time: {live:#?}");
        let slots = others(&|other| step.semaphore && other.semaphore);
        assert!(slots < SLOTS, "too many processes have slots of a semaphore");
        if child.kind != OrderKind::Command {
            return;
        }
        let needs = step.lock.is_some() || step.semaphore;
        assert_eq!(child.holds, needs, "a command has names that its step needs");
        let commands =
            works.iter().filter(|(other, of, _)| other.kind == OrderKind::Command && *of == run);
        let commands: Vec<_> = commands.collect();
        assert!(
            flow.concurrency.is_none_or(|most| commands.len() < most),
            "too many steps of a run"
        );
        let uses = commands.iter().filter(|(_, _, work)| flow.steps[*work].uses).count();
        assert!(!step.uses || uses < flow.resource, "too many steps use a resource");
        let own = live.iter().filter(|other| other.parent == child.parent);
        let own = own.filter(|other| other.kind == OrderKind::Command).count();
        assert!(own < self.slots(child.parent), "a worker executes more than it has slots");
    }

    /// Returns the slots of the worker that is this process.
    pub(super) fn slots(&self, pid: u32) -> usize {
        let slots = self.look().read(|transaction| {
            let live = transaction.orders().live_workers()?.into_iter();
            let mut of_it = live.filter(|(_, of_it)| *of_it == process(pid));
            Ok(of_it.next().map_or(0, |(worker, _)| worker.slots as usize))
        });
        slots.expect("the store works")
    }

    /// Checks that the journal knows why a command starts.
    fn check_start(&self, run: &str, work: usize, attempt: u32, flow: &Flow) {
        let children = self.machine.children();
        let twin = children.iter().find(|child| {
            child.kind == OrderKind::Command && child.attempt() == Some((run, work, attempt))
        });
        assert!(twin.is_none(), "an attempt runs twice");
        let facts = self.look().facts(run).expect("the store works");
        let started = |fact: &Fact| {
            matches!(fact.what, Happening::Started { work: of, attempt: number, .. }
                if (of.index(), number) == (work, attempt))
        };
        assert!(facts.iter().any(started), "a command starts that the journal does not know");
        for (attempt, ending) in endings(&facts, work) {
            let again = matches!(ending, Ending::Retry { .. } | Ending::Interrupted);
            assert!(again, "a step runs again though attempt {attempt} was its last");
        }
        assert!(!endings(&facts, work).contains_key(&attempt), "an attempt runs after its end");
        for on in &flow.steps[work].after {
            let ended = endings(&facts, *on).values().any(|ending| *ending == Ending::Success);
            assert!(ended, "a step starts before the end of s{on} is stored");
        }
    }

    /// Checks that the journals lead to the states that a scheduler has, if it still leads.
    pub(super) fn check_digests(&self, rounds: &Rounds) {
        let leads = self.look().read(|transaction| {
            let held = transaction.leases().on(&Name::Scheduler)?;
            Ok(held.iter().any(|stored| stored.lease.token == rounds.epoch()))
        });
        if !leads.expect("the store works") || !self.machine.one_in(3) {
            return;
        }
        let now = Timestamp::from_nanos(self.machine.at());
        for (run, digest) in rounds.digests() {
            self.count("digests compared");
            let mut replay = self.replay(run);
            // What time alone brings is in no fact, and the scheduler knows it up to some moment.
            while replay.engine().digest() != digest {
                let due = replay.engine().next_wakeup().filter(|due| *due <= now);
                let due = due.unwrap_or_else(|| panic!("run {run}: a replay differs"));
                let ticked = replay.call_at(due, |engine, world| engine.apply(world, Input::Tick));
                ticked.expect("time passes");
            }
        }
    }

    fn replay(&self, run: &str) -> Schedule {
        let mut store = self.look();
        let record = store.run(run).expect("it was submitted");
        let mut schedule = Schedule::new(plan_of(&record).expect("it can be read"));
        schedule.replay(&store.facts(run).expect("the store works"));
        schedule
    }

    /// Returns what the store has of the runs that have not ended, for a user who looks for the reason.
    pub(super) fn open_runs(&self) -> String {
        let open = self.look().read(|transaction| {
            let mut lines = Vec::new();
            for run in transaction.runs().served()? {
                let engine = self.replay(&run);
                let engine = engine.engine();
                lines.extend(
                    engine
                        .works()
                        .map(|work| format!("run {run} work {work}: {:?}", engine.phase(work))),
                );
                for order in transaction.orders().of_run(&run)? {
                    lines.push(format!(
                        "{}: {} at {}, {:?}",
                        order.token, order.key, order.life, order.wish
                    ));
                }
            }
            for view in transaction.leases().overview()? {
                let held = view.leases.iter().map(|stored| &stored.lease.holder);
                let wanted = view.waiters.iter().map(|stored| &stored.waiter.holder);
                lines.push(format!(
                    "{}: held by {:?}, wanted by {:?}",
                    view.name,
                    held.collect::<Vec<_>>(),
                    wanted.collect::<Vec<_>>()
                ));
            }
            lines.push(format!("reports: {:?}", transaction.orders().reports()?));
            Ok(lines.join("\n"))
        });
        open.expect("the store works")
    }

    /// Checks what is left once everything has ended.
    pub(super) fn check_ends(self: &Arc<Self>) {
        let mut store = self.look();
        let runs = store.read(|transaction: &Transaction<'_>| {
            let left: Vec<_> = transaction.leases().overview()?;
            let left: Vec<_> = left.into_iter().filter(|view| is_of_steps(&view.name)).collect();
            assert!(left.is_empty(), "names are held or wanted in the end: {left:#?}");
            assert_eq!(transaction.orders().reports()?, [], "reports are left");
            assert_eq!(transaction.requests().all_pending()?, [], "requests are left");
            let runs = transaction.runs().latest(None, usize::MAX)?;
            runs.iter().map(|run| transaction.runs().find(&run.id)).collect::<Result<Vec<_>, _>>()
        });
        let left = self.machine.live_children();
        assert!(left.is_empty(), "processes are left: {left:?}");
        let runs = runs.expect("the store works");
        let mut flows: Vec<_> = runs.iter().map(|run| place_of(&run.workflow)).collect();
        flows.sort_unstable();
        let made = flows.len();
        flows.dedup();
        assert_eq!(flows.len(), made, "a submission was made twice");
        let known = self.truth().runs.clone();
        for (run, flow) in &known {
            let stored = runs.iter().find(|stored| stored.id == *run);
            let stored = stored.map(|stored| place_of(&stored.workflow));
            assert_eq!(stored, Some(*flow), "a submission is lost");
        }
        runs.iter().for_each(|run| self.check_run(run));
    }

    /// Checks how a run has ended.
    fn check_run(&self, run: &RunRecord) {
        self.count("runs");
        let facts = self.look().facts(&run.id).expect("the store works");
        let flow = self.flow(&run.id);
        let children = self.machine.children();
        assert!(self.replay(&run.id).engine().is_done(), "run {} has ended early", run.id);
        for (work, step) in flow.steps.iter().enumerate() {
            let of_it = |fact: &&Fact| matches!(fact.what, Happening::Started { work: of, .. } if of.index() == work);
            let (started, endings) = (facts.iter().filter(of_it).count(), endings(&facts, work));
            assert_eq!(
                started,
                endings.len(),
                "run {}: s{work} has attempts without an end",
                run.id
            );
            for (attempt, ending) in &endings {
                let of_it = |child: &&Child| {
                    child.kind == OrderKind::Command
                        && child.attempt() == Some((&*run.id, work, *attempt))
                };
                let child = children.iter().find(of_it);
                let seen = child.is_some_and(|child| self.truth().ended.contains(&child.token));
                assert!(!seen || *ending != Ending::Interrupted, "the end of s{work} is lost");
                let exit = child.map(|child| child.exit);
                let is_success = exit == Some(Exit::Code(0));
                assert!(
                    *ending != Ending::Success || is_success,
                    "s{work} has succeeded with {exit:?}"
                );
            }
            if !self.truth().steered.contains(&run.id) && flow.is_alone() {
                check_outcome(step, flow.outcomes()[work], endings.values());
            }
        }
    }
}

/// Checks how the attempts of a step have ended in a run that was left alone.
fn check_outcome<'a>(
    step: &FlowStep,
    expected: Option<bool>,
    endings: impl Iterator<Item = &'a Ending>,
) {
    let counted: Vec<_> = endings.filter(|ending| **ending != Ending::Interrupted).collect();
    match expected {
        Some(true) => assert_eq!(counted, [&Ending::Success], "it succeeds at once"),
        Some(false) => {
            assert_eq!(counted.last(), Some(&&Ending::Failed), "it fails in the end");
            assert_eq!(counted.len(), 1 + step.retries as usize, "it uses up its retries");
        }
        None => assert_eq!(counted.len(), 0, "it is blocked"),
    }
}

/// Returns how the attempts of a step have ended.
fn endings(facts: &[Fact], work: usize) -> BTreeMap<u32, Ending> {
    let ending = |fact: &Fact| match fact.what {
        Happening::Ended { work: of, attempt, ending } if of.index() == work => {
            Some((attempt, ending))
        }
        _ => None,
    };
    facts.iter().filter_map(ending).collect()
}

fn is_of_steps(name: &Name) -> bool {
    matches!(name, Name::Lock(_) | Name::Semaphore(_))
}

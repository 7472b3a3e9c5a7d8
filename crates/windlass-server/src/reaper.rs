//! Ends trees of processes on a thread of its own: waits for as long as they may linger, sends SIGTERM, waits
//! for their grace period, kills what is left, and reports when nothing is.
//!
//! One pass over `/proc` serves all trees that have to end. The main process of a tree must not be reaped
//! before the tree is reported as gone: until then its pid is not used again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process_group};
use windlass_store::ProcessTree;

use crate::attempt::pid;
use crate::channel::{Receiver, Sender, channel};
use crate::files;
use crate::poll::poll;
use crate::proc_fs::{self, Process};
use crate::processes::Job;
use crate::search::{self, Wanted};
use crate::tree::{self, KILL_TIMEOUT, Reach};

/// A request to end a tree.
pub(crate) struct KillRequest {
    pub(crate) job: Job,
    pub(crate) tree: ProcessTree,
    /// Processes that are known to belong to it, with all that they have started.
    pub(crate) roots: Vec<Process>,
    pub(crate) plan: KillPlan,
}

/// When a tree gets SIGTERM, and when it is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KillPlan {
    ask_at: Instant,
    kill_at: Instant,
}

impl KillPlan {
    /// Sends SIGTERM after `linger`, and SIGKILL after another `grace`.
    pub(crate) fn after(linger: Duration, grace: Duration) -> Self {
        let ask_at = later(Instant::now(), linger);
        Self { ask_at, kill_at: later(ask_at, grace) }
    }

    /// Sends SIGTERM at once, and SIGKILL after `grace`.
    pub(crate) fn ask(grace: Duration) -> Self {
        Self::after(Duration::ZERO, grace)
    }

    /// Sends SIGKILL at once.
    pub(crate) fn kill() -> Self {
        Self::ask(Duration::ZERO)
    }

    /// Returns whether the time for SIGKILL has come.
    pub(crate) fn kills_now(self) -> bool {
        Instant::now() >= self.kill_at
    }

    /// Returns the plan with the earlier time of both for each signal.
    pub(crate) fn or_earlier(self, other: Self) -> Self {
        let ask_at = self.ask_at.min(other.ask_at);
        Self { ask_at, kill_at: self.kill_at.min(other.kill_at) }
    }
}

/// Returns a later time; one that cannot be represented becomes a time later than any wait.
fn later(from: Instant, by: Duration) -> Instant {
    from.checked_add(by).unwrap_or(from + Duration::from_secs(1 << 32))
}

/// What has become of a tree.
#[derive(Debug)]
pub(crate) struct Gone {
    pub(crate) job: Job,
    /// The processes that could not be ended.
    pub(crate) left: Vec<Process>,
    /// The processes that got a signal, each as `name (pid)`.
    pub(crate) signalled: Vec<String>,
}

/// The thread that ends trees, until it is dropped.
pub(crate) struct Reaper {
    orders: Sender<ReaperCommand>,
    thread: Option<thread::JoinHandle<()>>,
}

enum ReaperCommand {
    End(KillRequest),
    /// Ends a tree no later than the plan says.
    Hasten(Job, KillPlan),
    Stop,
}

impl Reaper {
    /// Starts the thread, which calls `report` once for every tree.
    pub(crate) fn start(report: impl Fn(Gone) + Send + 'static) -> io::Result<Self> {
        let (orders, taken) = channel()?;
        let ending = move || ReaperThread { trees: BTreeMap::new(), report }.run(&taken);
        let thread = thread::Builder::new().spawn(ending)?;
        Ok(Self { orders, thread: Some(thread) })
    }

    pub(crate) fn end(&self, request: KillRequest) {
        self.order(ReaperCommand::End(request));
    }

    /// Ends a tree no later than `plan` says, unless it has ended.
    pub(crate) fn hasten(&self, job: Job, plan: KillPlan) {
        self.order(ReaperCommand::Hasten(job, plan));
    }

    fn order(&self, order: ReaperCommand) {
        // The thread runs until `Stop`, unless it has panicked, which was reported.
        let _ = self.orders.send(order);
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        self.order(ReaperCommand::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct ReaperThread<T> {
    trees: BTreeMap<Job, Dying>,
    report: T,
}

struct Dying {
    request: KillRequest,
    /// The processes that got SIGTERM, or SIGKILL before; none gets SIGTERM twice.
    asked: BTreeSet<(u32, u64)>,
    /// The same processes, as messages name them.
    signalled: Vec<String>,
    /// The processes of the last pass, to notice their ends.
    watched: Vec<OwnedFd>,
}

impl<T: Fn(Gone)> ReaperThread<T> {
    fn run(mut self, orders: &Receiver<ReaperCommand>) {
        loop {
            for order in orders.take() {
                match order {
                    ReaperCommand::End(request) => {
                        self.trees.insert(request.job, Dying::new(request));
                    }
                    ReaperCommand::Hasten(job, plan) => {
                        if let Some(Dying { request, .. }) = self.trees.get_mut(&job) {
                            request.plan = request.plan.or_earlier(plan);
                        }
                    }
                    ReaperCommand::Stop => return,
                }
            }
            self.look();
            self.wait(orders);
        }
    }

    /// Searches all processes once, and signals each tree as its plan says.
    fn look(&mut self) {
        if self.trees.is_empty() {
            return;
        }
        let trees: Vec<_> = self.trees.values().collect();
        let wanted: Vec<_> = trees.iter().map(|dying| dying.request.wanted()).collect();
        let mut killed = vec![Vec::new(); trees.len()];
        let found = search::members(&wanted, |place, process| {
            if trees[place].may_outrun_search(process) {
                killed[place].push((*process, proc_fs::label(process.pid)));
                tree::kill_at_sight(process);
            }
        });
        // What a partial search overlooks has become an orphan by the time that the job is concluded.
        let found = found.map(|members| members.of_trees);
        let jobs: Vec<_> = self.trees.keys().copied().collect();
        for (place, job) in jobs.into_iter().enumerate() {
            let dying = self.trees.get_mut(&job).expect("the job is a key of the map");
            killed[place].drain(..).for_each(|(process, label)| dying.note(&process, label));
            let over = match &found {
                Ok(found) => dying.press(&found[place]),
                Err(_) => dying.press_unseen(),
            };
            if let Some(left) = over {
                let signalled = self.trees.remove(&job).map(|dying| dying.signalled);
                (self.report)(Gone { job, left, signalled: signalled.unwrap_or_default() });
            }
        }
    }

    /// Waits until all known processes of a tree have ended, a plan has something due, or an order comes.
    fn wait(&mut self, orders: &Receiver<ReaperCommand>) {
        loop {
            let now = Instant::now();
            if self.trees.values().any(|dying| dying.watched.is_empty()) {
                // No pidfd can be opened, so other processes have to end first.
                let _ = poll(&[orders], Some(Duration::from_millis(1)));
                return;
            }
            let next = self.trees.values().map(|dying| dying.next(now)).min();
            let mut sources: Vec<&dyn AsFd> = vec![orders];
            let watched = self.trees.values().flat_map(|dying| &dying.watched);
            sources.extend(watched.map(|handle| handle as &dyn AsFd));
            let patience = next.map(|next| next.saturating_duration_since(now));
            let Ok(ready) = poll(&sources, patience) else { return };
            if ready[0] || next.is_some_and(|next| Instant::now() >= next) {
                return;
            }
            let mut ready = ready[1..].iter();
            for dying in self.trees.values_mut() {
                dying.watched.retain(|_| ready.next() == Some(&false));
            }
        }
    }
}

impl KillRequest {
    fn wanted(&self) -> Wanted<'_> {
        Wanted { tree: &self.tree, roots: &self.roots }
    }
}

impl Dying {
    fn new(request: KillRequest) -> Self {
        let (asked, signalled, watched) = (BTreeSet::new(), Vec::new(), Vec::new());
        Self { request, asked, signalled, watched }
    }

    /// Returns when the plan has something due next.
    fn next(&self, now: Instant) -> Instant {
        let KillPlan { ask_at, kill_at } = self.request.plan;
        let next = [ask_at, kill_at].into_iter().find(|at| now < *at);
        next.unwrap_or(kill_at + KILL_TIMEOUT)
    }

    /// Returns whether a process may start another and end before its tree is killed. One that is in the group
    /// cannot: the group is killed as a whole.
    fn may_outrun_search(&self, process: &Process) -> bool {
        let group = self.request.tree.group.map(|group| group.leader);
        self.request.plan.kills_now() && Some(process.group) != group
    }

    /// Waits for, terminates or kills the members, as the plan says. Returns those that are left when nothing
    /// more can be done.
    fn press(&mut self, members: &[Process]) -> Option<Vec<Process>> {
        let now = Instant::now();
        let KillPlan { ask_at, kill_at } = self.request.plan;
        let (asking, killing) = (now >= ask_at, now >= kill_at);
        let signals: &[Signal] = match (asking, killing) {
            (_, true) => &[Signal::KILL],
            // A stopped process handles SIGTERM only once it continues.
            (true, _) => &[Signal::TERM, Signal::CONT],
            _ => &[],
        };
        let first_time = asking && self.asked.is_empty();
        let unasked = |process: &&Process| !self.asked.contains(&key(process));
        let unasked: Vec<_> = members.iter().filter(unasked).filter(|_| asking).collect();
        unasked.iter().for_each(|process| self.note(process, proc_fs::label(process.pid)));
        if killing || first_time {
            self.signal_group(signals);
        }
        let mut out_of_reach = 0;
        self.watched.clear();
        for process in members {
            let is_signalled =
                !killing && (!unasked.contains(&process) || self.is_in_group(process.pid));
            match tree::signal(process, if is_signalled { &[] } else { signals }) {
                Ok(Reach::In(handle)) => self.watched.extend(files::to_keep(handle)),
                Ok(Reach::Out(handle)) => {
                    out_of_reach += 1;
                    // Once it should be killed, its end is not waited for.
                    if !killing {
                        self.watched.extend(files::to_keep(handle));
                    }
                }
                // It has ended meanwhile, so another pass is due.
                Err(_) => {}
            }
        }
        let in_vain = out_of_reach == members.len() || now > kill_at + KILL_TIMEOUT;
        let over = members.is_empty() || (killing && in_vain);
        over.then(|| members.to_vec())
    }

    /// Kills the group if it is due, while the processes cannot be listed. Returns the processes that may be
    /// left when that has lasted too long.
    fn press_unseen(&mut self) -> Option<Vec<Process>> {
        self.watched.clear();
        let (now, KillPlan { kill_at, .. }) = (Instant::now(), self.request.plan);
        if now >= kill_at {
            self.signal_group(&[Signal::KILL]);
        }
        (now > kill_at + KILL_TIMEOUT).then(|| self.request.roots.clone())
    }

    /// Notes that a process gets its first signal, and its name, because it may have ended later.
    fn note(&mut self, process: &Process, label: String) {
        if self.asked.insert(key(process)) {
            self.signalled.push(label);
        }
    }

    /// Signals the whole group at once, so that no member reacts to the end of another.
    fn signal_group(&self, signals: &[Signal]) {
        let leader = self.request.tree.group.and_then(|group| pid(group.leader));
        for signal in signals {
            // Its last process may have ended a moment ago.
            let _ = leader.map(|leader| kill_process_group(leader, *signal));
        }
    }

    /// Returns whether a process is in the group now, so that a signal to the group has reached it.
    fn is_in_group(&self, process: u32) -> bool {
        let group = self.request.tree.group.map(|group| group.leader);
        group.is_some() && proc_fs::alive(process).map(|now| now.group) == group
    }
}

fn key(process: &Process) -> (u32, u64) {
    (process.pid, process.started)
}

#[cfg(test)]
mod tests;

//! Ends trees of processes on a thread of its own: asks them, gives them their grace, kills what is
//! left, and tells when nothing is.
//!
//! However many trees have to end, each look at the system's processes serves all of them. A tree's
//! main process must not be reaped before it has been told gone: until then its number is its own.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process_group};
use windlass_store::Tree;

use crate::attempt::pid;
use crate::files;
use crate::mailbox::{Mailbox, Sender, mailbox};
use crate::poll::poll;
use crate::processes::Job;
use crate::tree::{self, PATIENCE, Process, Reach, Wanted};

/// A tree that has to end.
pub(crate) struct Condemned {
    /// Whose it is.
    pub(crate) job: Job,
    pub(crate) tree: Tree,
    /// Processes that are known to belong to it, with all that they have started.
    pub(crate) roots: Vec<Process>,
    pub(crate) mercy: Mercy,
}

/// How a tree is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mercy {
    /// It is asked, and has this long.
    Grace(Duration),
    /// It is killed.
    None,
}

/// What has become of a tree.
#[derive(Debug)]
pub(crate) struct Gone {
    pub(crate) job: Job,
    /// The processes that could not be ended.
    pub(crate) left: Vec<u32>,
}

/// Ends trees until it is dropped.
pub(crate) struct Ender {
    orders: Sender<Order>,
    thread: Option<thread::JoinHandle<()>>,
}

enum Order {
    End(Condemned),
    /// Without any further mercy.
    Kill(Job),
    Stop,
}

impl Ender {
    /// `tell` hears of every tree once.
    pub(crate) fn start(tell: impl Fn(Gone) + Send + 'static) -> io::Result<Self> {
        let (orders, taken) = mailbox()?;
        let ending = move || Ending { trees: BTreeMap::new(), tell }.run(&taken);
        let thread = thread::Builder::new().spawn(ending)?;
        Ok(Self { orders, thread: Some(thread) })
    }

    pub(crate) fn end(&self, condemned: Condemned) {
        self.order(Order::End(condemned));
    }

    /// Kills a tree that was only asked so far.
    pub(crate) fn kill(&self, job: Job) {
        self.order(Order::Kill(job));
    }

    fn order(&self, order: Order) {
        // The thread lives until it is told to stop, unless a bug has ended it, which was reported.
        let _ = self.orders.send(order);
    }
}

impl Drop for Ender {
    fn drop(&mut self) {
        self.order(Order::Stop);
        if let Some(thread) = self.thread.take() {
            // It can only panic by a bug, which has been reported then.
            let _ = thread.join();
        }
    }
}

/// What the thread knows.
struct Ending<T> {
    trees: BTreeMap<Job, Dying>,
    tell: T,
}

struct Dying {
    condemned: Condemned,
    /// When mercy ends.
    kill_at: Instant,
    /// Who was asked already; nobody is asked twice.
    asked: BTreeSet<(u32, u64)>,
    /// Those that were there at the last look, to see them go.
    watched: Vec<OwnedFd>,
}

impl<T: Fn(Gone)> Ending<T> {
    fn run(mut self, orders: &Mailbox<Order>) {
        loop {
            for order in orders.take() {
                match order {
                    Order::End(condemned) => {
                        self.trees.insert(condemned.job, Dying::new(condemned));
                    }
                    Order::Kill(job) => {
                        if let Some(dying) = self.trees.get_mut(&job) {
                            dying.kill_at = dying.kill_at.min(Instant::now());
                        }
                    }
                    Order::Stop => return,
                }
            }
            self.look();
            self.wait(orders);
        }
    }

    /// Looks at all processes once, and does what has to be done about each tree.
    fn look(&mut self) {
        if self.trees.is_empty() {
            return;
        }
        let wanted: Vec<_> = self.trees.values().map(|dying| dying.condemned.wanted()).collect();
        let found = tree::members(&wanted);
        let jobs: Vec<_> = self.trees.keys().copied().collect();
        for (place, job) in jobs.into_iter().enumerate() {
            let dying = self.trees.get_mut(&job).expect("it is one of them");
            let over = match &found {
                Ok(found) => dying.press(&found[place]),
                Err(_) => dying.press_unseen(),
            };
            if let Some(left) = over {
                self.trees.remove(&job);
                (self.tell)(Gone { job, left });
            }
        }
    }

    /// Waits until all that was seen of a tree is gone, or its mercy ends, or there are orders.
    fn wait(&mut self, orders: &Mailbox<Order>) {
        loop {
            let now = Instant::now();
            if self.trees.values().any(|dying| dying.watched.is_empty()) {
                // Where not even handles can be had, others have to end first.
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

impl Condemned {
    fn wanted(&self) -> Wanted<'_> {
        Wanted { tree: &self.tree, roots: &self.roots }
    }
}

impl Dying {
    fn new(condemned: Condemned) -> Self {
        let now = Instant::now();
        let kill_at = match condemned.mercy {
            // Longer than anybody waits, where it cannot be told.
            Mercy::Grace(grace) => {
                now.checked_add(grace).unwrap_or(now + Duration::from_secs(1 << 32))
            }
            Mercy::None => now,
        };
        Self { condemned, kill_at, asked: BTreeSet::new(), watched: Vec::new() }
    }

    /// When there is something to do next, whatever happens.
    fn next(&self, now: Instant) -> Instant {
        if now < self.kill_at { self.kill_at } else { self.kill_at + PATIENCE }
    }

    /// Asks or kills whoever is there. When nothing more can be done: who is left.
    fn press(&mut self, members: &[Process]) -> Option<Vec<u32>> {
        let now = Instant::now();
        let killing = now >= self.kill_at;
        // One that is stopped hears nothing before it goes on.
        let signals: &[Signal] =
            if killing { &[Signal::KILL] } else { &[Signal::TERM, Signal::CONT] };
        if killing || self.asked.is_empty() {
            self.signal_group(signals);
        }
        let mut out_of_reach = 0;
        self.watched.clear();
        for process in members {
            let first = self.asked.insert((process.pid, process.started));
            let told = !killing && (!first || self.is_in_group(process.pid));
            match tree::signal(process, if told { &[] } else { signals }) {
                Ok(Reach::In(handle)) => self.watched.extend(files::to_keep(handle)),
                Ok(Reach::Out(handle)) => {
                    self.watched.extend(files::to_keep(handle));
                    out_of_reach += 1;
                }
                // It has ended meanwhile, so another look is due.
                Err(_) => {}
            }
        }
        let in_vain = out_of_reach == members.len() || now > self.kill_at + PATIENCE;
        let over = members.is_empty() || (killing && in_vain);
        over.then(|| members.iter().map(|process| process.pid).collect())
    }

    /// Does what can be done while the processes cannot be listed. When that has lasted too long: who may
    /// be left.
    fn press_unseen(&mut self) -> Option<Vec<u32>> {
        self.watched.clear();
        let now = Instant::now();
        if now >= self.kill_at {
            self.signal_group(&[Signal::KILL]);
        }
        let known = self.condemned.roots.iter().map(|process| process.pid);
        (now > self.kill_at + PATIENCE).then(|| known.collect())
    }

    /// The whole group at once, so that none of it acts on the end of another.
    fn signal_group(&self, signals: &[Signal]) {
        let leader = self.condemned.tree.group.and_then(|group| pid(group.leader));
        for signal in signals {
            // Its last process may have ended a moment ago.
            let _ = leader.map(|leader| kill_process_group(leader, *signal));
        }
    }

    /// Whether it is in the group now, so that a signal to the group a moment ago has reached it.
    fn is_in_group(&self, process: u32) -> bool {
        let group = self.condemned.tree.group.map(|group| group.leader);
        group.is_some() && tree::look(process).map(|now| now.group) == group
    }
}

#[cfg(test)]
mod tests;

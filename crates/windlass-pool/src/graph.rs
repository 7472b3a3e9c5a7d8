//! Runs a closure for each node of a graph, each node after its predecessors.
//!
//! *Participants* run nodes. A participant that has run a node counts down its successors. Of those
//! that are now ready it runs one itself, and pushes the others to its deque, from which other
//! participants steal. So a chain is a loop, and a wide graph keeps all workers busy. Nodes without
//! predecessors, the *roots*, are taken from the graph's own list, a batch at a time.
//!
//! Participants are tasks of a scope. While there are ready nodes, a search for them is pending
//! (`pending_search.rs`): either a participant searches, or a task that will become one is queued in
//! the pool, for the next idle worker. A participant that finds no node for a while ends. No thread
//! ever waits for a node.
//!
//! A panic cancels the scope, and a cancelled scope starts no node. Knows nothing of limits, retries
//! or results.

use std::{
    iter, mem, panic,
    sync::{
        Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
        atomic::{
            AtomicU32, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed},
        },
    },
    time::{Duration, Instant},
};

use crossbeam_deque::{Stealer, Worker as Deque};

use crate::{
    checkpoint::CancelUnwind, dag::Dag, error::Cancelled, node, pending_search::PendingSearch,
    pool::Pool, scheduler::Scheduler, scope::Scope, worker,
};

/// How long one batch of roots should keep a participant busy.
const TARGET_BATCH_TIME: Duration = Duration::from_micros(20);
/// How many roots a batch has at most.
const MAX_BATCH: usize = 256;

/// The ready nodes of one participant.
type NodeDeque = Deque<u32>;

/// Calls `body` with each node of `dag`, each after its predecessors, on as many workers as are idle.
///
/// Runs on the calling worker's scheduler; on other threads, on the [global](Scheduler::global) one.
/// The body may borrow, open scopes and run graphs. What the body of a node has written is visible
/// to the bodies of its successors. After a panic no other node starts, and the panic continues in
/// the caller when no node runs any more.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use windlass_pool::{DagBuilder, run_graph};
///
/// // 1 and 2 depend on 0; 3 depends on both.
/// let mut builder = DagBuilder::with_nodes(4);
/// for (before, after) in [(0, 1), (0, 2), (1, 3), (2, 3)] {
///     builder.add_edge(before, after);
/// }
/// let dag = builder.build()?;
///
/// let paths: [AtomicU64; 4] = Default::default();
/// paths[0].store(1, Relaxed);
/// run_graph(&dag, |node| {
///     let paths_here = paths[node].load(Relaxed);
///     for next in dag.successors(node) {
///         paths[next].fetch_add(paths_here, Relaxed);
///     }
/// })?;
/// assert_eq!(paths[3].load(Relaxed), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`Cancelled`] if an enclosing scope or task was cancelled, or a deadline passed, before every node
/// had run.
pub fn run_graph(dag: &Dag, body: impl Fn(usize) + Sync) -> Result<(), Cancelled> {
    worker::with(|worker| match worker {
        Some(worker) => run(worker.pool(), dag, &body),
        None => run(Scheduler::global().pool(), dag, &body),
    })
}

fn run<F: Fn(usize) + Sync>(pool: &Pool, dag: &Dag, body: &F) -> Result<(), Cancelled> {
    if dag.is_empty() {
        return Ok(());
    }
    let run = GraphRun::new(dag, body);
    let ended = node::open(pool, |scope| {
        if worker::with(|worker| worker.is_some_and(|worker| worker.belongs_to(pool))) {
            run.participate(scope);
        } else {
            run.spawn_participant(scope);
        }
    });
    match ended {
        Err(payload) if !payload.is::<CancelUnwind>() => panic::resume_unwind(payload),
        // Relaxed: each participant added its count before its task ended, and the scope has waited
        // for all of them.
        _ if run.nodes_run.load(Relaxed) == dag.len() => Ok(()),
        _ => Err(Cancelled),
    }
}

/// One run of a graph: what the participants share.
struct GraphRun<'run, F> {
    dag: &'run Dag,
    body: &'run F,
    /// How many predecessors of each node have not run.
    pending_predecessors: Box<[AtomicU32]>,
    /// The first root that no participant has taken.
    next_root: AtomicUsize,
    /// The stealers of all deques.
    stealers: RwLock<Vec<Stealer<u32>>>,
    /// The deques of participants that have ended, for later ones.
    unused_deques: Mutex<Vec<NodeDeque>>,
    search: PendingSearch,
    /// How many participants run nodes: only they can add ready nodes.
    busy_count: AtomicUsize,
    /// How many nodes the participants that have ended have run.
    nodes_run: AtomicUsize,
}

impl<'run, F: Fn(usize) + Sync> GraphRun<'run, F> {
    fn new(dag: &'run Dag, body: &'run F) -> Self {
        let in_degrees = dag.in_degrees().iter();
        Self {
            dag,
            body,
            pending_predecessors: in_degrees.map(|&count| AtomicU32::new(count)).collect(),
            next_root: AtomicUsize::new(0),
            stealers: RwLock::default(),
            unused_deques: Mutex::default(),
            search: PendingSearch::started(),
            busy_count: AtomicUsize::new(0),
            nodes_run: AtomicUsize::new(0),
        }
    }

    /// Spawns a participant, for which the caller has marked a search as active.
    fn spawn_participant<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>) {
        scope.spawn_below_root(|| self.participate(scope));
    }

    /// Starts a search, after nodes were added to a deque, unless one is pending.
    #[inline]
    fn notify<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>) {
        if self.search.request() {
            self.spawn_participant(scope);
        }
    }

    /// Searches for nodes and runs them until it finds none. The caller has marked a search as
    /// active.
    fn participate<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>) {
        let cancel = CancelOnDrop(scope);
        let mut participant = Participant::new(self, scope);
        loop {
            let found = participant.search();
            self.search.finish();
            if self.has_more() {
                self.notify(scope);
            }
            let Some(node) = found else { break };
            participant.run_nodes(node);
            if !self.search.try_start() {
                break;
            }
        }
        participant.end();
        mem::forget(cancel);
    }

    /// Returns whether there are ready nodes that a participant could take.
    fn has_more(&self) -> bool {
        self.has_roots() || self.stealers().iter().any(|deque| !deque.is_empty())
    }

    fn has_roots(&self) -> bool {
        // Relaxed: the list of roots does not change.
        self.next_root.load(Relaxed) < self.dag.roots().len()
    }

    /// Takes the next `count` roots, or as many as are left.
    fn take_roots(&self, count: usize) -> &'run [u32] {
        let roots = self.dag.roots();
        // Relaxed: as above.
        let from = self.next_root.fetch_add(count, Relaxed).min(roots.len());
        &roots[from..(from + count).min(roots.len())]
    }

    fn stealers(&self) -> RwLockReadGuard<'_, Vec<Stealer<u32>>> {
        self.stealers.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn unused_deques(&self) -> MutexGuard<'_, Vec<NodeDeque>> {
        self.unused_deques.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a deque and makes it available to thieves.
    fn new_deque(&self) -> NodeDeque {
        let deque = NodeDeque::new_lifo();
        self.stealers.write().unwrap_or_else(PoisonError::into_inner).push(deque.stealer());
        deque
    }

    /// Records that a predecessor of `node` has run. Returns whether it was the last.
    #[inline]
    fn count_down(&self, node: u32) -> bool {
        let pending = &self.pending_predecessors[node as usize];
        // AcqRel and Acquire pair with the AcqRel of the other predecessors: the last one has seen
        // what all others wrote. A thread that reads 1 runs the last predecessor, and need not write.
        pending.load(Acquire) == 1 || pending.fetch_sub(1, AcqRel) == 1
    }
}

/// A task that runs nodes, with its deque.
struct Participant<'scope, 'env, F> {
    run: &'env GraphRun<'env, F>,
    scope: &'scope Scope<'scope, 'env>,
    deque: NodeDeque,
    /// How many roots it takes next.
    batch_size: usize,
    /// When it took roots last.
    batch_taken_at: Option<Instant>,
    /// How many nodes it has run.
    nodes_run: usize,
}

impl<'scope, 'env, F: Fn(usize) + Sync> Participant<'scope, 'env, F> {
    fn new(run: &'env GraphRun<'env, F>, scope: &'scope Scope<'scope, 'env>) -> Self {
        let unused = run.unused_deques().pop();
        let deque = unused.unwrap_or_else(|| run.new_deque());
        Self { run, scope, deque, batch_size: 1, batch_taken_at: None, nodes_run: 0 }
    }

    /// Searches for a node. While others run nodes, searches repeatedly, as often as the spin count
    /// says.
    fn search(&mut self) -> Option<u32> {
        let pool = self.scope.pool();
        for round in 0..=pool.config.spin_count {
            if self.scope.is_cancelled() {
                return None;
            }
            if let Some(node) = self.find() {
                // Relaxed: a hint for other participants that search.
                self.run.busy_count.fetch_add(1, Relaxed);
                return Some(node);
            }
            if self.run.busy_count.load(Relaxed) == 0
                || worker::with(|own| pool.queues.has_tasks(own))
            {
                return None;
            }
            worker::pause(round);
        }
        None
    }

    /// Runs `node`, and then further nodes until it finds none.
    fn run_nodes(&mut self, node: u32) {
        let mut next = Some(node);
        while let Some(node) = next
            && !self.scope.is_cancelled()
        {
            (self.run.body)(node as usize);
            self.nodes_run += 1;
            next = self.finish_node(node as usize).or_else(|| self.find());
        }
        // Relaxed: a hint, as in `search`.
        self.run.busy_count.fetch_sub(1, Relaxed);
    }

    /// Counts down the successors of `node`, which has run. Returns the first that is ready, and
    /// pushes the others to the deque.
    #[inline]
    fn finish_node(&mut self, node: usize) -> Option<u32> {
        let successors = self.run.dag.successors_of(node).iter();
        let mut ready = successors.copied().filter(|&successor| self.run.count_down(successor));
        let first = ready.next();
        let mut others = ready.peekable();
        if others.peek().is_some() {
            others.for_each(|other| self.deque.push(other));
            self.run.notify(self.scope);
        }
        first
    }

    #[inline]
    fn find(&mut self) -> Option<u32> {
        self.deque.pop().or_else(|| self.take_roots()).or_else(|| self.steal())
    }

    /// Takes a batch of roots. Returns the first, and pushes the others to the deque.
    fn take_roots(&mut self) -> Option<u32> {
        // Checked every time, so that `next_root` does not grow without bound.
        if !self.run.has_roots() {
            return None;
        }
        self.adjust_batch_size();
        let (first, others) = self.run.take_roots(self.batch_size).split_first()?;
        if !others.is_empty() {
            // The deque is last-in, first-out: the first root is popped first.
            others.iter().rev().for_each(|&other| self.deque.push(other));
            self.run.notify(self.scope);
        }
        Some(*first)
    }

    fn adjust_batch_size(&mut self) {
        let now = Instant::now();
        let before = self.batch_taken_at.replace(now);
        self.batch_size = match before.map(|before| now - before) {
            Some(short) if short < TARGET_BATCH_TIME / 2 => (self.batch_size * 2).min(MAX_BATCH),
            Some(long) if long > TARGET_BATCH_TIME * 2 => (self.batch_size / 2).max(1),
            _ => self.batch_size,
        };
    }

    /// Steals a node from another deque, and usually moves some more to its own.
    fn steal(&self) -> Option<u32> {
        let stolen = self.run.stealers().iter().find_map(|deque| {
            let mut tries = iter::repeat_with(|| deque.steal_batch_and_pop(&self.deque));
            tries.find(|stolen| !stolen.is_retry())?.success()
        });
        if stolen.is_some() && !self.deque.is_empty() {
            // While they were moved, no other participant could see them.
            self.run.notify(self.scope);
        }
        stolen
    }

    /// Ends the participant. One that panics does not get here, and cancels the run instead.
    fn end(self) {
        // Relaxed: read after the scope has waited for this task.
        self.run.nodes_run.fetch_add(self.nodes_run, Relaxed);
        self.run.unused_deques().push(self.deque);
    }
}

/// Cancels the scope when it is dropped.
struct CancelOnDrop<'a, 'scope, 'env>(&'a Scope<'scope, 'env>);

impl Drop for CancelOnDrop<'_, '_, '_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

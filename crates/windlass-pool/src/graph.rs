//! Runs one body for each node of a graph that stands still, each after those it follows.
//!
//! Whoever runs a node counts down those that follow it; of those that are free then it keeps one
//! for itself, and puts the others into its *deque*, a queue from which other participants steal.
//! So a chain is a loop, and a wide graph keeps everybody busy_count. Nodes that follow nothing are dealt
//! out from the graph's own list, a few at a time.
//!
//! Participants are tasks of a scope. There are as many as find something: while something is in a
//! deque, somebody is invited to look (`invitation.rs`), which is one more task in the pool's queues,
//! for the next worker that has nothing to do; one who finds nothing leaves after a while. Nobody
//! ever waits for a node.
//!
//! A panic cancels the scope, and a cancelled scope begins no node. It orders, nothing else: no
//! limits, no retries, no results.

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

/// How long the roots that are dealt out at a time should keep a participant busy_count.
const TARGET_BATCH_TIME: Duration = Duration::from_micros(20);
/// How many are dealt out at most.
const MAX_BATCH: usize = 256;

/// Nodes that are free to run, for their owner from one end and for thieves from the other.
type NodeDeque = Deque<u32>;

/// Calls `body` with each node of `dag`, each after all those it follows, on as many workers as
/// find something to do.
///
/// Runs on the calling worker's scheduler, elsewhere on the [global](Scheduler::global) one. The
/// body may borrow, open scopes, and run graphs. A panic in it goes on in the caller, once no other
/// node runs any more; nothing is begun meanwhile.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
/// use windlass_pool::{DagBuilder, run_graph};
///
/// // 1 and 2 follow 0; 3 follows both.
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
/// [`Cancelled`] if something around it was cancelled, or a deadline has passed, before every node
/// has run.
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
        // A participant adds up what it has nodes_run before its task ends, and the scope is over.
        _ if run.nodes_run.load(Relaxed) == dag.len() => Ok(()),
        _ => Err(Cancelled),
    }
}

/// What the participants share.
struct GraphRun<'run, F> {
    dag: &'run Dag,
    body: &'run F,
    /// How many of those that each node follows have yet to run.
    pending_predecessors: Box<[AtomicU32]>,
    /// The first root that has not been dealt out.
    next_root: AtomicUsize,
    /// What can be stolen from.
    stealers: RwLock<Vec<Stealer<u32>>>,
    /// Lanes that nobody uses.
    unused_deques: Mutex<Vec<NodeDeque>>,
    search: PendingSearch,
    /// How many participants are not looking: only they can put something into a deque.
    busy_count: AtomicUsize,
    /// How many nodes participants that have left have run.
    nodes_run: AtomicUsize,
}

impl<'run, F: Fn(usize) + Sync> GraphRun<'run, F> {
    fn new(dag: &'run Dag, body: &'run F) -> Self {
        Self {
            dag,
            body,
            pending_predecessors: dag
                .in_degrees()
                .iter()
                .map(|&count| AtomicU32::new(count))
                .collect(),
            next_root: AtomicUsize::new(0),
            stealers: RwLock::default(),
            unused_deques: Mutex::default(),
            search: PendingSearch::started(),
            busy_count: AtomicUsize::new(0),
            nodes_run: AtomicUsize::new(0),
        }
    }

    /// Has somebody look as soon as a worker has nothing else to do. The invitation is open.
    fn spawn_participant<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>) {
        scope.spawn_below_root(|| self.participate(scope));
    }

    /// Something was put where others find it.
    #[inline]
    fn notify<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>) {
        if self.search.request() {
            self.spawn_participant(scope);
        }
    }

    /// Looks for nodes and runs them until there are none to be found; the invitation is the
    /// caller's.
    fn participate<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>) {
        let unless_it_panics = Cancel(scope);
        let mut participant = Participant::take(self, scope);
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
        participant.leave();
        mem::forget(unless_it_panics);
    }

    /// Whether there is something for one who looks.
    fn has_more(&self) -> bool {
        self.has_roots() || self.stealers().iter().any(|deque| !deque.is_empty())
    }

    fn has_roots(&self) -> bool {
        // Relaxed: the roots were there before the run.
        self.next_root.load(Relaxed) < self.dag.roots().len()
    }

    /// The next `count` roots.
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

    /// A deque that has just been made can be stolen from at once.
    fn new_deque(&self) -> NodeDeque {
        let deque = NodeDeque::new_lifo();
        self.stealers.write().unwrap_or_else(PoisonError::into_inner).push(deque.stealer());
        deque
    }

    /// One of those that `node` follows has run; true if it was the last.
    #[inline]
    fn count_down(&self, node: u32) -> bool {
        let pending_predecessors = &self.pending_predecessors[node as usize];
        // Acquire and Release pair with each other: the last one has seen what all before it did.
        // Who finds one left is that one, and need not write.
        pending_predecessors.load(Acquire) == 1 || pending_predecessors.fetch_sub(1, AcqRel) == 1
    }
}

/// A participant with its deque.
struct Participant<'scope, 'env, F> {
    run: &'env GraphRun<'env, F>,
    scope: &'scope Scope<'scope, 'env>,
    deque: NodeDeque,
    /// How many roots it is dealt next, and when it was dealt some last.
    batch_size: usize,
    batch_taken_at: Option<Instant>,
    /// How many nodes it has run.
    nodes_run: usize,
}

impl<'scope, 'env, F: Fn(usize) + Sync> Participant<'scope, 'env, F> {
    fn take(run: &'env GraphRun<'env, F>, scope: &'scope Scope<'scope, 'env>) -> Self {
        let free = run.unused_deques().pop();
        let deque = free.unwrap_or_else(|| run.new_deque());
        Self { run, scope, deque, batch_size: 1, batch_taken_at: None, nodes_run: 0 }
    }

    /// A node for one who has none. Waits a little for those who may bring some.
    fn search(&mut self) -> Option<u32> {
        let pool = self.scope.pool();
        for round in 0..=pool.config.spin_count {
            if self.scope.is_cancelled() {
                return None;
            }
            if let Some(node) = self.find() {
                // Relaxed: a hint for those who look after this one.
                self.run.busy_count.fetch_add(1, Relaxed);
                return Some(node);
            }
            if self.run.busy_count.load(Relaxed) == 0 || worker::with(|own| pool.has_queued(own)) {
                return None;
            }
            worker::pause(round);
        }
        None
    }

    /// Runs `node`, and then whatever it can find.
    fn run_nodes(&mut self, node: u32) {
        let mut next = Some(node);
        while let Some(node) = next
            && !self.scope.is_cancelled()
        {
            (self.run.body)(node as usize);
            self.nodes_run += 1;
            next = self.finish_node(node as usize).or_else(|| self.find());
        }
        self.run.busy_count.fetch_sub(1, Relaxed);
    }

    /// Counts down those that follow `node`. Keeps the first that is free, and leaves the others for
    /// everybody.
    #[inline]
    fn finish_node(&mut self, node: usize) -> Option<u32> {
        let successors = self.run.dag.successors_of(node).iter();
        let mut free = successors.copied().filter(|&successor| self.run.count_down(successor));
        let first = free.next();
        let mut others = free.peekable();
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

    /// Takes the next few roots, the first to run and the others into the deque.
    fn take_roots(&mut self) -> Option<u32> {
        // Asked every time, so that the count of those dealt does not grow without bounds.
        if !self.run.has_roots() {
            return None;
        }
        self.adjust_batch_size();
        let (first, others) = self.run.take_roots(self.batch_size).split_first()?;
        if !others.is_empty() {
            // The first of them comes out first.
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

    /// Takes a node from another deque, and usually some more into its own.
    fn steal(&self) -> Option<u32> {
        let stolen = self.run.stealers().iter().find_map(|deque| {
            let mut tries = iter::repeat_with(|| deque.steal_batch_and_pop(&self.deque));
            tries.find(|stolen| !stolen.is_retry())?.success()
        });
        if stolen.is_some() && !self.deque.is_empty() {
            // On their way from deque to deque nobody could see them.
            self.run.notify(self.scope);
        }
        stolen
    }

    /// One that does not leave like this has panicked, and the run is cancelled.
    fn leave(self) {
        self.run.nodes_run.fetch_add(self.nodes_run, Relaxed);
        self.run.unused_deques().push(self.deque);
    }
}

/// Cancels the scope when it is dropped.
struct Cancel<'a, 'scope, 'env>(&'a Scope<'scope, 'env>);

impl Drop for Cancel<'_, '_, '_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

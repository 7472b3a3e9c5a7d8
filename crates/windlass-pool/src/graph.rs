//! Runs one body for each node of a graph that stands still, each after those it follows.
//!
//! Whoever runs a node counts down those that follow it; of those that are free then it keeps one
//! for itself, and puts the others into its *lane*, a queue from which other participants steal.
//! So a chain is a loop, and a wide graph keeps everybody busy. Nodes that follow nothing are dealt
//! out from the graph's own list, a few at a time.
//!
//! Participants are tasks of a scope. There are as many as find something: while something is in a
//! lane, somebody is invited to look (`invitation.rs`), which is one more task in the pool's queues,
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
    checkpoint::CancelUnwind, dag::Dag, error::Cancelled, invitation::Invitation, node, pool::Pool,
    scheduler::Scheduler, scope::Scope, worker,
};

/// How long the roots that are dealt out at a time should keep a participant busy.
const DEAL: Duration = Duration::from_micros(20);
/// How many are dealt out at most.
const MAX_PORTION: usize = 256;

/// Nodes that are free to run, for their owner from one end and for thieves from the other.
type Lane = Deque<u32>;

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
///     for next in dag.followers(node) {
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
    let run = Run::new(dag, body);
    let ended = node::open(pool, |scope| {
        if worker::with(|worker| worker.is_some_and(|worker| worker.serves(pool))) {
            run.participate(scope);
        } else {
            run.invite(scope);
        }
    });
    match ended {
        Err(payload) if !payload.is::<CancelUnwind>() => panic::resume_unwind(payload),
        // A participant adds up what it has done before its task ends, and the scope is over.
        _ if run.done.load(Relaxed) == dag.len() => Ok(()),
        _ => Err(Cancelled),
    }
}

/// What the participants share.
struct Run<'run, F> {
    dag: &'run Dag,
    body: &'run F,
    /// How many of those that each node follows have yet to run.
    unmet: Box<[AtomicU32]>,
    /// The first root that has not been dealt out.
    next_root: AtomicUsize,
    /// What can be stolen from.
    lanes: RwLock<Vec<Stealer<u32>>>,
    /// Lanes that nobody uses.
    free_lanes: Mutex<Vec<Lane>>,
    invitation: Invitation,
    /// How many participants are not looking: only they can put something into a lane.
    busy: AtomicUsize,
    /// How many nodes participants that have left have run.
    done: AtomicUsize,
}

impl<'run, F: Fn(usize) + Sync> Run<'run, F> {
    fn new(dag: &'run Dag, body: &'run F) -> Self {
        Self {
            dag,
            body,
            unmet: dag.sources().iter().map(|&count| AtomicU32::new(count)).collect(),
            next_root: AtomicUsize::new(0),
            lanes: RwLock::default(),
            free_lanes: Mutex::default(),
            invitation: Invitation::open(),
            busy: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
        }
    }

    /// Has somebody look as soon as a worker has nothing else to do. The invitation is open.
    fn invite<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>) {
        scope.spawn_below_root(|| self.participate(scope));
    }

    /// Something was put where others find it.
    #[inline]
    fn tell<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>) {
        if self.invitation.is_due() {
            self.invite(scope);
        }
    }

    /// Looks for nodes and runs them until there are none to be found; the invitation is the
    /// caller's.
    fn participate<'scope, 'env>(&'env self, scope: &'scope Scope<'scope, 'env>) {
        let unless_it_panics = Cancel(scope);
        let mut seat = Seat::take(self, scope);
        loop {
            let found = seat.look();
            self.invitation.close();
            if self.has_more() {
                self.tell(scope);
            }
            let Some(node) = found else { break };
            seat.work(node);
            if !self.invitation.reopen() {
                break;
            }
        }
        seat.leave();
        mem::forget(unless_it_panics);
    }

    /// Whether there is something for one who looks.
    fn has_more(&self) -> bool {
        self.has_roots() || self.lanes().iter().any(|lane| !lane.is_empty())
    }

    fn has_roots(&self) -> bool {
        // Relaxed: the roots were there before the run.
        self.next_root.load(Relaxed) < self.dag.roots().len()
    }

    /// The next `count` roots.
    fn deal(&self, count: usize) -> &'run [u32] {
        let roots = self.dag.roots();
        // Relaxed: as above.
        let from = self.next_root.fetch_add(count, Relaxed).min(roots.len());
        &roots[from..(from + count).min(roots.len())]
    }

    fn lanes(&self) -> RwLockReadGuard<'_, Vec<Stealer<u32>>> {
        self.lanes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn free_lanes(&self) -> MutexGuard<'_, Vec<Lane>> {
        self.free_lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lane that has just been made can be stolen from at once.
    fn make_lane(&self) -> Lane {
        let lane = Lane::new_lifo();
        self.lanes.write().unwrap_or_else(PoisonError::into_inner).push(lane.stealer());
        lane
    }

    /// One of those that `node` follows has run; true if it was the last.
    #[inline]
    fn count_down(&self, node: u32) -> bool {
        let unmet = &self.unmet[node as usize];
        // Acquire and Release pair with each other: the last one has seen what all before it did.
        // Who finds one left is that one, and need not write.
        unmet.load(Acquire) == 1 || unmet.fetch_sub(1, AcqRel) == 1
    }
}

/// A participant with its lane.
struct Seat<'scope, 'env, F> {
    run: &'env Run<'env, F>,
    scope: &'scope Scope<'scope, 'env>,
    lane: Lane,
    /// How many roots it is dealt next, and when it was dealt some last.
    portion: usize,
    dealt_at: Option<Instant>,
    /// How many nodes it has run.
    done: usize,
}

impl<'scope, 'env, F: Fn(usize) + Sync> Seat<'scope, 'env, F> {
    fn take(run: &'env Run<'env, F>, scope: &'scope Scope<'scope, 'env>) -> Self {
        let free = run.free_lanes().pop();
        let lane = free.unwrap_or_else(|| run.make_lane());
        Self { run, scope, lane, portion: 1, dealt_at: None, done: 0 }
    }

    /// A node for one who has none. Waits a little for those who may bring some.
    fn look(&mut self) -> Option<u32> {
        let pool = self.scope.pool();
        for round in 0..=pool.config.spin_count {
            if self.scope.is_cancelled() {
                return None;
            }
            if let Some(node) = self.find() {
                // Relaxed: a hint for those who look after this one.
                self.run.busy.fetch_add(1, Relaxed);
                return Some(node);
            }
            if self.run.busy.load(Relaxed) == 0 || worker::with(|own| pool.has_queued(own)) {
                return None;
            }
            worker::pause(round);
        }
        None
    }

    /// Runs `node`, and then whatever it can find.
    fn work(&mut self, node: u32) {
        let mut next = Some(node);
        while let Some(node) = next
            && !self.scope.is_cancelled()
        {
            (self.run.body)(node as usize);
            self.done += 1;
            next = self.release(node as usize).or_else(|| self.find());
        }
        self.run.busy.fetch_sub(1, Relaxed);
    }

    /// Counts down those that follow `node`. Keeps the first that is free, and leaves the others for
    /// everybody.
    #[inline]
    fn release(&mut self, node: usize) -> Option<u32> {
        let followers = self.run.dag.targets_of(node).iter();
        let mut free = followers.copied().filter(|&follower| self.run.count_down(follower));
        let first = free.next();
        let mut others = free.peekable();
        if others.peek().is_some() {
            others.for_each(|other| self.lane.push(other));
            self.run.tell(self.scope);
        }
        first
    }

    #[inline]
    fn find(&mut self) -> Option<u32> {
        self.lane.pop().or_else(|| self.deal()).or_else(|| self.steal())
    }

    /// Takes the next few roots, the first to run and the others into the lane.
    fn deal(&mut self) -> Option<u32> {
        // Asked every time, so that the count of those dealt does not grow without bounds.
        if !self.run.has_roots() {
            return None;
        }
        self.adjust_portion();
        let (first, others) = self.run.deal(self.portion).split_first()?;
        if !others.is_empty() {
            // The first of them comes out first.
            others.iter().rev().for_each(|&other| self.lane.push(other));
            self.run.tell(self.scope);
        }
        Some(*first)
    }

    fn adjust_portion(&mut self) {
        let now = Instant::now();
        let before = self.dealt_at.replace(now);
        self.portion = match before.map(|before| now - before) {
            Some(short) if short < DEAL / 2 => (self.portion * 2).min(MAX_PORTION),
            Some(long) if long > DEAL * 2 => (self.portion / 2).max(1),
            _ => self.portion,
        };
    }

    /// Takes a node from another lane, and usually some more into its own.
    fn steal(&self) -> Option<u32> {
        let stolen = self.run.lanes().iter().find_map(|lane| {
            let mut tries = iter::repeat_with(|| lane.steal_batch_and_pop(&self.lane));
            tries.find(|stolen| !stolen.is_retry())?.success()
        });
        if stolen.is_some() && !self.lane.is_empty() {
            // On their way from lane to lane nobody could see them.
            self.run.tell(self.scope);
        }
        stolen
    }

    /// One that does not leave like this has panicked, and the run is cancelled.
    fn leave(self) {
        self.run.done.fetch_add(self.done, Relaxed);
        self.run.free_lanes().push(self.lane);
    }
}

/// Cancels the scope when it is dropped.
struct Cancel<'a, 'scope, 'env>(&'a Scope<'scope, 'env>);

impl Drop for Cancel<'_, '_, '_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

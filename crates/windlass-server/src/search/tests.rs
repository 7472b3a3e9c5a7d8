//! Searches on a simulated machine with few pids, whose processes start and end between any two reads.

use std::cell::RefCell;
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::process_tag;

/// The first process, which has always run.
const INIT: u32 = 1;

/// A simulated machine.
struct Machine {
    inner: RefCell<Inner>,
}

struct Inner {
    /// How many pids there are.
    pids: u32,
    alive: BTreeMap<u32, Simulated>,
    /// What happens next, last first.
    steps: Vec<Step>,
    last_pid: u32,
    clock: u64,
    /// The processes that have ever run.
    known: BTreeSet<Identity>,
    /// Those that have ever belonged to the tree.
    of_tree: BTreeSet<Identity>,
}

#[derive(Clone, Copy)]
struct Simulated {
    process: Process,
    tagged: bool,
}

/// What happens to the process in the place that is given, counted from the lowest pid.
#[derive(Clone, Copy, Debug)]
enum Step {
    Nothing,
    Fork(usize),
    /// It starts a process that has cleared its tag.
    ForkUntagged(usize),
    End(usize),
    /// It ends, and another one starts a process that gets its pid.
    Replace(usize, usize),
    /// A process of the tree starts another and ends.
    Hop,
}

impl Machine {
    /// Returns a machine on which one process of a tree and one that is in no tree run.
    fn new(pids: u32, steps: Vec<Step>) -> Self {
        let alive = BTreeMap::new();
        let (known, of_tree) = (BTreeSet::new(), BTreeSet::new());
        let (last_pid, clock) = (INIT, 0);
        let mut inner = Inner { pids, alive, steps, last_pid, clock, known, of_tree };
        inner.start(INIT, true);
        inner.start(INIT, false);
        let first = inner.alive.values().find(|process| process.tagged).expect("it was started");
        inner.of_tree.insert(identity(&first.process));
        Self { inner: RefCell::new(inner) }
    }

    fn act(&self) {
        self.inner.borrow_mut().act();
    }
}

impl Inner {
    /// Returns the time, of which several starts are in one tick.
    fn tick(&self) -> u64 {
        self.clock / 4
    }

    fn start(&mut self, parent: u32, tagged: bool) {
        let mut next = (0..self.pids).map(|step| 2 + (self.last_pid - 1 + step) % self.pids);
        let Some(pid) = next.find(|pid| !self.alive.contains_key(pid)) else { return };
        self.last_pid = pid;
        self.clock += 1;
        // No machine uses a pid twice in one tick.
        while !self.known.insert((pid, self.tick())) {
            self.clock += 1;
        }
        let process = Process { pid, parent, group: pid, session: pid, started: self.tick() };
        let parent = self.alive.get(&parent).map(|parent| identity(&parent.process));
        if parent.is_some_and(|parent| self.of_tree.contains(&parent)) {
            self.of_tree.insert(identity(&process));
        }
        self.alive.insert(pid, Simulated { process, tagged });
    }

    fn act(&mut self) {
        let Some(step) = self.steps.pop() else { return };
        let at = |place: usize| {
            let all: Vec<_> = self.alive.values().copied().collect();
            (!all.is_empty()).then(|| all[place % all.len()])
        };
        match step {
            Step::Nothing => {}
            Step::Fork(place) => {
                if let Some(parent) = at(place) {
                    self.start(parent.process.pid, parent.tagged);
                }
            }
            Step::ForkUntagged(place) => {
                if let Some(parent) = at(place) {
                    self.start(parent.process.pid, false);
                }
            }
            Step::End(place) => {
                if let Some(ended) = at(place) {
                    self.end(ended.process.pid);
                }
            }
            Step::Replace(place, by) => {
                let (Some(ended), Some(parent)) = (at(place), at(by)) else { return };
                if ended.process.pid != parent.process.pid {
                    self.end(ended.process.pid);
                    self.last_pid = ended.process.pid - 1;
                    self.start(parent.process.pid, parent.tagged);
                }
            }
            Step::Hop => {
                let of_tree = self.alive.values().find(|process| process.tagged);
                if let Some(pid) = of_tree.map(|found| found.process.pid) {
                    self.start(pid, true);
                    self.end(pid);
                }
            }
        }
    }

    fn end(&mut self, pid: u32) {
        self.alive.remove(&pid);
        for child in self.alive.values_mut().filter(|child| child.process.parent == pid) {
            child.process.parent = INIT;
        }
    }

    fn stat(&self, pid: u32) -> Found {
        let found = self.alive.get(&pid);
        found.map_or(Found::Nothing, |found| Found::Process(found.process, LifeStage::Running))
    }
}

impl ProcessTable for Machine {
    fn pids(&self) -> io::Result<Vec<u32>> {
        // A listing is no snapshot: it goes through the pids.
        let listed = (0..self.inner.borrow().pids + 2).filter(|pid| {
            self.act();
            self.inner.borrow().alive.contains_key(pid)
        });
        Ok(listed.collect())
    }

    fn newest(&self) -> Option<u32> {
        Some(self.inner.borrow().last_pid)
    }

    fn stat(&self, pid: u32) -> io::Result<Found> {
        self.act();
        Ok(self.inner.borrow().stat(pid))
    }

    fn environment(&self, pid: u32) -> io::Result<Vec<u8>> {
        self.act();
        let inner = self.inner.borrow();
        let tagged = inner.alive.get(&pid).is_some_and(|found| found.tagged);
        Ok(if tagged { b"WINDLASS_LEASES=tree\0".to_vec() } else { Vec::new() })
    }

    fn limit_tag(&self, _: u32) -> Option<LimitTag> {
        self.act();
        None
    }

    fn now(&self) -> u64 {
        self.inner.borrow().tick()
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => Just(Step::Nothing),
        5 => any::<usize>().prop_map(Step::Fork),
        1 => any::<usize>().prop_map(Step::ForkUntagged),
        2 => any::<usize>().prop_map(Step::End),
        3 => any::<(usize, usize)>().prop_map(|(ended, by)| Step::Replace(ended, by)),
    ];
    prop::collection::vec(step, 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_search_takes_no_process_that_is_in_no_tree(steps in steps()) {
        let machine = Machine::new(5, steps);
        let tree = process_tag::tree_of("tree");
        let mut sighted = Vec::new();
        let wanted = [Wanted { tree: &tree, roots: &[] }];
        let found = members_in(&machine, &wanted, |_, process| {
            // A signal is sent only after a check that it still has its pid.
            let now = machine.inner.borrow().stat(process.pid);
            if matches!(now, Found::Process(now, _) if identity(&now) == identity(process)) {
                sighted.push(identity(process));
            }
        });
        let found = found.expect("a simulated machine can be read").of_trees.concat();
        let inner = machine.inner.borrow();
        for taken in found.iter().map(identity).chain(sighted) {
            prop_assert!(inner.of_tree.contains(&taken), "{taken:?} is in no tree");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// No pid is used again: there are more than starts.
    #[test]
    fn nothing_is_left_of_a_tree_if_a_complete_search_finds_nothing(
        steps in prop::collection::vec(prop_oneof![
            12 => Just(Step::Nothing),
            2 => Just(Step::Hop),
            1 => any::<usize>().prop_map(Step::Fork),
            1 => any::<usize>().prop_map(Step::End),
        ], 0..60),
        starts_another in prop::collection::vec(any::<bool>(), 0..20),
    ) {
        let machine = Machine::new(128, steps);
        let mut starts_another = starts_another.into_iter();
        let tree = process_tag::tree_of("tree");
        let wanted = [Wanted { tree: &tree, roots: &[] }];
        // What is killed may start another one before the signal arrives.
        let found = members_in(&machine, &wanted, |_, process| {
            let mut inner = machine.inner.borrow_mut();
            if starts_another.next().unwrap_or_default() && inner.alive.contains_key(&process.pid) {
                inner.start(process.pid, true);
            }
            inner.end(process.pid);
        });
        let Members { of_trees, sight } = found.expect("a simulated machine can be read");
        let left = machine.inner.borrow().alive.values().filter(|found| found.tagged).count();
        let found_nothing = of_trees.concat().is_empty() && sight == Sight::Complete;
        prop_assert!(!found_nothing || left == 0, "overlooked {left}");
    }
}

#[test]
fn a_process_with_the_pid_of_one_that_was_read_before_is_read() {
    // The process of the tree has pid 2, two others have 3 and 4.
    let machine = Machine::new(3, vec![Step::Fork(1)]);
    machine.act();
    let tree = process_tag::tree_of("tree");
    let wanted = [Wanted { tree: &tree, roots: &[] }];
    let mut search = Search::new(&machine, &wanted);
    search.round(&mut |_, _| ()).expect("a simulated machine can be read");
    machine.inner.borrow_mut().steps.push(Step::Replace(1, 0));
    machine.act();
    search.round(&mut |_, _| ()).expect("a simulated machine can be read");
    let found = search.members(&wanted, Sight::Complete).expect("a simulated machine can be read");
    let found = found.of_trees.concat();
    assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [2, 3]);
}

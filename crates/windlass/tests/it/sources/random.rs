//! Random calls on a source against a list of tasks, from which every answer is computed anew.

use futures::FutureExt;
use proptest::prelude::*;

use super::*;
use crate::support::cases;

/// One step of a random run. Numbers that choose among what there is are taken modulo its count.
#[derive(Clone, Debug)]
enum Step {
    Enqueue { priority: i64, after: Vec<usize> },
    Pull,
    Complete { which: usize },
    Fail { which: usize },
    Abort { which: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let any = any::<usize>();
    let after = prop::collection::vec(any, 0..4);
    prop_oneof![
        4 => (0..4i64, after).prop_map(|(priority, after)| Step::Enqueue { priority, after }),
        5 => Just(Step::Pull),
        4 => any.prop_map(|which| Step::Complete { which }),
        2 => any.prop_map(|which| Step::Fail { which }),
        1 => any.prop_map(|which| Step::Abort { which }),
    ]
}

struct Task {
    priority: i64,
    after: Vec<usize>,
    state: NodeState,
    /// When it became ready.
    turn: usize,
}

/// The source and the list, side by side. Keys are places in the list.
struct World {
    source: PriorityDependencySource<usize, i64>,
    tasks: Vec<Task>,
    turns: usize,
}

impl World {
    fn new() -> Self {
        let options = PriorityDependencyOptions::new().priority(|_, priority: &i64| *priority);
        let source = PriorityDependencySource::open(options);
        Self { source, tasks: Vec::new(), turns: 0 }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Enqueue { priority, after } => self.enqueue(*priority, after),
            Step::Pull => {
                let next = self.next();
                let pulled = self.source.pull().now_or_never().flatten();
                assert_eq!(pulled, next.map(|key| (key, self.tasks[key].priority)));
                next.into_iter().for_each(|key| self.tasks[key].state = NodeState::Running);
            }
            Step::Complete { which } => {
                if let Some(key) = self.reportable(*which, PriorityDependencySource::complete) {
                    self.tasks[key].state = NodeState::Completed;
                    self.unblock();
                }
            }
            Step::Fail { which } => {
                if let Some(key) = self.reportable(*which, PriorityDependencySource::fail) {
                    self.make_ready(key);
                }
            }
            Step::Abort { which } => self.abort(*which),
        }
    }

    fn enqueue(&mut self, priority: i64, after: &[usize]) {
        let key = self.tasks.len();
        let after: Vec<_> = after.iter().filter_map(|n| n.checked_rem(key)).collect();
        self.source.enqueue(key, priority, &after).expect("a new key after known ones");
        let aborted = after.iter().any(|key| self.tasks[*key].state == NodeState::Aborted);
        let state = if aborted { NodeState::Aborted } else { NodeState::Pending };
        self.tasks.push(Task { priority, after, state, turn: 0 });
        self.unblock();
    }

    /// The tasks whose dependencies have ended, in the order in which that happened.
    fn unblock(&mut self) {
        for key in 0..self.tasks.len() {
            let done = |key: &usize| self.tasks[*key].state == NodeState::Completed;
            if self.tasks[key].state == NodeState::Pending && self.tasks[key].after.iter().all(done)
            {
                self.make_ready(key);
            }
        }
    }

    fn make_ready(&mut self, key: usize) {
        self.turns += 1;
        (self.tasks[key].state, self.tasks[key].turn) = (NodeState::Ready, self.turns);
    }

    fn next(&self) -> Option<usize> {
        let ready = (0..self.tasks.len()).filter(|key| self.tasks[*key].state == NodeState::Ready);
        ready.min_by_key(|key| (-self.tasks[*key].priority, self.tasks[*key].turn))
    }

    /// Reports about a task, which is refused unless it runs.
    fn reportable(
        &self,
        which: usize,
        report: impl Fn(&PriorityDependencySource<usize, i64>, &usize) -> Result<(), ReportError<usize>>,
    ) -> Option<usize> {
        let key = which.checked_rem(self.tasks.len())?;
        let runs = self.tasks[key].state == NodeState::Running;
        assert_eq!(report(&self.source, &key).is_ok(), runs, "{key}");
        runs.then_some(key)
    }

    fn abort(&mut self, which: usize) {
        let Some(key) = which.checked_rem(self.tasks.len()) else { return };
        let aborted = self.source.abort(&key);
        assert_eq!(aborted.is_err(), self.tasks[key].state.is_terminal());
        let Ok(mut aborted) = aborted else { return };
        let mut expected = vec![key];
        for later in key + 1..self.tasks.len() {
            let follows = self.tasks[later].after.iter().any(|key| expected.contains(key));
            if follows && !self.tasks[later].state.is_terminal() {
                expected.push(later);
            }
        }
        expected.iter().for_each(|key| self.tasks[*key].state = NodeState::Aborted);
        aborted.sort_unstable();
        assert_eq!(aborted, expected);
    }

    fn compare(&self) {
        for (key, task) in self.tasks.iter().enumerate() {
            assert_eq!(self.source.state(&key), Some(task.state), "{key}");
        }
        assert_eq!(self.source.peek_key(), self.next());
        let ready = self.tasks.iter().filter(|task| task.state == NodeState::Ready);
        assert_eq!(self.source.len(), ready.count());
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn a_source_agrees_with_a_list_of_tasks(
        steps in prop::collection::vec(step(), 1..100),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.apply(step);
            world.compare();
        }
    }
}

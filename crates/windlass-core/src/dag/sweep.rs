//! Reorders nodes for an edge against the topological order: moves its target up, or its source
//! down.
//!
//! A moving node pushes the nodes in its way ahead of itself, by one place each. Both directions
//! are searched in turn, one edge at a time, and the first to finish is carried out, so a long
//! chain on one side costs nothing if the other side is short. A search that has to push its
//! starting node has found a cycle. It visits nodes between the places of the two ends, and beyond
//! them only as far as moving nodes need space.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::{Dag, EdgeError, LinkId, Role};

impl Dag {
    /// Moves nodes until the place of `from` is below that of `to`. Fails, and moves nothing, if
    /// there is a cycle.
    pub(super) fn reorder(&mut self, from: usize, to: usize) -> Result<(), EdgeError> {
        if from == to {
            return Err(EdgeError::Cycle { path: vec![from, to] });
        }
        let mut up = Sweep::new(self, Direction::Up, to, from);
        let mut down = Sweep::new(self, Direction::Down, from, to);
        loop {
            for sweep in [&mut up, &mut down] {
                match sweep.advance(self) {
                    Progress::Going => {}
                    Progress::Finished => {
                        sweep.carry_out(self);
                        return Ok(());
                    }
                    Progress::Cycle => {
                        return Err(EdgeError::Cycle { path: sweep.cycle(from) });
                    }
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

enum Progress {
    Going,
    Finished,
    Cycle,
}

/// The planned moves in one direction. Heights are places as seen in that direction, so that every
/// move is to a greater height.
struct Sweep {
    direction: Direction,
    /// The other end of the new edge: a node that leads to it closes a cycle.
    goal: usize,
    moves: BTreeMap<usize, Move>,
    /// The nodes that have to move and have not pushed others yet, lowest first: so all nodes that
    /// push a node are visited before it, and it pushes once.
    queue: BinaryHeap<Reverse<(i64, usize)>>,
    /// The node that pushes at present, its new height, and its next link.
    pusher: usize,
    height: i64,
    link: Option<LinkId>,
}

struct Move {
    height: i64,
    /// The node that pushed it last.
    pusher: usize,
}

impl Sweep {
    fn new(dag: &Dag, direction: Direction, start: usize, goal: usize) -> Self {
        let height = direction.height(dag.nodes[goal].place);
        let (moves, queue) = (BTreeMap::new(), BinaryHeap::new());
        let mut sweep = Self { direction, goal, moves, queue, pusher: goal, height, link: None };
        sweep.push(dag, start);
        sweep
    }

    /// Visits one edge, or turns to the next node.
    fn advance(&mut self, dag: &Dag) -> Progress {
        let Some(id) = self.link else {
            return self.turn_to_next(dag);
        };
        let link = dag.link(id);
        let node = match self.direction {
            Direction::Up => link.to(),
            Direction::Down => link.from(),
        };
        self.link = match self.direction {
            Direction::Up => link.next_out,
            Direction::Down => dag.next_in(id),
        };
        if link.role == Role::Settled {
            return Progress::Going;
        }
        self.push(dag, node);
        if node == self.goal { Progress::Cycle } else { Progress::Going }
    }

    fn turn_to_next(&mut self, dag: &Dag) -> Progress {
        let Some(Reverse((_, node))) = self.queue.pop() else {
            return Progress::Finished;
        };
        self.pusher = node;
        self.height = self.moves[&node].height;
        self.link = match self.direction {
            Direction::Up => dag.nodes[node].outgoing.first,
            Direction::Down => dag.first_in(node),
        };
        Progress::Going
    }

    /// Moves `node` if it is in the pusher's way.
    fn push(&mut self, dag: &Dag, node: usize) {
        let Some(entry) = dag.nodes.get(node) else { return };
        let present = self.direction.height(entry.place);
        let height = self.height + 1;
        if present >= height || self.moves.get(&node).is_some_and(|moved| moved.height >= height) {
            return;
        }
        if self.moves.insert(node, Move { height, pusher: self.pusher }).is_none() {
            self.queue.push(Reverse((present, node)));
        }
    }

    fn carry_out(&self, dag: &mut Dag) {
        for (&node, moved) in &self.moves {
            dag.nodes[node].place = self.direction.height(moved.height);
        }
    }

    /// Returns the cycle from `from` along the new edge and back.
    fn cycle(&self, from: usize) -> Vec<usize> {
        let mut path = vec![self.goal];
        let mut node = self.moves[&self.goal].pusher;
        while node != self.goal {
            path.push(node);
            node = self.moves[&node].pusher;
        }
        match self.direction {
            Direction::Up => path.push(from),
            Direction::Down => path.insert(0, from),
        }
        if self.direction == Direction::Up {
            path.reverse();
        }
        path
    }
}

impl Direction {
    /// Converts between a place and a height.
    fn height(self, place: i64) -> i64 {
        match self {
            Direction::Up => place,
            Direction::Down => -place,
        }
    }
}

//! The best of many contestants, in a balanced search tree.
//!
//! The tree is a treap by size, and each node stores the best of its subtree. So the best of all is
//! at the root, and the best up to some size is found along one path.

use super::Contestant;
use crate::queue::rank::Best;

#[derive(Clone, Debug)]
pub(super) struct Tree {
    nodes: Vec<Node>,
    free: Vec<u32>,
    root: u32,
    /// The path of the latest search, kept to reuse its memory.
    path: Vec<u32>,
}

#[derive(Clone, Debug)]
struct Node {
    contestant: Contestant,
    own: Best,
    /// The best of this node and everything below it.
    best: Best,
    left: u32,
    right: u32,
}

const NONE: u32 = u32::MAX;

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), root: NONE, path: Vec::new() }
    }
}

impl Tree {
    /// Adds a contestant, or replaces its head.
    pub(super) fn set(&mut self, contestant: Contestant, own: Best) {
        if let Some(node) = self.descend(contestant) {
            self.nodes[node as usize].own = own;
            self.refresh_path();
        } else {
            let node = self.allot(contestant, own);
            self.root = self.insert(self.root, node);
        }
    }

    pub(super) fn remove(&mut self, contestant: Contestant) {
        let Some(node) = self.descend(contestant) else { return };
        self.path.pop();
        let Node { left, right, .. } = self.nodes[node as usize];
        let rest = self.merge(left, right);
        self.free.push(node);
        match self.path.last() {
            None => self.root = rest,
            Some(&above) => {
                let above = &mut self.nodes[above as usize];
                let child = if above.left == node { &mut above.left } else { &mut above.right };
                *child = rest;
            }
        }
        self.refresh_path();
    }

    pub(super) fn best(&self) -> Best {
        self.best_of(self.root)
    }

    /// Returns the best of those whose size is at most `most`.
    pub(super) fn best_up_to(&self, most: u64) -> Best {
        let mut best = Best::default();
        let mut at = self.root;
        while at != NONE {
            let node = &self.nodes[at as usize];
            if node.contestant.size > most {
                at = node.left;
            } else {
                best = best.or(self.best_of(node.left)).or(node.own);
                at = node.right;
            }
        }
        best
    }

    /// Returns the smallest size of all contestants.
    pub(super) fn smallest(&self) -> Option<u64> {
        let mut smallest = None;
        let mut at = self.root;
        while at != NONE {
            smallest = Some(self.nodes[at as usize].contestant.size);
            at = self.nodes[at as usize].left;
        }
        smallest
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Searches for `contestant` and leaves the way to it in `path`, itself last. Returns `None` if
    /// it is not in the tree.
    fn descend(&mut self, contestant: Contestant) -> Option<u32> {
        self.path.clear();
        let mut at = self.root;
        while at != NONE {
            self.path.push(at);
            let node = &self.nodes[at as usize];
            at = match contestant.cmp(&node.contestant) {
                std::cmp::Ordering::Equal => return Some(at),
                std::cmp::Ordering::Less => node.left,
                std::cmp::Ordering::Greater => node.right,
            };
        }
        None
    }

    fn refresh_path(&mut self) {
        while let Some(node) = self.path.pop() {
            self.refresh(node);
        }
    }

    fn allot(&mut self, contestant: Contestant, own: Best) -> u32 {
        let node = Node { contestant, own, best: own, left: NONE, right: NONE };
        if let Some(free) = self.free.pop() {
            self.nodes[free as usize] = node;
            return free;
        }
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 contestants")
    }

    fn insert(&mut self, at: u32, new: u32) -> u32 {
        if at == NONE {
            return new;
        }
        if self.weight(new) > self.weight(at) {
            let (left, right) = self.split(at, self.nodes[new as usize].contestant);
            self.nodes[new as usize].left = left;
            self.nodes[new as usize].right = right;
            self.refresh(new);
            return new;
        }
        if self.nodes[new as usize].contestant < self.nodes[at as usize].contestant {
            self.nodes[at as usize].left = self.insert(self.nodes[at as usize].left, new);
        } else {
            self.nodes[at as usize].right = self.insert(self.nodes[at as usize].right, new);
        }
        self.refresh(at);
        at
    }

    /// Splits a tree into those before `contestant` and those behind it.
    fn split(&mut self, at: u32, contestant: Contestant) -> (u32, u32) {
        if at == NONE {
            return (NONE, NONE);
        }
        let halves = if self.nodes[at as usize].contestant < contestant {
            let (left, right) = self.split(self.nodes[at as usize].right, contestant);
            self.nodes[at as usize].right = left;
            (at, right)
        } else {
            let (left, right) = self.split(self.nodes[at as usize].left, contestant);
            self.nodes[at as usize].left = right;
            (left, at)
        };
        self.refresh(at);
        halves
    }

    /// Joins two trees, where all of `left` are before all of `right`.
    fn merge(&mut self, left: u32, right: u32) -> u32 {
        if left == NONE || right == NONE {
            return if left == NONE { right } else { left };
        }
        let top = if self.weight(left) > self.weight(right) {
            self.nodes[left as usize].right = self.merge(self.nodes[left as usize].right, right);
            left
        } else {
            self.nodes[right as usize].left = self.merge(left, self.nodes[right as usize].left);
            right
        };
        self.refresh(top);
        top
    }

    fn refresh(&mut self, at: u32) {
        let Node { left, right, own: mut best, .. } = self.nodes[at as usize];
        for below in [left, right] {
            if let Some(below) = self.nodes.get(below as usize) {
                best.take_better(&below.best);
            }
        }
        self.nodes[at as usize].best = best;
    }

    fn best_of(&self, at: u32) -> Best {
        if at == NONE { Best::default() } else { self.nodes[at as usize].best }
    }

    /// Returns the pseudo-random weight that keeps the treap balanced, the same in every run.
    fn weight(&self, at: u32) -> u64 {
        let Contestant { size, number } = self.nodes[at as usize].contestant;
        let mixed = (size ^ u64::from(number).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }
}

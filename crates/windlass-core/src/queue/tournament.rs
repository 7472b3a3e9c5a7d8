//! The best of many contestants, optionally among those up to some size.
//!
//! Up to eight contestants are scanned on demand. More are kept in a tree that updates the best
//! with every change.

use super::rank::Best;

mod tree;

use tree::Tree;

#[derive(Clone, Debug, Default)]
pub(crate) struct Tournament {
    few: Vec<(Contestant, Best)>,
    /// All contestants, once there were more than a few, until all have left.
    many: Option<Box<Tree>>,
}

/// A contestant; those of one size are told apart by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Contestant {
    pub(crate) size: u64,
    pub(crate) number: u32,
}

/// The number up to which a scan costs less than a tree.
const FEW: usize = 8;

impl Tournament {
    /// Adds a contestant, or replaces its head.
    #[inline]
    pub(crate) fn set(&mut self, contestant: Contestant, own: Best) {
        match self.few.iter_mut().find(|(known, _)| *known == contestant) {
            Some((_, known)) => *known = own,
            None => self.enter(contestant, own),
        }
    }

    fn enter(&mut self, contestant: Contestant, own: Best) {
        if self.many.is_none() && self.few.len() < FEW {
            return self.few.push((contestant, own));
        }
        let many = self.many.get_or_insert_default();
        self.few.drain(..).for_each(|(contestant, own)| many.set(contestant, own));
        many.set(contestant, own);
    }

    pub(crate) fn remove(&mut self, contestant: Contestant) {
        match &mut self.many {
            None => self.few.retain(|(known, _)| *known != contestant),
            Some(many) => {
                many.remove(contestant);
                if many.len() == 0 {
                    self.many = None;
                }
            }
        }
    }

    pub(crate) fn best(&self) -> Best {
        match &self.many {
            None => best_of(self.few.iter()),
            Some(many) => many.best(),
        }
    }

    /// Returns the best of those whose size is at most `most`.
    pub(crate) fn best_up_to(&self, most: u64) -> Best {
        match &self.many {
            None => best_of(self.few.iter().filter(|(known, _)| known.size <= most)),
            Some(many) => many.best_up_to(most),
        }
    }

    /// Returns the smallest size of all contestants.
    pub(crate) fn smallest(&self) -> Option<u64> {
        match &self.many {
            None => self.few.iter().map(|(known, _)| known.size).min(),
            Some(many) => many.smallest(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.many.as_ref().map_or(self.few.len(), |many| many.len())
    }
}

fn best_of<'a>(contestants: impl Iterator<Item = &'a (Contestant, Best)>) -> Best {
    let mut best = Best::default();
    contestants.for_each(|(_, own)| best.take_better(own));
    best
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::queue::rank::{LaneId, Seq};
    use crate::{CostId, Random};

    fn bring(random: &mut Random, number: u32, seq: u64) -> Best {
        let lane = LaneId { cost: CostId::at(number as usize), lane: 0 };
        let seq = Seq::new(seq).expect("from 1");
        Best::fixed(lane, random.within(0..3) as i64, seq)
    }

    #[test]
    fn few_and_many_contestants_are_compared_alike() {
        let mut random = Random::new(7);
        let (mut tournament, mut all) = (Tournament::default(), BTreeMap::new());
        for seq in 1..5_000 {
            // The number of contestants grows and shrinks alternately.
            let is_leaving = random.within(0..10) < if seq / 300 % 2 == 0 { 3 } else { 7 };
            let number = random.within(0..3 * FEW as u64) as u32;
            let contestant = Contestant { size: u64::from(number % 5), number };
            if is_leaving {
                tournament.remove(contestant);
                all.remove(&contestant);
            } else {
                let own = bring(&mut random, number, seq);
                tournament.set(contestant, own);
                all.insert(contestant, own);
            }
            for most in 0..6 {
                let small = all.iter().filter(|(contestant, _)| contestant.size <= most);
                let best = small.fold(Best::default(), |best, (_, own)| best.or(*own));
                assert_eq!(tournament.best_up_to(most), best);
            }
            assert_eq!(tournament.best(), tournament.best_up_to(u64::MAX));
            assert_eq!(tournament.smallest(), all.keys().map(|one| one.size).min());
            assert_eq!(tournament.len(), all.len());
            assert_eq!(tournament.is_empty(), all.is_empty());
        }
    }
}

//! The order of steps: each behind those it follows, and otherwise as they stand in the file.
//!
//! Works on places and lists of places alone, without recursion, and looks at every edge a bounded
//! number of times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::step::Step;

/// The places in an order in which each comes behind its sources, or every cycle that was found,
/// each as its path.
pub(crate) fn sorted(sources: &[Vec<usize>]) -> Result<Vec<usize>, Vec<Vec<usize>>> {
    let dependents = dependents(sources);
    let mut unmet: Vec<usize> = sources.iter().map(Vec::len).collect();
    let ready = unmet.iter().enumerate().filter(|(_, unmet)| **unmet == 0);
    let mut ready: BinaryHeap<_> = ready.map(|(place, _)| Reverse(place)).collect();
    let mut order = Vec::with_capacity(sources.len());
    while let Some(Reverse(place)) = ready.pop() {
        order.push(place);
        for &dependent in &dependents[place] {
            unmet[dependent] -= 1;
            if unmet[dependent] == 0 {
                ready.push(Reverse(dependent));
            }
        }
    }
    if order.len() == sources.len() { Ok(order) } else { Err(cycles(sources, &unmet)) }
}

fn dependents(sources: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut dependents = vec![Vec::new(); sources.len()];
    for (place, sources) in sources.iter().enumerate() {
        sources.iter().for_each(|&source| dependents[source].push(place));
    }
    dependents
}

/// The cycles that one meets going back from those that can never be with_span. Each of them has a
/// source that can never be with_span either, so every way back ends in a cycle.
fn cycles(sources: &[Vec<usize>], unmet: &[usize]) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut walk_of = vec![UNSEEN; sources.len()];
    let mut cycles = Vec::new();
    for start in 0..sources.len() {
        let mut path = Vec::new();
        let mut place = start;
        while unmet[place] > 0 && walk_of[place] == UNSEEN {
            walk_of[place] = start;
            path.push(place);
            let back = sources[place].iter().find(|&&source| unmet[source] > 0);
            place = *back.expect("it waits for one that is not with_span");
        }
        if walk_of[place] == start && !path.is_empty() {
            let begin = path.iter().position(|&seen| seen == place).expect("this walk saw it");
            cycles.push(path.split_off(begin));
        }
    }
    cycles
}

/// The steps in `order`, with their edges pointing to where the others are now.
pub(crate) fn reordered(steps: Vec<Step>, order: &[usize]) -> Vec<Step> {
    let mut place_of = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &old)| place_of[old] = place);
    let mut steps: Vec<_> = steps.into_iter().map(Some).collect();
    let moved = order.iter().map(|&old| steps[old].take().expect("each place is there once"));
    let renumbered = moved.map(|mut step| {
        step.after.iter_mut().for_each(|edge| edge.step = place_of[edge.step]);
        step
    });
    renumbered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_keep_their_order_except_behind_their_sources() {
        assert_eq!(sorted(&[vec![2], vec![], vec![]]), Ok(vec![1, 2, 0]));
        assert_eq!(sorted(&[vec![], vec![0], vec![0, 1]]), Ok(vec![0, 1, 2]));
        assert_eq!(sorted(&[]), Ok(vec![]));
    }

    #[test]
    fn every_cycle_is_told_once_as_its_path() {
        // 0 hangs on the cycle 1 -> 3 -> 2 -> 1; 4 waits for itself; 5 is free.
        let sources = [vec![1], vec![3], vec![1], vec![2], vec![4], vec![]];
        assert_eq!(sorted(&sources), Err(vec![vec![1, 3, 2], vec![4]]));
    }

    #[test]
    fn a_chain_of_a_million_is_sorted_without_recursion() {
        let sources: Vec<_> = (0..1_000_000_usize)
            .map(|place| if place == 999_999 { vec![] } else { vec![place + 1] })
            .collect();
        let order = sorted(&sources).expect("a chain has no cycle");
        assert_eq!((order[0], order[999_999]), (999_999, 0));
    }
}

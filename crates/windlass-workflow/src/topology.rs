//! Topological order of steps, or the cycles that prevent one.
//!
//! Works on indices alone: `sources[i]` are the steps that step `i` waits for. Uses no recursion, and
//! looks at every edge a constant number of times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::step::Step;

/// Returns the indices in topological order, the smallest possible index first, or else a list of
/// cycles.
pub(crate) fn sorted(sources: &[Vec<usize>]) -> Result<Vec<usize>, Vec<Vec<usize>>> {
    let dependents = dependents(sources);
    let mut unmet: Vec<usize> = sources.iter().map(Vec::len).collect();
    let ready = unmet.iter().enumerate().filter(|(_, unmet)| **unmet == 0);
    let mut ready: BinaryHeap<_> = ready.map(|(index, _)| Reverse(index)).collect();
    let mut order = Vec::with_capacity(sources.len());
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &dependent in &dependents[index] {
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
    for (index, sources) in sources.iter().enumerate() {
        sources.iter().for_each(|&source| dependents[source].push(index));
    }
    dependents
}

/// Returns the cycles found by walking back from every step that has unmet sources. Such a step has
/// a source that has unmet sources itself, so every walk ends in a cycle.
fn cycles(sources: &[Vec<usize>], unmet: &[usize]) -> Vec<Vec<usize>> {
    const UNVISITED: usize = usize::MAX;
    let mut walk_of = vec![UNVISITED; sources.len()];
    let mut cycles = Vec::new();
    for start in 0..sources.len() {
        let mut path = Vec::new();
        let mut index = start;
        while unmet[index] > 0 && walk_of[index] == UNVISITED {
            walk_of[index] = start;
            path.push(index);
            let back = sources[index].iter().find(|&&source| unmet[source] > 0);
            index = *back.expect("an unmet source");
        }
        if walk_of[index] == start && !path.is_empty() {
            let begin = path.iter().position(|&seen| seen == index).expect("this walk visited it");
            cycles.push(path.split_off(begin));
        }
    }
    cycles
}

/// Returns the steps in `order`, with the indices in their edges adjusted.
pub(crate) fn reordered(steps: Vec<Step>, order: &[usize]) -> Vec<Step> {
    let mut new_index = vec![0; order.len()];
    order.iter().enumerate().for_each(|(new, &old)| new_index[old] = new);
    let mut steps: Vec<_> = steps.into_iter().map(Some).collect();
    let moved = order.iter().map(|&old| steps[old].take().expect("an order has each index once"));
    let renumbered = moved.map(|mut step| {
        step.after.iter_mut().for_each(|edge| edge.step = new_index[edge.step]);
        step
    });
    renumbered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_keep_their_order_except_after_their_sources() {
        assert_eq!(sorted(&[vec![2], vec![], vec![]]), Ok(vec![1, 2, 0]));
        assert_eq!(sorted(&[vec![], vec![0], vec![0, 1]]), Ok(vec![0, 1, 2]));
        assert_eq!(sorted(&[]), Ok(vec![]));
    }

    #[test]
    fn every_cycle_is_reported_once_as_its_path() {
        // 0 depends on the cycle 1 -> 3 -> 2 -> 1; 4 waits for itself; 5 is free.
        let sources = [vec![1], vec![3], vec![1], vec![2], vec![4], vec![]];
        assert_eq!(sorted(&sources), Err(vec![vec![1, 3, 2], vec![4]]));
    }

    #[test]
    fn a_chain_of_a_million_is_sorted_without_recursion() {
        let sources: Vec<_> = (0..1_000_000_usize)
            .map(|index| if index == 999_999 { vec![] } else { vec![index + 1] })
            .collect();
        let order = sorted(&sources).expect("a chain has no cycle");
        assert_eq!((order[0], order[999_999]), (999_999, 0));
    }
}

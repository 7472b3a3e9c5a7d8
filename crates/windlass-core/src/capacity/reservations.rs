//! The reservations at one counter, in the order of their turns.
//!
//! Adding, finding and removing a reservation take O(log n), and so does the sum of all before a
//! turn: the sums form a binary indexed tree (Fenwick tree). Only inserting before existing turns
//! takes O(n). A removed reservation stays with an amount of 0 until such entries are the majority.

use crate::Amount;

#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    /// By turn; an amount of 0 where a reservation was removed.
    requests: Vec<Request>,
    /// Entry `i` is the sum of the last `lowest_bit(i + 1)` reservations up to `i`.
    sums: Vec<i128>,
    alive: usize,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    turn: u64,
    wanted: Amount,
}

impl Reservations {
    pub(super) fn is_empty(&self) -> bool {
        self.alive == 0
    }

    /// Reserves `wanted` for this turn and returns the amount reserved before; 0 removes the
    /// reservation.
    pub(super) fn set(&mut self, turn: u64, wanted: Amount) -> Amount {
        match self.place(turn) {
            Ok(place) => self.replace(place, wanted),
            Err(_) if wanted == Amount::ZERO => Amount::ZERO,
            Err(place) => {
                self.insert(place, Request { turn, wanted });
                Amount::ZERO
            }
        }
    }

    /// Returns whether this turn has a reservation here.
    pub(super) fn reserves(&self, turn: u64) -> bool {
        self.place(turn).is_ok_and(|place| self.requests[place].wanted != Amount::ZERO)
    }

    /// Returns the sum of the reservations for all turns before this one, in steps.
    #[inline]
    pub(super) fn sum_before(&self, turn: u64) -> i128 {
        if self.is_empty() { 0 } else { self.sum(turn) }
    }

    #[inline(never)]
    fn sum(&self, turn: u64) -> i128 {
        let mut count = self.requests.partition_point(|request| request.turn < turn);
        let mut sum = 0;
        while count > 0 {
            sum += self.sums[count - 1];
            count -= lowest_bit(count);
        }
        sum
    }

    /// Iterates over the turns with a reservation, in order, and their amounts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Amount)> {
        let alive = self.requests.iter().filter(|request| request.wanted != Amount::ZERO);
        alive.map(|request| (request.turn, request.wanted))
    }

    fn place(&self, turn: u64) -> Result<usize, usize> {
        self.requests.binary_search_by_key(&turn, |request| request.turn)
    }

    fn insert(&mut self, place: usize, request: Request) {
        self.alive += 1;
        self.requests.insert(place, request);
        if place == self.sums.len() {
            self.sums.push(self.sum_at(place));
        } else {
            self.rebuild();
        }
    }

    fn replace(&mut self, place: usize, wanted: Amount) -> Amount {
        let before = std::mem::replace(&mut self.requests[place].wanted, wanted);
        self.alive += usize::from(wanted != Amount::ZERO);
        self.alive -= usize::from(before != Amount::ZERO);
        let change = i128::from(wanted.steps()) - i128::from(before.steps());
        let mut count = place + 1;
        while count <= self.sums.len() {
            self.sums[count - 1] += change;
            count += lowest_bit(count);
        }
        if self.alive * 2 < self.requests.len() {
            self.sweep();
        }
        before
    }

    fn sweep(&mut self) {
        self.requests.retain(|request| request.wanted != Amount::ZERO);
        self.rebuild();
    }

    fn rebuild(&mut self) {
        self.sums.clear();
        for place in 0..self.requests.len() {
            self.sums.push(self.sum_at(place));
        }
    }

    /// Computes the entry of `sums` at `place` from those before it.
    fn sum_at(&self, place: usize) -> i128 {
        let mut sum = i128::from(self.requests[place].wanted.steps());
        let mut width = 1;
        while width < lowest_bit(place + 1) {
            sum += self.sums[place - width];
            width *= 2;
        }
        sum
    }
}

fn lowest_bit(count: usize) -> usize {
    count & count.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Compares sums and order with a plain map under random changes.
    #[test]
    fn reservations_sum_like_a_map() {
        let mut reservations = Reservations::default();
        let mut map = BTreeMap::new();
        let mut random = 1u64;
        for _ in 0..500 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (turn, wanted) = (random >> 58, Amount::from_steps(random >> 20 & 3));
            let before = map.insert(turn, wanted).unwrap_or_default();
            assert_eq!(reservations.set(turn, wanted), before);
            map.retain(|_, wanted| *wanted != Amount::ZERO);
            for turn in 0..65 {
                let before = map.range(..turn).map(|(_, wanted)| i128::from(wanted.steps()));
                assert_eq!(reservations.sum_before(turn), before.sum::<i128>());
            }
            assert!(reservations.iter().eq(map.iter().map(|(turn, wanted)| (*turn, *wanted))));
            assert_eq!(reservations.is_empty(), map.is_empty());
        }
    }

    #[test]
    fn removed_reservations_do_not_accumulate() {
        let mut reservations = Reservations::default();
        for turn in 0..1000 {
            reservations.set(turn, Amount::from(1));
            reservations.set(turn, Amount::ZERO);
        }
        assert!(reservations.is_empty() && reservations.requests.len() < 2);
    }
}

//! The lanes of a group where waiting changes nothing and priorities are few: the best lane is the
//! first that is not empty.

/// As many as a word has bits.
pub(super) const MOST: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Buckets {
    /// Priorities and the numbers of their lanes, the most urgent first.
    lanes: Vec<(i64, u32)>,
    /// Which of them have works, by their place.
    occupied: u64,
}

impl Buckets {
    /// Where the lane of this priority stands; else where it would.
    #[inline]
    pub(super) fn place(&self, priority: i64) -> Result<usize, usize> {
        match self.lanes[..] {
            [(only, _)] if only == priority => Ok(0),
            _ => self.lanes.binary_search_by(|(other, _)| priority.cmp(other)),
        }
    }

    #[inline]
    pub(super) fn lane(&self, place: usize) -> u32 {
        self.lanes[place].1
    }

    /// The place of the best lane that has works.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        (self.occupied != 0).then(|| self.occupied.trailing_zeros() as usize)
    }

    #[inline]
    pub(super) fn fill(&mut self, place: usize) {
        self.occupied |= 1 << place;
    }

    #[inline]
    pub(super) fn empty(&mut self, place: usize) {
        self.occupied &= !(1 << place);
    }

    pub(super) fn is_full(&self) -> bool {
        self.lanes.len() == MOST
    }

    /// Puts the lane of a new priority where it belongs.
    pub(super) fn insert(&mut self, place: usize, priority: i64, lane: u32) {
        self.lanes.insert(place, (priority, lane));
        let before = self.occupied & below(place);
        self.occupied = before | ((self.occupied & !below(place)) << 1);
    }

    /// Takes out one that has no works: its priority and its lane.
    pub(super) fn pop_empty(&mut self) -> Option<u32> {
        let place = (0..self.lanes.len()).find(|place| self.occupied >> place & 1 == 0)?;
        let before = self.occupied & below(place);
        self.occupied = before | (self.occupied >> 1 & !below(place));
        Some(self.lanes.remove(place).1)
    }

    /// All lanes with their priorities.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, u32)> {
        self.lanes.iter().copied()
    }
}

/// The bits below this one.
fn below(place: usize) -> u64 {
    (1u64 << place) - 1
}

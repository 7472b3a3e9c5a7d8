//! The lanes of a group without ageing and with few priorities: sorted by priority, with a bit set
//! of the lanes that have works.

/// The number of bits of a word.
pub(super) const MOST: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Buckets {
    /// Priorities and the indices of their lanes, the most urgent first.
    lanes: Vec<(i64, u32)>,
    /// A bit for each place whose lane has works.
    occupied: u64,
}

impl Buckets {
    /// Returns the place of this priority, or where it would be inserted.
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

    /// Returns the place of the most urgent lane that has works.
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

    /// Inserts the lane of a new priority.
    pub(super) fn insert(&mut self, place: usize, priority: i64, lane: u32) {
        self.lanes.insert(place, (priority, lane));
        let before = self.occupied & below(place);
        self.occupied = before | ((self.occupied & !below(place)) << 1);
    }

    /// Removes an empty lane and returns its index.
    pub(super) fn pop_empty(&mut self) -> Option<u32> {
        let place = (0..self.lanes.len()).find(|place| self.occupied >> place & 1 == 0)?;
        let before = self.occupied & below(place);
        self.occupied = before | (self.occupied >> 1 & !below(place));
        Some(self.lanes.remove(place).1)
    }

    /// Iterates over all lanes with their priorities.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, u32)> {
        self.lanes.iter().copied()
    }
}

/// Returns a mask of the bits below this one.
fn below(place: usize) -> u64 {
    (1u64 << place) - 1
}

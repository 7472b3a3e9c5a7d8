//! Things by the number of their work: dense, and freed as they go.

use std::collections::VecDeque;

use windlass_core::WorkId;

/// Numbers grow and are never used again, so what has gone is dropped chunk by chunk.
pub(crate) struct Entries<T> {
    chunks: VecDeque<Chunk<T>>,
    /// How many chunks have gone from the front.
    gone: usize,
    len: usize,
}

struct Chunk<T> {
    slots: Vec<Option<T>>,
    live: usize,
}

const CHUNK: usize = 64;

impl<T> Entries<T> {
    pub(crate) fn new() -> Self {
        Self { chunks: VecDeque::new(), gone: 0, len: 0 }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, work: WorkId, entry: T) {
        let (chunk, slot) = self.place(work).expect("numbers only grow");
        while self.chunks.len() <= chunk {
            self.chunks.push_back(Chunk { slots: Vec::new(), live: 0 });
        }
        let chunk = &mut self.chunks[chunk];
        if chunk.slots.is_empty() {
            chunk.slots.resize_with(CHUNK, || None);
        }
        chunk.slots[slot] = Some(entry);
        chunk.live += 1;
        self.len += 1;
    }

    pub(crate) fn get(&self, work: WorkId) -> Option<&T> {
        let (chunk, slot) = self.place(work)?;
        self.chunks.get(chunk)?.slots.get(slot)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, work: WorkId) -> Option<&mut T> {
        let (chunk, slot) = self.place(work)?;
        self.chunks.get_mut(chunk)?.slots.get_mut(slot)?.as_mut()
    }

    pub(crate) fn remove(&mut self, work: WorkId) -> Option<T> {
        let (place, slot) = self.place(work)?;
        let chunk = self.chunks.get_mut(place)?;
        let entry = chunk.slots.get_mut(slot)?.take()?;
        chunk.live -= 1;
        self.len -= 1;
        if chunk.live == 0 {
            chunk.slots = Vec::new();
            self.drop_front();
        }
        Some(entry)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (WorkId, &T)> {
        let chunks = self.chunks.iter().enumerate();
        chunks.flat_map(move |(place, chunk)| {
            let base = (self.gone + place) * CHUNK;
            let slots = chunk.slots.iter().enumerate();
            slots.filter_map(move |(slot, entry)| {
                Some((WorkId::from_index(base + slot), entry.as_ref()?))
            })
        })
    }

    pub(crate) fn for_each(&mut self, mut change: impl FnMut(&mut T)) {
        for chunk in &mut self.chunks {
            chunk.slots.iter_mut().flatten().for_each(&mut change);
        }
    }

    /// An emptied chunk that may yet be filled is the last one, and stays.
    fn drop_front(&mut self) {
        while self.chunks.len() > 1 && self.chunks[0].live == 0 {
            self.chunks.pop_front();
            self.gone += 1;
        }
    }

    fn place(&self, work: WorkId) -> Option<(usize, usize)> {
        let chunk = (work.index() / CHUNK).checked_sub(self.gone)?;
        Some((chunk, work.index() % CHUNK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_gone_leaves_no_room_behind() {
        let mut entries = Entries::new();
        entries.insert(WorkId::from_index(0), 0);
        for index in 1..10_000 {
            entries.insert(WorkId::from_index(index), index);
            assert_eq!(entries.remove(WorkId::from_index(index)), Some(index));
        }
        let slots: usize = entries.chunks.iter().map(|chunk| chunk.slots.len()).sum();
        assert!(slots <= 2 * CHUNK, "one that stays does not keep those that go: {slots}");
        assert_eq!(entries.iter().collect::<Vec<_>>(), [(WorkId::from_index(0), &0)]);
        assert_eq!(entries.remove(WorkId::from_index(0)), Some(0));
        assert!(entries.chunks.len() <= 1);
    }
}

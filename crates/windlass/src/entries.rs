//! The entries of all works by their dense ids: in chunks, so that they never move, and what is
//! forgotten makes room.

use std::collections::VecDeque;

use windlass_core::WorkId;

use crate::entry::Entry;

const CHUNK: usize = 128;

#[derive(Default)]
pub(crate) struct Entries {
    /// The chunks from number `dropped` on.
    chunks: VecDeque<Chunk>,
    dropped: usize,
    len: usize,
}

#[derive(Default)]
struct Chunk {
    entries: Vec<Option<Entry>>,
    kept: usize,
}

impl Entries {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds the entry of a work whose id is larger than all before.
    pub(crate) fn insert(&mut self, work: WorkId, entry: Entry) {
        let (number, slot) = (work.index() / CHUNK, work.index() % CHUNK);
        while self.dropped + self.chunks.len() <= number {
            self.chunks.push_back(Chunk::default());
        }
        let chunk = &mut self.chunks[number - self.dropped];
        if chunk.entries.capacity() == 0 {
            chunk.entries.reserve_exact(CHUNK);
        }
        // An id that was refused after all leaves a gap.
        chunk.entries.resize_with(slot, || None);
        chunk.entries.push(Some(entry));
        chunk.kept += 1;
        self.len += 1;
    }

    pub(crate) fn get(&self, work: WorkId) -> Option<&Entry> {
        let place = (work.index() / CHUNK).checked_sub(self.dropped)?;
        self.chunks.get(place)?.entries.get(work.index() % CHUNK)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, work: WorkId) -> Option<&mut Entry> {
        let place = (work.index() / CHUNK).checked_sub(self.dropped)?;
        self.chunks.get_mut(place)?.entries.get_mut(work.index() % CHUNK)?.as_mut()
    }

    pub(crate) fn remove(&mut self, work: WorkId) -> Option<Entry> {
        let place = (work.index() / CHUNK).checked_sub(self.dropped)?;
        let chunk = self.chunks.get_mut(place)?;
        let entry = chunk.entries.get_mut(work.index() % CHUNK)?.take()?;
        self.len -= 1;
        chunk.kept -= 1;
        if chunk.kept == 0 && chunk.entries.len() == CHUNK {
            chunk.entries = Vec::new();
            self.close_gap();
        }
        Some(entry)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.chunks.iter_mut().flat_map(|chunk| chunk.entries.iter_mut().flatten())
    }

    /// Gives up the places of the oldest chunks once they are empty; the newest one stays.
    fn close_gap(&mut self) {
        while self.chunks.len() > 1 && self.chunks[0].entries.capacity() == 0 {
            self.chunks.pop_front();
            self.dropped += 1;
        }
    }
}

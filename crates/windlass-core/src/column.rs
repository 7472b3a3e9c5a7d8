//! A column of entries by dense id: it grows by chunks, and what is forgotten makes room.
//!
//! Ids count up from 0 and are never used again. Entries never move once pushed. A forgotten entry
//! is gone for every reader at once; its memory follows when all entries of its chunk are
//! forgotten. Knows nothing of what it holds.

use std::ops::{Index, IndexMut};

const SHIFT: usize = 10;
const CHUNK: usize = 1 << SHIFT;

#[derive(Clone, Debug)]
pub(crate) struct Column<T> {
    /// The chunks from number `dropped` on.
    chunks: Vec<Chunk<T>>,
    /// How many chunks at the front have been dropped, together with their places in `chunks`.
    dropped: usize,
    len: usize,
}

#[derive(Clone, Debug)]
struct Chunk<T> {
    /// Never longer than a chunk; empty and without memory once all of them are forgotten.
    entries: Vec<T>,
    /// None while nothing is forgotten, so that a column nobody forgets from pays nothing.
    forgotten: Option<Box<Forgotten>>,
}

#[derive(Clone, Debug, Default)]
struct Forgotten {
    count: usize,
    bits: [u64; CHUNK / 64],
}

impl<T> Column<T> {
    /// Adds an entry; its id is how many were pushed before it.
    #[inline]
    pub(crate) fn push(&mut self, entry: T) -> usize {
        let id = self.len;
        if id.is_multiple_of(CHUNK) {
            self.add_chunk();
        }
        self.chunks.last_mut().expect("the newest chunk is kept").entries.push(entry);
        self.len += 1;
        id
    }

    #[cold]
    fn add_chunk(&mut self) {
        self.chunks.push(Chunk { entries: Vec::with_capacity(CHUNK), forgotten: None });
    }

    /// How many entries were ever pushed.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The entry; none if it was never pushed, or is forgotten.
    #[inline]
    pub(crate) fn get(&self, id: usize) -> Option<&T> {
        let chunk = self.chunks.get(self.place(id))?;
        let entry = chunk.entries.get(id % CHUNK)?;
        chunk.keeps(id % CHUNK).then_some(entry)
    }

    /// The entry, to change it; none if it was never pushed, or is forgotten.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: usize) -> Option<&mut T> {
        let place = self.place(id);
        let chunk = self.chunks.get_mut(place)?;
        if !chunk.keeps(id % CHUNK) {
            return None;
        }
        chunk.entries.get_mut(id % CHUNK)
    }

    /// Forgets the entry.
    ///
    /// # Panics
    ///
    /// If there is no such entry, or it is forgotten already.
    #[inline]
    pub(crate) fn forget(&mut self, id: usize) {
        if !self.forget_if(id, |_| true) {
            assert!(id >= self.len, "entry {id} is forgotten already");
            absent(id);
        }
    }

    /// Forgets the entry if it is there and `wanted` says so; whether that was done.
    #[inline(always)]
    pub(crate) fn forget_if(&mut self, id: usize, wanted: impl FnOnce(&T) -> bool) -> bool {
        let (place, slot) = (self.place(id), id % CHUNK);
        let Some(Chunk { entries, forgotten }) = self.chunks.get_mut(place) else { return false };
        let Some(entry) = entries.get(slot) else { return false };
        let (word, bit) = (slot / 64, 1 << (slot % 64));
        let gone = forgotten.as_ref().is_some_and(|forgotten| forgotten.bits[word] & bit != 0);
        if gone || !wanted(entry) {
            return false;
        }
        let forgotten = forgotten.get_or_insert_default();
        forgotten.bits[word] |= bit;
        forgotten.count += 1;
        // A chunk that is not full yet stays: the next entry belongs into it.
        if forgotten.count == CHUNK {
            self.drop_chunk(place);
        }
        true
    }

    #[cold]
    fn drop_chunk(&mut self, place: usize) {
        self.chunks[place] = Chunk { entries: Vec::new(), forgotten: None };
        self.close_gap();
    }

    /// The entries that are not forgotten, by id.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &T)> {
        self.chunks.iter().enumerate().flat_map(|(place, chunk)| {
            let first = (self.dropped + place) * CHUNK;
            let kept = chunk.entries.iter().enumerate().filter(|(slot, _)| chunk.keeps(*slot));
            kept.map(move |(slot, entry)| (first + slot, entry))
        })
    }

    /// A column with the same ids, made from this one.
    pub(crate) fn map<U>(&self, value: impl Fn(&T) -> U) -> Column<U> {
        let chunks = self.chunks.iter().map(|chunk| Chunk {
            entries: chunk.entries.iter().map(&value).collect(),
            forgotten: chunk.forgotten.clone(),
        });
        Column { chunks: chunks.collect(), dropped: self.dropped, len: self.len }
    }

    /// Where in `chunks` this id belongs; past the end for one whose chunk is dropped.
    #[inline]
    fn place(&self, id: usize) -> usize {
        (id >> SHIFT).wrapping_sub(self.dropped)
    }

    /// Gives up the places of dropped chunks once they are half of all, so that each forgotten
    /// chunk is moved over at most once.
    fn close_gap(&mut self) {
        let empty = self.chunks.iter().take_while(|chunk| chunk.is_dropped()).count();
        if empty * 2 > self.chunks.len() {
            self.chunks.drain(..empty);
            self.dropped += empty;
        }
    }
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), dropped: 0, len: 0 }
    }
}

impl<T> Index<usize> for Column<T> {
    type Output = T;

    #[inline]
    fn index(&self, id: usize) -> &T {
        self.get(id).unwrap_or_else(|| absent(id))
    }
}

impl<T> IndexMut<usize> for Column<T> {
    #[inline]
    fn index_mut(&mut self, id: usize) -> &mut T {
        self.get_mut(id).unwrap_or_else(|| absent(id))
    }
}

#[cold]
fn absent(id: usize) -> ! {
    panic!("entry {id} is not there: it was never added, or it is forgotten")
}

impl<T> Chunk<T> {
    #[inline]
    fn keeps(&self, slot: usize) -> bool {
        self.forgotten.as_ref().is_none_or(|forgotten| !forgotten.has(slot))
    }

    fn is_dropped(&self) -> bool {
        self.entries.capacity() == 0
    }
}

impl Forgotten {
    #[inline]
    fn has(&self, slot: usize) -> bool {
        self.bits[slot / 64] >> (slot % 64) & 1 == 1
    }
}

#[cfg(test)]
mod tests;

//! A list of entries by dense id that frees the memory of removed entries in chunks.
//!
//! Ids count up from 0 and are never reused. A chunk is freed when all its entries are removed.
//! Knows nothing of what it stores.

use std::ops::{Index, IndexMut};

const SHIFT: usize = 8;
const CHUNK: usize = 1 << SHIFT;

/// A growing list whose entries keep their ids when others are removed.
///
/// ```
/// let mut column = windlass_core::Column::default();
/// assert_eq!((column.push("a"), column.push("b")), (0, 1));
/// assert_eq!(column.take(0), Some("a"));
/// assert_eq!((column.get(0), column.get(1)), (None, Some(&"b")));
/// assert_eq!(column.push("c"), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Column<T> {
    /// The chunks from number `dropped` on. A list and not a queue, because every call reads it.
    chunks: Vec<Chunk<T>>,
    /// How many chunks were dropped from the front.
    dropped: usize,
    pushed: usize,
    live: usize,
}

#[derive(Clone, Debug)]
struct Chunk<T> {
    /// Empty and without memory once the chunk was full and all its entries are removed.
    slots: Vec<Option<T>>,
    live: usize,
}

impl<T> Column<T> {
    /// Adds an entry and returns its id, which is the number of entries pushed before.
    #[inline]
    pub fn push(&mut self, entry: T) -> usize {
        let id = self.pushed;
        if id.is_multiple_of(CHUNK) {
            self.add_chunk();
        }
        let chunk = self.chunks.last_mut().expect("the newest chunk is kept");
        chunk.slots.push(Some(entry));
        chunk.live += 1;
        self.pushed += 1;
        self.live += 1;
        id
    }

    /// Adds an entry that is removed already, under the next id.
    pub(crate) fn push_absent(&mut self) {
        if self.pushed.is_multiple_of(CHUNK) {
            self.add_chunk();
        }
        let place = self.chunks.len() - 1;
        let chunk = &mut self.chunks[place];
        chunk.slots.push(None);
        self.pushed += 1;
        if chunk.live == 0 && chunk.slots.len() == CHUNK {
            self.drop_chunk(place);
        }
    }

    #[cold]
    fn add_chunk(&mut self) {
        // The first one grows with its entries: many columns stay small.
        let slots = if self.pushed == 0 { Vec::new() } else { Vec::with_capacity(CHUNK) };
        self.chunks.push(Chunk { slots, live: 0 });
    }

    /// Returns how many entries were ever pushed.
    #[must_use]
    pub fn pushed(&self) -> usize {
        self.pushed
    }

    /// Returns how many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
    }

    /// Returns whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Returns the entry, or `None` if it was never pushed or is removed.
    #[must_use]
    #[inline]
    pub fn get(&self, id: usize) -> Option<&T> {
        self.chunks.get(self.place(id))?.slots.get(id % CHUNK)?.as_ref()
    }

    /// Returns the entry mutably, or `None` if it was never pushed or is removed.
    #[must_use]
    #[inline]
    pub fn get_mut(&mut self, id: usize) -> Option<&mut T> {
        let place = self.place(id);
        self.chunks.get_mut(place)?.slots.get_mut(id % CHUNK)?.as_mut()
    }

    /// Removes and returns the entry, or returns `None` if it was never pushed or is removed.
    #[inline]
    pub fn take(&mut self, id: usize) -> Option<T> {
        let place = self.place(id);
        let chunk = self.chunks.get_mut(place)?;
        let entry = chunk.slots.get_mut(id % CHUNK)?.take()?;
        chunk.live -= 1;
        self.live -= 1;
        // A chunk that is not full stays, because the next entry belongs into it.
        if chunk.live == 0 && chunk.slots.len() == CHUNK {
            self.drop_chunk(place);
        }
        Some(entry)
    }

    #[cold]
    fn drop_chunk(&mut self, place: usize) {
        self.chunks[place].slots = Vec::new();
        let is_gone = |chunk: &Chunk<T>| chunk.slots.capacity() == 0;
        let gone = self.chunks.iter().take_while(|chunk| is_gone(chunk)).count();
        // Moving the others costs no more than the chunks that are dropped have cost.
        if gone > self.chunks.len() / 2 {
            self.chunks.drain(..gone);
            self.dropped += gone;
        }
    }

    /// Iterates over the entries with their ids, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &T)> {
        self.chunks.iter().enumerate().flat_map(|(place, chunk)| {
            let first = (self.dropped + place) * CHUNK;
            let slots = chunk.slots.iter().enumerate();
            slots.filter_map(move |(slot, entry)| Some((first + slot, entry.as_ref()?)))
        })
    }

    /// Iterates over the entries mutably, in order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.chunks.iter_mut().flat_map(|chunk| chunk.slots.iter_mut().flatten())
    }

    /// Iterates over the entries mutably with their ids, in order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut T)> {
        let dropped = self.dropped;
        self.chunks.iter_mut().enumerate().flat_map(move |(place, chunk)| {
            let first = (dropped + place) * CHUNK;
            let slots = chunk.slots.iter_mut().enumerate();
            slots.filter_map(move |(slot, entry)| Some((first + slot, entry.as_mut()?)))
        })
    }

    /// Returns a column with the same ids whose entries are mapped by `value`.
    pub(crate) fn map<U>(&self, value: impl Fn(&T) -> U) -> Column<U> {
        let chunks = self.chunks.iter().map(|chunk| Chunk {
            slots: chunk.slots.iter().map(|entry| entry.as_ref().map(&value)).collect(),
            live: chunk.live,
        });
        let (dropped, pushed, live) = (self.dropped, self.pushed, self.live);
        Column { chunks: chunks.collect(), dropped, pushed, live }
    }

    /// Returns the index in `chunks` for this id, or one past the end if its chunk is dropped.
    #[inline]
    fn place(&self, id: usize) -> usize {
        (id >> SHIFT).wrapping_sub(self.dropped)
    }
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), dropped: 0, pushed: 0, live: 0 }
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
    panic!("entry {id} does not exist: it was never added, or it was removed")
}

#[cfg(test)]
mod tests;

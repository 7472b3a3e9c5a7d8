//! The parts of an output that several sides of joins fill at the same time.

#![allow(unsafe_code)]

use std::{marker::PhantomData, mem, ptr};

/// A stretch of an output that is yet to be filled.
///
/// All stretches of one output are offsets from one pointer: a reference to a stretch would claim
/// it for itself, and neighbours could not become one again.
pub(crate) struct VacantSlice<'a, U> {
    base: *mut U,
    start: usize,
    len: usize,
    output: PhantomData<&'a mut [U]>,
}

// SAFETY: a stretch belongs to one side alone, which may write values there that may go to other
// threads.
unsafe impl<U: Send> Send for VacantSlice<'_, U> {}

impl<'a, U> VacantSlice<'a, U> {
    /// The first `len` places, and the rest.
    pub(crate) fn split_at(self, len: usize) -> (Self, Self) {
        let rest = self.len.checked_sub(len).expect("a stretch is divided where it is");
        (Self { len, ..self }, Self { start: self.start + len, len: rest, ..self })
    }

    /// Fills it with `values`, as far as they go.
    pub(crate) fn fill(self, values: impl Iterator<Item = U>) -> FilledSlice<'a, U> {
        let mut filled = FilledSlice { space: Self { len: 0, ..self } };
        for value in values.take(self.len) {
            // SAFETY: not more than `len` values are written, so this place is in the stretch,
            // which is ours alone.
            unsafe { self.base.add(self.start + filled.space.len).write(value) };
            filled.space.len += 1;
        }
        filled
    }
}

/// A stretch of an output that has been filled; dropping it drops what is in there.
pub(crate) struct FilledSlice<'a, U> {
    space: VacantSlice<'a, U>,
}

impl<U> FilledSlice<'_, U> {
    /// Two neighbouring stretches as one.
    pub(crate) fn append(mut self, next: Self) -> Self {
        let end = self.space.start + self.space.len;
        assert_eq!(end, next.space.start, "an output is filled without gaps");
        self.space.len += mem::ManuallyDrop::new(next).space.len;
        self
    }
}

impl<U> Drop for FilledSlice<'_, U> {
    fn drop(&mut self) {
        let VacantSlice { base, start, len, .. } = self.space;
        // SAFETY: so many values were written from there on, all in one output, and they belong to
        // this stretch alone.
        unsafe { ptr::slice_from_raw_parts_mut(base.add(start), len).drop_in_place() };
    }
}

/// A vector of `len` values, which `fill` puts into the space it is given.
pub(crate) fn collect_vec<U>(
    len: usize,
    fill: impl for<'a> FnOnce(VacantSlice<'a, U>) -> Option<FilledSlice<'a, U>>,
) -> Vec<U> {
    let mut values = Vec::with_capacity(len);
    let base = values.as_mut_ptr();
    let filled =
        fill(VacantSlice { base, start: 0, len, output: PhantomData }).map_or(0, |filled| {
            assert_eq!(filled.space.start, 0, "an output is filled from its start on");
            mem::ManuallyDrop::new(filled).space.len
        });
    assert_eq!(filled, len, "every value of an output is written");
    // SAFETY: `fill` can return nothing but what was filled of this space, since no other has its
    // lifetime; so that many values were written at the start, and nobody drops them any more.
    unsafe { values.set_len(filled) };
    values
}

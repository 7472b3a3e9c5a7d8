//! Collects values into a vector whose parts several threads fill at the same time.

#![allow(unsafe_code)]

use std::{marker::PhantomData, mem, ptr};

/// A part of an output that has not been filled.
///
/// All parts of one output are offsets from one pointer. With a reference per part, two adjacent
/// parts could not be joined again.
pub(crate) struct VacantSlice<'a, U> {
    base: *mut U,
    start: usize,
    len: usize,
    output: PhantomData<&'a mut [U]>,
}

// SAFETY: a part has one owner, and the values that it writes may be sent to other threads.
unsafe impl<U: Send> Send for VacantSlice<'_, U> {}

impl<'a, U> VacantSlice<'a, U> {
    /// Splits off the first `len` slots. Returns them and the rest.
    pub(crate) fn split_at(self, len: usize) -> (Self, Self) {
        let rest = self.len.checked_sub(len).expect("a part is split within its bounds");
        (Self { len, ..self }, Self { start: self.start + len, len: rest, ..self })
    }

    /// Writes `values` to the slots, as many as there are of both.
    pub(crate) fn fill(self, values: impl Iterator<Item = U>) -> FilledSlice<'a, U> {
        let mut filled = FilledSlice { slots: Self { len: 0, ..self } };
        for value in values.take(self.len) {
            // SAFETY: at most `len` values are written, so this slot is within the part, of which
            // `self` is the only owner.
            unsafe { self.base.add(self.start + filled.slots.len).write(value) };
            filled.slots.len += 1;
        }
        filled
    }
}

/// A part of an output that has been filled. Dropping it drops its values.
pub(crate) struct FilledSlice<'a, U> {
    slots: VacantSlice<'a, U>,
}

impl<U> FilledSlice<'_, U> {
    /// Joins this part and the next one, which must be adjacent.
    pub(crate) fn append(mut self, next: Self) -> Self {
        let end = self.slots.start + self.slots.len;
        assert_eq!(end, next.slots.start, "adjacent parts are joined");
        self.slots.len += mem::ManuallyDrop::new(next).slots.len;
        self
    }
}

impl<U> Drop for FilledSlice<'_, U> {
    fn drop(&mut self) {
        let VacantSlice { base, start, len, .. } = self.slots;
        // SAFETY: `len` values were written from `start` on, all in one output, and this part is
        // their only owner.
        unsafe { ptr::slice_from_raw_parts_mut(base.add(start), len).drop_in_place() };
    }
}

/// Returns a vector of `len` values, which `fill` writes to the part that it is given.
///
/// # Panics
/// If `fill` writes fewer values.
pub(crate) fn collect_vec<U>(
    len: usize,
    fill: impl for<'a> FnOnce(VacantSlice<'a, U>) -> Option<FilledSlice<'a, U>>,
) -> Vec<U> {
    let mut values = Vec::with_capacity(len);
    let base = values.as_mut_ptr();
    let filled =
        fill(VacantSlice { base, start: 0, len, output: PhantomData }).map_or(0, |filled| {
            assert_eq!(filled.slots.start, 0, "an output is filled from its start");
            mem::ManuallyDrop::new(filled).slots.len
        });
    assert_eq!(filled, len, "every slot of an output is filled");
    // SAFETY: `fill` can only return a part of this output, since no other has its lifetime. So
    // `filled` values were written at the start, and `ManuallyDrop` keeps them from being dropped.
    unsafe { values.set_len(filled) };
    values
}

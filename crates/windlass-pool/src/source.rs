//! What a parallel loop can split: slices and ranges of integers.

use std::{ops::Range, slice};

/// Items that can be split anywhere into parts, each of which can be iterated over.
///
/// Implemented for shared and mutable slices, and for ranges of integers. This trait is sealed and
/// cannot be implemented for other types.
///
/// ```
/// use windlass_pool::{Source, map};
///
/// fn squares(source: impl Source<Item = u32>) -> Vec<u32> {
///     map(source, |n| n * n)
/// }
/// assert_eq!(squares(1..4_u32), [1, 4, 9]);
/// ```
pub trait Source: sealed::Items {}

impl<S: sealed::Items> Source for S {}

pub(crate) mod sealed {
    /// Items that can be split anywhere.
    pub trait Split: Sized + Send {
        /// Returns the number of items.
        fn count(&self) -> usize;
        /// Splits off the first `count` items. Returns them and the rest.
        fn split_at(self, count: usize) -> (Self, Self);
    }

    /// Items that can be iterated over.
    pub trait Items: Split {
        /// The type of an item.
        type Item;
        /// The iterator over the items.
        type Iter: Iterator<Item = Self::Item>;

        /// Returns an iterator over the items, in order.
        fn items(self) -> Self::Iter;
    }
}

impl<T: Sync> sealed::Split for &[T] {
    fn count(&self) -> usize {
        self.len()
    }

    fn split_at(self, count: usize) -> (Self, Self) {
        self.split_at(count)
    }
}

impl<'a, T: Sync> sealed::Items for &'a [T] {
    type Item = &'a T;
    type Iter = slice::Iter<'a, T>;

    fn items(self) -> Self::Iter {
        self.iter()
    }
}

impl<T: Send> sealed::Split for &mut [T] {
    fn count(&self) -> usize {
        self.len()
    }

    fn split_at(self, count: usize) -> (Self, Self) {
        self.split_at_mut(count)
    }
}

impl<'a, T: Send> sealed::Items for &'a mut [T] {
    type Item = &'a mut T;
    type Iter = slice::IterMut<'a, T>;

    fn items(self) -> Self::Iter {
        self.iter_mut()
    }
}

macro_rules! range {
    ($($integer:ident as $unsigned:ident),*) => {$(
        impl sealed::Split for Range<$integer> {
            fn count(&self) -> usize {
                // The width of a signed range may exceed its type, but not the unsigned type.
                let width = self.end.wrapping_sub(self.start) as $unsigned;
                if self.is_empty() { 0 } else { usize::try_from(width).unwrap_or(usize::MAX) }
            }

            fn split_at(self, count: usize) -> (Self, Self) {
                let middle = self.start.wrapping_add(count as $integer);
                (self.start..middle, middle..self.end)
            }
        }

        impl sealed::Items for Range<$integer> {
            type Item = $integer;
            type Iter = Self;

            fn items(self) -> Self::Iter {
                self
            }
        }
    )*};
}

range!(usize as usize, u32 as u32, i32 as u32, u64 as u64, i64 as u64);

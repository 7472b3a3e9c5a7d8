//! What can be worked through in parts: slices and ranges of integers.

use std::{ops::Range, slice};

/// Something that can be divided anywhere, and each part worked through by itself.
///
/// Implemented for slices, shared or exclusive, and for ranges of integers. Sealed: its methods are
/// this crate's own business.
///
/// ```
/// use windlass_pool::{Source, map};
///
/// fn squares(source: impl Source<Item = u32>) -> Vec<u32> {
///     map(source, |n| n * n)
/// }
/// assert_eq!(squares(1..4_u32), [1, 4, 9]);
/// ```
pub trait Source: sealed::Parts {}

impl<S: sealed::Parts> Source for S {}

pub(crate) mod sealed {
    /// Something that can be divided anywhere.
    pub trait Divide: Sized + Send {
        /// How many items there are.
        fn count(&self) -> usize;
        /// The first `count` of them, and the rest.
        fn divide(self, count: usize) -> (Self, Self);
    }

    /// Something whose items can be had one by one.
    pub trait Parts: Divide {
        /// What it consists of.
        type Item;
        /// One after the other.
        type Items: Iterator<Item = Self::Item>;

        /// All of them in order.
        fn items(self) -> Self::Items;
    }
}

impl<T: Sync> sealed::Divide for &[T] {
    fn count(&self) -> usize {
        self.len()
    }

    fn divide(self, count: usize) -> (Self, Self) {
        self.split_at(count)
    }
}

impl<'a, T: Sync> sealed::Parts for &'a [T] {
    type Item = &'a T;
    type Items = slice::Iter<'a, T>;

    fn items(self) -> Self::Items {
        self.iter()
    }
}

impl<T: Send> sealed::Divide for &mut [T] {
    fn count(&self) -> usize {
        self.len()
    }

    fn divide(self, count: usize) -> (Self, Self) {
        self.split_at_mut(count)
    }
}

impl<'a, T: Send> sealed::Parts for &'a mut [T] {
    type Item = &'a mut T;
    type Items = slice::IterMut<'a, T>;

    fn items(self) -> Self::Items {
        self.iter_mut()
    }
}

macro_rules! range {
    ($($integer:ident as $unsigned:ident),*) => {$(
        impl sealed::Divide for Range<$integer> {
            fn count(&self) -> usize {
                // A signed range may be wider than its type reaches, but not than the unsigned one.
                let width = self.end.wrapping_sub(self.start) as $unsigned;
                if self.is_empty() { 0 } else { usize::try_from(width).unwrap_or(usize::MAX) }
            }

            fn divide(self, count: usize) -> (Self, Self) {
                let middle = self.start.wrapping_add(count as $integer);
                (self.start..middle, middle..self.end)
            }
        }

        impl sealed::Parts for Range<$integer> {
            type Item = $integer;
            type Items = Self;

            fn items(self) -> Self::Items {
                self
            }
        }
    )*};
}

range!(usize as usize, u32 as u32, i32 as u32, u64 as u64, i64 as u64);

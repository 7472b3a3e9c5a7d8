//! Small typed numbers that stand for things kept in columns.

use std::fmt;
use std::num::NonZeroU64;

/// A work of one engine, or one scheduler. Numbers start at 1 and are never used again there.
///
/// It does not say whose it is: given to another one, it stands for whatever work has this number
/// there, or for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(NonZeroU64);

impl WorkId {
    /// The id with this number; none for 0.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The number, from 1.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// The place of this work in a column that starts at 0.
    #[must_use]
    pub const fn index(self) -> usize {
        (self.0.get() - 1) as usize
    }

    /// The work at this place of a column that starts at 0.
    #[must_use]
    pub const fn from_index(index: usize) -> Self {
        Self(NonZeroU64::MIN.saturating_add(index as u64))
    }
}

impl fmt::Display for WorkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

macro_rules! column_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) u32);

        impl $name {
            /// The one with this number.
            #[must_use]
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            /// Its number, for storing it.
            #[must_use]
            pub const fn number(self) -> u32 {
                self.0
            }

            pub(crate) fn at(index: usize) -> Self {
                Self(u32::try_from(index).expect("fewer than 2^32 of a kind"))
            }

            pub(crate) const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

column_id! {
    /// One level of a [`CapacityTree`](crate::CapacityTree).
    LevelId
}
column_id! {
    /// Who takes from a [`CapacityTree`](crate::CapacityTree): an engine, or one that waits.
    ClientId
}
column_id! {
    /// A resource's name within one [`CapacityTree`](crate::CapacityTree).
    ResourceId
}
column_id! {
    /// What a work needs, known to one [`Engine`](crate::Engine); works of equal cost share it.
    CostId
}

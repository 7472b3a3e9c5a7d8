//! Typed ids of things stored in columns.

use std::fmt;
use std::num::NonZeroU64;

/// The id of a work within one engine or scheduler. Ids start at 1 and are never reused.
///
/// An id does not contain its engine: another engine takes it for its own work with this number, if
/// it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(NonZeroU64);

impl WorkId {
    /// Returns the id with this number, or `None` for 0.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// Returns the number, from 1.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns the index of this work in a column that starts at 0.
    #[must_use]
    pub const fn index(self) -> usize {
        (self.0.get() - 1) as usize
    }

    /// Returns the id of the work at this index of a column that starts at 0.
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
            /// Returns the id with this number.
            #[must_use]
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            /// Returns the number, for storing it.
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
    /// The id of a level of a [`CapacityTree`](crate::CapacityTree).
    LevelId
}
column_id! {
    /// The id of a client of a [`CapacityTree`](crate::CapacityTree): an engine or a waiting task.
    ClientId
}
column_id! {
    /// The id of a resource within one [`CapacityTree`](crate::CapacityTree).
    ResourceId
}
column_id! {
    /// The number of a worker within one [`Engine`](crate::Engine), which has a name for each, see
    /// [`Engine::worker_name`](crate::Engine::worker_name).
    WorkerId
}
column_id! {
    /// The id of a cost within one [`Engine`](crate::Engine); works of equal cost share it.
    CostId
}

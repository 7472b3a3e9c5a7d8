//! The ids of works, by which a scheduler recognizes its own: the engine's dense id, and the number of the
//! scheduler or source that issued it.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

use windlass_core as core;

/// The id of a work of a scheduler, or of a task of a [`PrioritySource`](crate::streams::PrioritySource).
///
/// A scheduler refuses the ids of other schedulers. Ids of one scheduler are numbered from 1, and never reused.
///
/// ```
/// use windlass::{SubmitError, WorkScheduler, work_fn};
///
/// let (here, there) = (WorkScheduler::default(), WorkScheduler::default());
/// let first = there.submit(work_fn("first", |_| async { Ok(()) }))?;
/// assert_eq!((first.number(), first.to_string().as_str()), (1, "1"));
///
/// let then = work_fn("then", |_| async { Ok(()) }).after([first]);
/// assert_eq!(here.submit(then), Err(SubmitError::OtherScheduler { work: first }));
/// assert!(!here.cancel(first) && there.cancel(first));
/// # Ok::<(), SubmitError>(())
/// ```
// Packed into 12 bytes, because a context for each attempt has one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(Rust, packed(4))]
pub struct WorkId {
    issuer: Issuer,
    work: core::WorkId,
}

impl WorkId {
    /// Returns the number of the work within its scheduler, from 1.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.work.get()
    }

    /// Returns the id within the engine of the issuer, for an id that is known to be its own.
    pub(crate) fn local(self) -> core::WorkId {
        self.work
    }

    pub(crate) fn issuer(self) -> Issuer {
        self.issuer
    }
}

impl fmt::Display for WorkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.number(), f)
    }
}

impl fmt::Debug for WorkId {
    /// Also shows the scheduler: `WorkId(7 of 1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Issuer(issuer) = self.issuer;
        write!(f, "WorkId({} of {issuer})", self.number())
    }
}

/// A scheduler or a source: what issues ids and recognizes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Issuer(NonZeroU32);

impl Issuer {
    /// Returns an issuer that differs from the last four billion.
    pub(crate) fn new() -> Self {
        static ISSUERS: AtomicU32 = AtomicU32::new(1);
        // Relaxed: only the number matters.
        let next = || NonZeroU32::new(ISSUERS.fetch_add(1, Ordering::Relaxed));
        Self(next().or_else(next).expect("no two numbers in a row are 0"))
    }

    #[inline]
    pub(crate) fn id(self, work: core::WorkId) -> WorkId {
        WorkId { issuer: self, work }
    }

    pub(crate) fn ids(self, works: impl IntoIterator<Item = core::WorkId>) -> Vec<WorkId> {
        works.into_iter().map(|work| self.id(work)).collect()
    }

    /// Returns the engine's id of a work, if this is its issuer.
    #[inline]
    pub(crate) fn own(self, id: WorkId) -> Option<core::WorkId> {
        (id.issuer == self).then_some(id.work)
    }
}

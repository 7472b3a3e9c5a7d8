//! The name of a work as users see it.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The name of a work: a `str` that is cheap to clone and compares with any other text.
///
/// ```
/// use windlass::{WorkScheduler, work_fn};
///
/// let scheduler = WorkScheduler::default();
/// let fetch = scheduler.submit(work_fn("fetch", |_ctx| async { Ok(()) }))?;
/// let snapshot = scheduler.snapshot_of(fetch).expect("it was submitted just now");
/// assert_eq!(snapshot.name, "fetch");
/// assert!(snapshot.name.starts_with("fe"));
/// # Ok::<(), windlass::SubmitError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkName(Arc<str>);

impl WorkName {
    /// Returns the name as a plain text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for WorkName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for WorkName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for WorkName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.0, f)
    }
}

impl fmt::Debug for WorkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl From<Arc<str>> for WorkName {
    fn from(name: Arc<str>) -> Self {
        Self(name)
    }
}

impl From<WorkName> for Arc<str> {
    fn from(name: WorkName) -> Self {
        name.0
    }
}

impl From<WorkName> for String {
    fn from(name: WorkName) -> Self {
        name.0.as_ref().to_owned()
    }
}

/// Compares names with another kind of text, from both sides.
macro_rules! compares_with {
    ($($text:ty),*) => {$(
        impl PartialEq<$text> for WorkName {
            fn eq(&self, other: &$text) -> bool {
                let other: &str = other.as_ref();
                &*self.0 == other
            }
        }

        impl PartialEq<WorkName> for $text {
            fn eq(&self, other: &WorkName) -> bool {
                other == self
            }
        }
    )*};
}

compares_with!(str, &str, String, Arc<str>);

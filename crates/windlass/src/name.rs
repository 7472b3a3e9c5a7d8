//! The name of a work: owned by its entry until an event or a snapshot shares it.

use std::fmt;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) enum Name {
    Owned(String),
    Shared(Arc<str>),
}

impl Name {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Owned(name) => name,
            Self::Shared(name) => name,
        }
    }

    /// Returns the name as something that several can have. Later calls return the same.
    pub(crate) fn share(&mut self) -> Arc<str> {
        if let Self::Owned(name) = self {
            *self = Self::Shared(Arc::from(std::mem::take(name)));
        }
        self.to_shared()
    }

    /// Returns a copy of the name, or the name itself if it is shared already.
    pub(crate) fn to_shared(&self) -> Arc<str> {
        match self {
            Self::Owned(name) => Arc::from(&**name),
            Self::Shared(name) => Arc::clone(name),
        }
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self::Owned(name.into())
    }
}

impl From<String> for Name {
    fn from(name: String) -> Self {
        Self::Owned(name)
    }
}

impl From<Arc<str>> for Name {
    fn from(name: Arc<str>) -> Self {
        Self::Shared(name)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

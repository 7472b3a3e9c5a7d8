//! The name of a work: short ones are kept in place, others and those that events or snapshots share behind an
//! [`Arc`].

use std::fmt;
use std::sync::Arc;

#[derive(Clone)]
pub(crate) enum Name {
    Short { len: u8, bytes: [u8; SHORT] },
    Shared(Arc<str>),
}

/// How many bytes a name may have to be kept in place: as many as fit beside the discriminant.
const SHORT: usize = 22;

const _: () = assert!(size_of::<Name>() == 24);

impl Name {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Short { len, bytes } => {
                std::str::from_utf8(&bytes[..usize::from(*len)]).expect("it was made from a text")
            }
            Self::Shared(name) => name,
        }
    }

    /// Returns the name as something that several can have. Later calls return the same.
    pub(crate) fn share(&mut self) -> Arc<str> {
        let name = self.to_shared();
        *self = Self::Shared(Arc::clone(&name));
        name
    }

    /// Returns a copy of the name, or the name itself if it is shared already.
    pub(crate) fn to_shared(&self) -> Arc<str> {
        match self {
            Self::Short { .. } => Arc::from(self.as_str()),
            Self::Shared(name) => Arc::clone(name),
        }
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        let mut bytes = [0; SHORT];
        match bytes.get_mut(..name.len()) {
            Some(place) => {
                place.copy_from_slice(name.as_bytes());
                Self::Short { len: name.len() as u8, bytes }
            }
            None => Self::Shared(name.into()),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_length_are_kept_as_they_were_given() {
        for len in [0, 1, SHORT - 1, SHORT, SHORT + 1, 300] {
            let text = "ä".repeat(len / 2) + &"x".repeat(len % 2);
            let mut name = Name::from(text.as_str());
            assert_eq!((name.as_str(), &*name.to_shared()), (&*text, &*text));
            let first = name.share();
            assert!(Arc::ptr_eq(&first, &name.share()), "a name is shared once");
        }
    }
}

//! What people call a work. There is a name for every work until it is forgotten, so a short one stands
//! where it is kept, without memory of its own, until somebody is told it.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

/// A name as it is kept.
#[derive(Clone)]
pub(crate) struct Name(Kept);

#[derive(Clone)]
enum Kept {
    Here { len: u8, bytes: [u8; HERE] },
    Shared(Arc<str>),
}

/// As much as there is room for beside the length, where a shared one has its place.
const HERE: usize = 22;

const _: () = assert!(size_of::<Name>() == 24);

thread_local! {
    /// The long name that came last: many works have the same, the name of their type.
    static LAST: RefCell<Arc<str>> = RefCell::default();
}

impl Name {
    pub(crate) fn new(name: &str) -> Self {
        let mut bytes = [0; HERE];
        match (bytes.get_mut(..name.len()), u8::try_from(name.len())) {
            (Some(place), Ok(len)) => {
                place.copy_from_slice(name.as_bytes());
                Self(Kept::Here { len, bytes })
            }
            _ => Self(Kept::Shared(last_or_new(name))),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        match &self.0 {
            Kept::Here { len, bytes } => {
                let text = std::str::from_utf8(&bytes[..usize::from(*len)]);
                text.expect("it was a text when it came")
            }
            Kept::Shared(name) => name,
        }
    }

    /// To be told to somebody; from now on it is shared.
    pub(crate) fn shared(&mut self) -> &Arc<str> {
        if let Kept::Here { .. } = self.0 {
            self.0 = Kept::Shared(self.as_str().into());
        }
        match &self.0 {
            Kept::Shared(name) => name,
            Kept::Here { .. } => unreachable!("it has just become shared"),
        }
    }

    /// The same for one who only looks, or has a copy of its own.
    pub(crate) fn to_shared(&self) -> Arc<str> {
        match &self.0 {
            Kept::Shared(name) => Arc::clone(name),
            Kept::Here { .. } => self.as_str().into(),
        }
    }
}

fn last_or_new(name: &str) -> Arc<str> {
    LAST.with_borrow_mut(|last| {
        if **last != *name {
            *last = name.into();
        }
        Arc::clone(last)
    })
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
    fn a_name_of_any_length_is_what_it_was() {
        let texts = (0..40).map(|len| "ü".repeat(len) + "x");
        for text in texts.chain([String::new()]) {
            let mut name = Name::new(&text);
            assert_eq!((name.as_str(), &*name.to_shared()), (&*text, &*text));
            assert_eq!(&**name.shared(), text);
            assert_eq!(name.clone().as_str(), text);
        }
    }

    #[test]
    fn one_that_was_told_is_told_again_without_a_copy() {
        let mut name = Name::new("short");
        let told = Arc::clone(name.shared());
        assert!(Arc::ptr_eq(&told, name.shared()) && Arc::ptr_eq(&told, &name.to_shared()));
    }

    #[test]
    fn works_with_one_long_name_share_it() {
        let long = "a name that is longer than there is room for";
        let (mut one, mut other) = (Name::new(long), Name::new(long));
        assert!(Arc::ptr_eq(one.shared(), other.shared()));
    }
}

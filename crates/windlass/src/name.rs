//! What people call a work. There is a name for every work until it is forgotten, so a short one stands
//! where it is kept, without memory of its own, until somebody is told it.

use std::cell::RefCell;
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

/// A name as it is kept.
#[derive(Clone)]
pub(crate) struct Name(Kept);

#[derive(Clone)]
enum Kept {
    /// The text, and in the last byte its length and one.
    Here([u8; HERE + 1]),
    Shared(Arc<str>),
}

/// As much as there is room for beside the length, where a shared one has its place.
const HERE: usize = 22;

const _: () = assert!(size_of::<Name>() == 24);

/// A name on its way to somebody else. It is in words, because a processor is held up by whatever is read
/// in other pieces than it has just been written in.
#[derive(Clone, Debug)]
pub(crate) enum Label {
    /// The bytes of one that is kept like that, of which the two last words have one in common.
    Here([u64; 2], NonZeroU64),
    Shared(Arc<str>),
}

const _: () = assert!(size_of::<Label>() == 24);

thread_local! {
    /// The long name that came last: many works have the same, the name of their type.
    static LAST: RefCell<Arc<str>> = RefCell::default();
}

impl Name {
    pub(crate) fn new(name: &str) -> Self {
        if name.len() > HERE {
            return Self(Kept::Shared(last_or_new(name)));
        }
        let mut bytes = [0; HERE + 1];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        bytes[HERE] = name.len() as u8 + 1;
        Self(Kept::Here(bytes))
    }

    pub(crate) fn as_str(&self) -> &str {
        match &self.0 {
            Kept::Here(bytes) => {
                let text = std::str::from_utf8(&bytes[..usize::from(bytes[HERE]) - 1]);
                text.expect("it was a text when it came")
            }
            Kept::Shared(name) => name,
        }
    }

    /// To be told to somebody; from now on it is shared.
    pub(crate) fn shared(&mut self) -> &Arc<str> {
        if let Kept::Here(_) = self.0 {
            self.0 = Kept::Shared(self.as_str().into());
        }
        match &self.0 {
            Kept::Shared(name) => name,
            Kept::Here(_) => unreachable!("it has just become shared"),
        }
    }

    /// The same for one who only looks, or has a copy of its own.
    pub(crate) fn to_shared(&self) -> Arc<str> {
        match &self.0 {
            Kept::Shared(name) => Arc::clone(name),
            Kept::Here(_) => self.as_str().into(),
        }
    }
}

impl Name {
    #[inline]
    pub(crate) fn label(&self) -> Label {
        match &self.0 {
            Kept::Here(bytes) => {
                let word = |from: usize| {
                    let word = bytes[from..].first_chunk();
                    u64::from_le_bytes(*word.expect("it is within"))
                };
                let last = NonZeroU64::new(word(15)).expect("a length and one is not nothing");
                Label::Here([word(0), word(8)], last)
            }
            Kept::Shared(name) => Label::Shared(Arc::clone(name)),
        }
    }
}

impl From<Label> for Name {
    fn from(label: Label) -> Self {
        Self(match label {
            Label::Here([first, second], last) => {
                let mut bytes = [0; HERE + 1];
                bytes[15..].copy_from_slice(&last.get().to_le_bytes());
                bytes[..8].copy_from_slice(&first.to_le_bytes());
                bytes[8..16].copy_from_slice(&second.to_le_bytes());
                Kept::Here(bytes)
            }
            Label::Shared(name) => Kept::Shared(name),
        })
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
    fn a_label_says_the_same() {
        for len in 0..40 {
            let text: String = ('a'..='z').cycle().take(len).collect();
            assert_eq!(Name::from(Name::new(&text).label()).as_str(), text);
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

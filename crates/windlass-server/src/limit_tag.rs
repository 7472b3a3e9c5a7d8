//! The tag of a process as a number, which it inherits whatever it does with its environment, group and
//! session.
//!
//! Every process that a command starts inherits its tags in an environment variable (`process_tag`), but
//! `env -i` clears them. Resource limits are inherited over fork, exec and `setsid`, so the number is the
//! soft limit on file locks (`RLIMIT_LOCKS`): since version 2.4.25 no Linux kernel enforces that limit, and
//! its usual value is "unlimited". The number follows from the tag, so it is stored nowhere, and a new
//! leader or the next holder of a lock can compute it. A process loses it only by setting that limit.
//!
//! One process has one number. A run inside a step gives its steps numbers of their own; a command
//! under a lock inside a step keeps the number of the step.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::LazyLock;

use libc::{RLIMIT_LOCKS, pid_t, prlimit64, rlimit64};

use crate::process_tag::{RUN_PREFIX, run_of};

/// The three highest bits of a tag: far above any limit that is meant as one, and neither the largest signed
/// nor the largest unsigned number, which programs use for "unlimited".
const TAG_BITS: u64 = 0b010 << 61;
const TAG_MASK: u64 = 0b111 << 61;
/// The lowest bits follow from the tag text, those between from the run, so that the attempts of a run are
/// known by their run as well.
const TEXT_BITS: u32 = 31;
const TEXT_MASK: u64 = (1 << TEXT_BITS) - 1;
/// How `/proc/PID/limits` names the limit.
const LIMIT_LABEL: &str = "Max file locks";

/// The limit of this process, which it never changes.
static OWN: LazyLock<Option<rlimit64>> = LazyLock::new(|| limit_of(0).ok());

/// The number that a process carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitTag(u64);

impl LimitTag {
    /// Returns the number for the tag `text`.
    fn of(text: &str) -> Self {
        let run = hash(run_of(text).unwrap_or(text));
        Self(TAG_BITS | (run << TEXT_BITS) & !TAG_MASK | hash(text) & TEXT_MASK)
    }

    /// Returns the tag of a process; none if it has none, or cannot be seen.
    pub(crate) fn of_process(pid: u32) -> Option<Self> {
        match limit_of(pid_t::try_from(pid).ok()?) {
            Ok(limit) => Self::from_limit(limit.rlim_cur),
            // The limits of other users' processes can only be read as text.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
                Self::from_limit(soft_limit(&limits)?)
            }
            Err(_) => None,
        }
    }

    fn from_limit(limit: u64) -> Option<Self> {
        (limit & TAG_MASK == TAG_BITS).then_some(Self(limit))
    }
}

/// The numbers of all processes that carry a tag: one, or, if the tag names a run, those of all its attempts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TagPattern {
    tag: LimitTag,
    mask: u64,
}

impl TagPattern {
    pub(crate) fn of(text: &str) -> Self {
        let is_run = run_of(text).is_some_and(|run| text.len() == RUN_PREFIX.len() + run.len());
        Self { tag: LimitTag::of(text), mask: if is_run { !TEXT_MASK } else { u64::MAX } }
    }

    pub(crate) fn matches(self, tag: LimitTag) -> bool {
        (tag.0 ^ self.tag.0) & self.mask == 0
    }
}

/// A tag that a new process can set on itself.
#[derive(Clone, Copy)]
pub(crate) struct NewTag(rlimit64);

impl NewTag {
    /// Returns the number for a new process that carries the tag `text`; none if it keeps that of this process,
    /// or if this process may not set it.
    pub(crate) fn for_child(text: &str) -> Option<Self> {
        let own = (*OWN)?;
        let keeps = run_of(text).is_none() && LimitTag::from_limit(own.rlim_cur).is_some();
        let LimitTag(number) = LimitTag::of(text);
        let limit = rlimit64 { rlim_cur: number, ..own };
        (!keeps && number <= own.rlim_max).then_some(Self(limit))
    }

    /// Sets the tag on the calling process. This is one plain system call, without allocation or locks, so
    /// it may be called between fork and exec. A process that may not set the tag goes without.
    pub(crate) fn set(&self) {
        // SAFETY: the pointer is to a place of its type that outlives the call.
        unsafe { prlimit64(0, RLIMIT_LOCKS, &raw const self.0, ptr::null_mut()) };
    }
}

/// Reads the limit of a process; 0 is the calling one.
fn limit_of(pid: pid_t) -> io::Result<rlimit64> {
    let mut limit = MaybeUninit::uninit();
    // SAFETY: the pointer is to a place of its type that outlives the call; nothing is changed.
    match unsafe { prlimit64(pid, RLIMIT_LOCKS, ptr::null(), limit.as_mut_ptr()) } {
        // SAFETY: the call has succeeded, and filled it in.
        0 => Ok(unsafe { limit.assume_init() }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Finds the soft limit in the text of `/proc/PID/limits`.
fn soft_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix(LIMIT_LABEL))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Returns FNV-1a, with its high bits mixed into the low ones. Every version of Windlass must compute the
/// same number, which the standard library does not promise.
fn hash(text: &str) -> u64 {
    let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_that_of_its_word_and_of_its_run() {
        let tag = LimitTag::of("run-1a2b-1-7-1");
        for text in ["run-1a2b-1-7-1", "run-1a2b"] {
            assert!(TagPattern::of(text).matches(tag), "{text}");
        }
        let others = ["run-1a2b-2-7-1", "run-1a2b-1-7-2", "run-1a2b-1-71", "run-1a2", "run-", "x"];
        for text in others {
            assert!(!TagPattern::of(text).matches(tag), "{text}");
        }
    }

    #[test]
    fn no_two_attempts_of_a_large_run_have_one_tag() {
        let tags = (0..20_000).map(|work| LimitTag::of(&format!("run-1a2b-1-{work}-1")).0);
        let tags: std::collections::BTreeSet<_> = tags.collect();
        assert_eq!(tags.len(), 20_000);
    }

    #[test]
    fn a_tag_is_never_taken_for_a_limit_nor_a_limit_for_a_tag() {
        let LimitTag(number) = LimitTag::of("run-1a2b-1-7-1");
        assert_eq!(LimitTag::from_limit(number), Some(LimitTag(number)));
        for limit in [0, 100, 1 << 40, i64::MAX as u64, u64::MAX] {
            assert_eq!(LimitTag::from_limit(limit), None, "{limit}");
        }
    }

    #[test]
    fn a_limit_is_parsed_from_proc_limits() {
        let limits = fs::read_to_string("/proc/self/limits").expect("this is Linux");
        let limit = limit_of(0).expect("it can be read").rlim_cur;
        assert_eq!(soft_limit(&limits).unwrap_or(u64::MAX), limit);
        let tagged = limits.replace("unlimited", "4693671547643874799");
        assert_eq!(soft_limit(&tagged), Some(4_693_671_547_643_874_799));
    }
}

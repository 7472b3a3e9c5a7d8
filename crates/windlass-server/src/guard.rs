//! Guards: conditions that are checked until they pass, or until a user decides.
//!
//! [`check()`] runs a condition once. A [`GuardPoll`] says when to check again and when time is up; it is
//! pure, so a caller can keep many. [`watch()`] keeps one, and waits. An event
//! that comes while a check runs is not lost: events are numbered, and a check remembers where they
//! stood when it began.

mod check;
mod guard_poll;
mod verdict;
mod waiting;
mod watch;

pub use self::check::{Broken, Check, CheckResult, NotYet, check};
pub(crate) use self::check::{CheckCommand, check_until_closed};
pub use self::guard_poll::{GuardPoll, PollStep, UsedUp};
pub use self::verdict::{DecidedBefore, Verdict, decide};
pub use self::waiting::waiting_guards;
pub use self::watch::{GuardEnd, GuardError, GuardNews, Watch, watch};

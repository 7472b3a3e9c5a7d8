//! A work as the engine stores it.

use crate::base::WorkBase;
use crate::input::{Extras, Submission};
use crate::phase::{IllegalStep, Phase, Step, StopReason};
use crate::queue::{Listing, Seq, Waiting};
use crate::{CostId, Timestamp, WorkId};

/// Kept small, because every work has one and new memory is the main cost of a submission.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Work {
    /// Private to this file, see [`Work::step`].
    phase: Phase,
    pub(in crate::engine) priority: i64,
    /// Its sequence number in the queue, which it keeps while it is granted or refused outside, and always if
    /// works are queued in the order of their submission.
    pub(in crate::engine) seq: Seq,
    pub(in crate::engine) ready_since: Timestamp,
    pub(in crate::engine) attempts: u32,
    pub(in crate::engine) retries_left: u32,
    pub(in crate::engine) cost: CostId,
    /// A work after whose failure this one would be needed has succeeded.
    pub(in crate::engine) unneeded: bool,
    pub(super) gate: Gate,
    extra: Extra,
}

/// What few works have: times of their own, and a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extra {
    None,
    Times,
    Family,
    TimesAndFamily,
}

/// What a work waits for besides its dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    None,
    Shut,
    Open,
}

const _: () = assert!(size_of::<Option<Work>>() == 48);

impl Work {
    /// Creates a work before its dependencies are known.
    #[inline]
    pub(super) fn new(new: Submission<'_>) -> Self {
        let Submission { cost, priority, retries, extras, .. } = new;
        Self {
            phase: Phase::Waiting,
            priority,
            seq: Seq::MIN,
            ready_since: Timestamp::ZERO,
            attempts: 0,
            retries_left: retries,
            cost,
            unneeded: false,
            gate: if extras.is_some_and(|extras| extras.gated) { Gate::Shut } else { Gate::None },
            extra: extras.map_or(Extra::None, Extra::of),
        }
    }

    /// Sets a new entry to what a base says.
    pub(super) fn restore(&mut self, base: &WorkBase) {
        self.phase = base.phase;
        self.attempts = base.attempts;
        self.seq = Seq::new(base.seq).expect("numbers in the queue begin with 1");
        self.ready_since = base.ready_since;
        self.unneeded = base.unneeded;
        if base.gate_open {
            self.gate = Gate::Open;
        }
    }

    #[inline]
    pub(in crate::engine) fn phase(&self) -> Phase {
        self.phase
    }

    /// Takes a step and returns the phase before it. Only this function stores a phase.
    #[inline(always)]
    pub(super) fn step(&mut self, work: WorkId, step: Step) -> Phase {
        let from = self.phase;
        let Ok(to) = from.after(step) else { refuse(work, from, step) };
        self.phase = to;
        from
    }

    /// Sets what was submitted of a work that has not begun. Its family stays.
    pub(super) fn replace(&mut self, new: Submission<'_>) {
        let Submission { cost, priority, retries, extras, .. } = new;
        (self.cost, self.priority, self.retries_left) = (cost, priority, retries);
        self.gate = if extras.is_some_and(|extras| extras.gated) { Gate::Shut } else { Gate::None };
    }

    /// Notes whether it has a time limit or a deadline.
    pub(super) fn set_timed(&mut self, is_timed: bool) {
        self.extra = Extra::new(is_timed, self.is_related());
    }

    /// Gives the work this place in the queue.
    #[inline]
    pub(super) fn join_queue(&mut self, seq: Seq, now: Timestamp) {
        self.seq = seq;
        self.ready_since = now;
    }

    /// Returns the step of a work in [`Phase::Waiting`] with `unmet` edges left.
    #[inline]
    pub(super) fn first_step(&self, unmet: u32, blocked: bool) -> Option<Step> {
        match unmet {
            _ if blocked => Some(Step::Block),
            0 if self.unneeded => Some(Step::Skip),
            0 if self.is_shut() => Some(Step::ReachGate),
            0 => Some(Step::Unblock),
            _ => None,
        }
    }

    pub(in crate::engine) fn is_shut(&self) -> bool {
        self.gate == Gate::Shut
    }

    /// Returns whether it has a time limit or a deadline.
    #[inline]
    pub(in crate::engine) fn is_timed(&self) -> bool {
        matches!(self.extra, Extra::Times | Extra::TimesAndFamily)
    }

    /// Returns whether it is or was a child or a parent.
    #[inline]
    pub(in crate::engine) fn is_related(&self) -> bool {
        matches!(self.extra, Extra::Family | Extra::TimesAndFamily)
    }

    /// Makes it a parent.
    pub(super) fn become_parent(&mut self) {
        self.extra = Extra::new(self.is_timed(), true);
    }

    #[inline]
    pub(in crate::engine) fn is_open(&self) -> bool {
        !self.phase.state().is_terminal()
    }

    /// Returns whether it has been asked to stop for a reason at least as grave.
    pub(in crate::engine) fn is_stopping(&self, asked: StopReason) -> bool {
        matches!(self.phase, Phase::Cancelling { why, .. } if why >= asked)
    }

    #[inline]
    pub(in crate::engine) fn listing(&self) -> Listing {
        Listing { cost: self.cost, priority: self.priority }
    }

    /// Returns its entry in a queue.
    #[inline]
    pub(in crate::engine) fn waiting(&self, work: WorkId) -> Waiting {
        Waiting { work, seq: self.seq, since: self.ready_since }
    }
}

impl Extra {
    fn of(extras: &Extras) -> Self {
        Self::new(extras.timeout.is_some() || extras.deadline.is_some(), extras.parent.is_some())
    }

    fn new(is_timed: bool, is_related: bool) -> Self {
        match (is_timed, is_related) {
            (false, false) => Self::None,
            (true, false) => Self::Times,
            (false, true) => Self::Family,
            (true, true) => Self::TimesAndFamily,
        }
    }
}

#[cold]
fn refuse(work: WorkId, from: Phase, step: Step) -> ! {
    panic!("work {work}: {:?}", IllegalStep { from, step })
}

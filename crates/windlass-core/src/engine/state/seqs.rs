//! The sequence numbers of works that are queued in the order of their submission, which users may change.
//!
//! The numbers are far apart, so that a work that is moved mostly finds one between two others. If there
//! is none left, all works get new ones, above all that there were. No two works ever share one.

use super::State;
use crate::WorkId;
use crate::engine::config::Precedence;
use crate::engine::effects::Effects;
use crate::queue::Seq;

/// The first number: far enough from 1 for works to be moved in front of it for ever.
const FIRST: u64 = 1 << 62;
/// The distance between a new number and the last one.
const GAP: u64 = 1 << 20;

/// Returns the number of the first work that is queued, or submitted.
pub(super) fn first(precedence: Precedence) -> Seq {
    match precedence {
        Precedence::Ready => Seq::MIN,
        Precedence::Submitted => Seq::new(FIRST).expect("it is not 0"),
    }
}

impl State {
    /// Returns a number above all others.
    pub(super) fn last_seq(&mut self) -> Seq {
        let last = self.next_seq;
        self.next_seq = last.saturating_add(GAP);
        last
    }

    /// Moves a work in front of another one, or to the end. Works that are queued as they become ready have no
    /// order to change.
    pub(super) fn move_before(
        &mut self,
        effects: &mut Effects<'_, '_>,
        work: WorkId,
        before: Option<WorkId>,
    ) {
        if self.precedence == Precedence::Ready {
            return;
        }
        let seq = match before {
            None => self.last_seq(),
            Some(before) => self.seq_before(work, before).unwrap_or_else(|| {
                let mut works: Vec<_> = self.works().map(|(work, own)| (own.seq, work)).collect();
                works.sort_unstable();
                self.spread(effects, works.into_iter().map(|(_, work)| work));
                self.seq_before(work, before).expect("they are far apart now")
            }),
        };
        self.put(effects, work, seq);
    }

    /// Gives numbers to works of a base from before works kept their numbers.
    pub(super) fn number_old(&mut self, effects: &mut Effects<'_, '_>) {
        let first = first(self.precedence);
        if self.next_seq < first {
            self.next_seq = first;
            let works: Vec<_> = self.works().map(|(work, _)| work).collect();
            self.spread(effects, works.into_iter());
        }
    }

    /// Returns a number between `before` and the work in front of it, if there is one left.
    fn seq_before(&self, work: WorkId, before: WorkId) -> Option<Seq> {
        let end = self.work(before).seq;
        let others = self.works().filter(|(other, own)| *other != work && own.seq < end);
        let Some(start) = others.map(|(_, own)| own.seq.get()).max() else {
            return Seq::new(end.get().saturating_sub(GAP));
        };
        let middle = start + (end.get() - start) / 2;
        Seq::new(middle).filter(|_| middle > start)
    }

    /// Gives new numbers to works, in this order.
    fn spread(&mut self, effects: &mut Effects<'_, '_>, works: impl Iterator<Item = WorkId>) {
        for work in works {
            let seq = self.last_seq();
            self.put(effects, work, seq);
        }
    }

    fn put(&mut self, effects: &mut Effects<'_, '_>, work: WorkId, seq: Seq) {
        let entry = &mut self.works[work.index()];
        let from = std::mem::replace(&mut entry.seq, seq);
        let at = self.places.at(work, entry.phase());
        effects.moved(self.now, work, from, entry, at);
    }
}

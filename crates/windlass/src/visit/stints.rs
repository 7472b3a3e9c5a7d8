//! Stints in a visit: how works are given ahead, and how everything becomes as if they had not been.

use std::sync::Arc;

use windlass_core::{Grant, Input};

use super::Visit;
use crate::context::AttemptCell;
use crate::state::{Mode, State};
use crate::stint::{Books, Ended, Stint};

impl Visit<'_> {
    /// Gives a runner works ahead, which it begins after `current`; how many.
    pub(crate) fn begin_stint(&mut self, stint: &Arc<Stint>, current: Grant, most: usize) -> usize {
        let State { watchers, mode, keep_ended, stints, .. } = &mut *self.state;
        let is_alone = !watchers.are_there() && *mode == Mode::Open && keep_ended.is_none();
        // Whoever has the capacity sees what is taken from it, and changes it, without coming here.
        let is_alone = is_alone && self.client.capacity.is_private();
        if !is_alone || !stints.may_begin() || self.state.entry(current.work).rare().is_some() {
            return 0;
        }
        let mut grants = self.engine(|engine, world| engine.take_alike(world, current, most));
        // Whoever waits for its end has to hear of it at once.
        let entries = &self.state.entries;
        let awaited = |grant: &Grant| entries.get(grant.work).is_none_or(|e| e.rare().is_some());
        if let Some(place) = grants.iter().position(awaited) {
            let rest = grants.split_off(place);
            self.engine(|engine, world| engine.hand_back_alike(world, rest));
        }
        let State { stints, entries, .. } = &mut *self.state;
        if grants.is_empty() {
            stints.rest();
            return 0;
        }
        let count = grants.len();
        let body = |grant: Grant| (grant, entries.get_mut(grant.work).expect(KNOWN).take_body());
        stints.begin(stint, current, grants.into_iter().map(body));
        count
    }

    /// Settles the stint that is on, if one is: everything is as if there had been none.
    #[inline]
    pub(crate) fn settle_stint(&mut self) {
        if let Some(stint) = self.state.stints.take() {
            self.settle(&stint);
        }
    }

    /// The same, unless it is one's own.
    #[inline]
    pub(crate) fn settle_unless(&mut self, own: Option<&Arc<Stint>>) {
        if !own.is_some_and(|own| self.state.stints.is_on(own)) {
            self.settle_stint();
        }
    }

    /// What has ended is put down, what is under way has begun, and the others are back in line.
    fn settle(&mut self, stint: &Stint) {
        let mut books = stint.books();
        let Some((current, is_known)) = books.close() else { return };
        let cell = self.put_down(&mut books.ended);
        if !is_known {
            self.apply(Input::Begin(current)).expect("nobody else has had a say in it");
            self.state.entry(current.work).attempt = cell;
        }
        self.hand_back(&mut books);
    }

    /// Puts down what has ended well; what the state has of the one who ran it.
    pub(crate) fn put_down(&mut self, ended: &mut Vec<Ended>) -> Option<Arc<AttemptCell>> {
        let first = ended.first()?.grant.work;
        let cell = self.state.entry(first).attempt.take();
        let grants = ended.iter().map(|ended| ended.grant);
        self.engine_alone(|engine, world| engine.succeed_alike(world, grants));
        for Ended { grant, body, took } in ended.drain(..) {
            self.state.entry(grant.work).stop_unseen(body, took);
            // With the first one its runner made the visit in which it got all of them.
            if grant.work != first {
                self.state.crew.note_end_in_stint(took);
            }
        }
        self.follow();
        cell
    }

    /// What was not begun is in line again.
    pub(crate) fn hand_back(&mut self, books: &mut Books) {
        if books.next.is_empty() {
            return;
        }
        let grants = books.next.iter().map(|(grant, _)| *grant);
        self.engine(|engine, world| engine.hand_back_alike(world, grants));
        for (grant, body) in books.next.drain(..) {
            self.state.entry(grant.work).body = Some(body);
        }
    }
}

const KNOWN: &str = "every work that the engine knows has an entry";

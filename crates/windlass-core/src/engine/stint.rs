//! A few works at a time for one who runs them one after the other: granted ahead, and reported
//! together.
//!
//! Whoever has them sees to it that nobody notices: before anybody else looks, what has ended is put
//! down, what is under way begins, and the others are back in line, where they were.

use super::Engine;
use crate::capacity::Demand;
use crate::fact::{Ending, Fact, Happening, World};
use crate::input::{Grant, Input};
use crate::phase::{Phase, Step};
use crate::queue::Line;
use crate::{Timestamp, Transition, WorkId};

/// Whether all works that ever came in are equally urgent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Urgency {
    seen: Option<i64>,
    differs: bool,
}

impl Urgency {
    #[inline]
    pub(super) fn note(&mut self, priority: i64) {
        self.differs |= *self.seen.get_or_insert(priority) != priority;
    }
}

impl Engine {
    /// Grants those who come next after `begun`, which is under way: so many at most, as long as they
    /// cost the same. What `begun` has taken is enough for all of them, one after the other; until
    /// they have ended or are handed back, more may be put down as taken than there is.
    ///
    /// None are granted where what happens until they begin could put somebody else before them, or
    /// where they have times or a family. That they are granted is not told.
    pub fn take_alike(&mut self, world: &mut World<'_>, begun: Grant, most: usize) -> Vec<Grant> {
        self.advance(world);
        self.lines.advance(self.now);
        let cost = self.works[begun.work.index()].cost;
        let most = most.min(self.lines.len());
        if most == 0 || self.ages() || !self.is_plain(begun.work) {
            return Vec::new();
        }
        let demand = &self.costs[cost.index()];
        if !world.capacity.can_pass_on(self.client, demand) || world.capacity.is_shared() {
            return Vec::new();
        }
        let grants = untold(world, |world| self.grant_alike(world, begun.work, most));
        world.capacity.put_down(self.client, &self.costs[cost.index()], grants.len() as u64, 0);
        grants
    }

    fn grant_alike(&mut self, world: &mut World<'_>, mut last: WorkId, most: usize) -> Vec<Grant> {
        let cost = self.works[last.index()].cost;
        let mut grants = Vec::with_capacity(most);
        while grants.len() < most
            && !self.may_let_others_ahead(last)
            && let Some((Line::Starting, next)) = self.lines.first(self.now)
            && next.cost == cost
            && self.is_plain(next.work)
        {
            self.make_bare_step(world, next.work, Step::Grant);
            let attempt = self.works[next.work.index()].attempts + 1;
            grants.push(Grant { work: next.work, attempt });
            last = next.work;
        }
        grants
    }

    /// Whether somebody may be put before those in line by the end of a work, or by the time until then.
    fn may_let_others_ahead(&self, work: WorkId) -> bool {
        let is_timed = self.timers.earliest() < Timestamp::MAX;
        self.urgency.differs && (is_timed || self.dag.has_targets(work.index()))
    }

    /// These have ended well, one after the other; those that were only granted have begun before.
    /// All of them are as [`Engine::take_alike`] has granted them.
    pub fn succeed_alike(
        &mut self,
        world: &mut World<'_>,
        grants: impl ExactSizeIterator<Item = Grant>,
    ) {
        self.advance(world);
        let times = grants.len() as u64;
        let mut cost = None;
        for grant in grants {
            cost = Some(self.works[grant.work.index()].cost);
            self.run_through(world, grant);
        }
        let Some(cost) = cost else { return };
        let demand: &Demand = &self.costs[cost.index()];
        let wakes = world.capacity.give_back_often(self.client, demand, times);
        self.wake(world, &wakes);
    }

    fn run_through(&mut self, world: &mut World<'_>, grant: Grant) {
        let Grant { work, attempt } = grant;
        if self.works[work.index()].phase == Phase::Granted {
            self.start(world, work, attempt);
            self.note(world, Fact { at: self.now, what: Happening::Started { work, attempt } });
        }
        self.make_bare_step(world, work, Step::Succeed);
        self.settle(world, work);
        let ended = Happening::Ended { work, attempt, ending: Ending::Success };
        self.note(world, Fact { at: self.now, what: ended });
    }

    /// These do not begin after all, and are in line again where they were. That is not told either.
    pub fn hand_back_alike(
        &mut self,
        world: &mut World<'_>,
        grants: impl IntoIterator<Item = Grant>,
    ) {
        // What time alone has changed by now is told.
        self.advance(world);
        untold(world, |world| {
            for grant in grants {
                let back = self.apply(world, Input::HandBack(grant));
                back.expect("nobody else has had a say in it");
            }
        });
    }

    fn is_plain(&self, work: WorkId) -> bool {
        self.works[work.index()].is_plain()
    }

    fn ages(&self) -> bool {
        self.config.ageing != crate::Ageing::NONE
    }
}

/// Nobody hears of what happens in `call`.
fn untold<T>(world: &mut World<'_>, call: impl FnOnce(&mut World<'_>) -> T) -> T {
    let mut aside: Option<&mut Vec<Transition>> = world.transitions.take();
    let result = call(world);
    world.transitions = aside.take();
    result
}

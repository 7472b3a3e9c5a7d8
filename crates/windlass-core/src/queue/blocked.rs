//! The groups that were refused, by the counter that refused them.
//!
//! A search asks for the first group that may fit by now. Only *open* counters are asked: those that
//! may have more room than when they refused. A counter where a search has found nothing that fits
//! is *tried*; one that is *watched* notifies the engine, or has a time at which to open again. So
//! a search costs as much as the counters that have changed, however many refuse something.
//!
//! Knows neither lanes nor priorities: the caller passes the best head of each group.

use std::collections::{BTreeMap, BTreeSet};

use super::CounterKey;
use super::rank::Best;
use super::tournament::{Contestant, Tournament};
use crate::{Amount, Timestamp};

#[derive(Clone, Debug, Default)]
pub(super) struct Blocked {
    counters: Vec<Refusing>,
    places: BTreeMap<CounterKey, u32>,
    /// The counters that refuse groups, each with the best of them.
    all: Tournament,
    /// Those that are open.
    open: Tournament,
    /// The counters that are not watched, and some that are.
    unwatched: Vec<u32>,
    tried: Vec<u32>,
    /// When time alone makes room.
    wakes: BTreeSet<(Timestamp, u32)>,
}

/// A counter and the groups that it refused, keyed by how much they want.
#[derive(Clone, Debug)]
struct Refusing {
    counter: CounterKey,
    groups: Tournament,
    trial: Trial,
    watch: WatchState,
    wake: Option<Timestamp>,
    /// Whether it is among the unwatched ones.
    listed: bool,
}

/// What a search knows of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// It may have more room than when it refused.
    Open,
    /// A search found nothing that fits since then.
    Tried,
    /// Nothing fits before it opens.
    Watched,
}

/// Whether the capacity still notifies this engine about the counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatchState {
    Kept,
    Gone,
}

/// Which counters are to be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unwatched {
    /// Those that have been tried.
    Tried,
    /// All, after a search that found nothing.
    All,
}

impl Blocked {
    pub(super) fn is_empty(&self) -> bool {
        self.counters.is_empty()
    }

    /// Returns whether a counter refuses any listed group.
    pub(super) fn has_groups(&self) -> bool {
        !self.all.is_empty()
    }

    pub(super) fn counter(&self, place: u32) -> CounterKey {
        self.counters[place as usize].counter
    }

    pub(super) fn is_watched(&self, place: u32) -> bool {
        self.counters[place as usize].trial == Trial::Watched
    }

    /// Returns whether the capacity notifies the engine when the counter may have more room.
    pub(super) fn notifies(&self, place: u32) -> bool {
        self.counters[place as usize].watch == WatchState::Kept
    }

    /// Returns the best of all refused groups.
    pub(super) fn best(&self) -> Best {
        self.all.best()
    }

    /// Returns the best group of all open counters, whether it fits or not.
    pub(super) fn best_open(&self) -> Best {
        self.open.best()
    }

    /// Returns when the first counter opens by time alone.
    pub(super) fn next_wake(&self) -> Option<Timestamp> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// Returns the place of a counter, and opens it, because it has just refused something.
    pub(super) fn refusing(&mut self, counter: CounterKey) -> u32 {
        let place = *self.places.entry(counter).or_insert_with(|| {
            self.counters.push(Refusing::new(counter));
            u32::try_from(self.counters.len() - 1).expect("fewer than 2^32 counters")
        });
        self.reopen(place, WatchState::Kept);
        place
    }

    /// Lists a group under its best head.
    pub(super) fn set(&mut self, place: u32, group: Contestant, best: Best) {
        self.counters[place as usize].groups.set(group, best);
        self.list(place);
    }

    /// Removes a group; a counter without groups opens no more by time.
    pub(super) fn remove(&mut self, place: u32, group: Contestant) {
        self.counters[place as usize].groups.remove(group);
        self.list(place);
    }

    /// Ends the wake-up of a counter that refuses nothing any more.
    pub(super) fn settle(&mut self, place: u32) {
        if self.counters[place as usize].groups.is_empty() {
            self.set_wake(place, None);
        }
    }

    /// Opens the counters whose wake-up is due.
    pub(super) fn advance(&mut self, now: Timestamp) {
        while let Some(&(at, place)) = self.wakes.first()
            && at <= now
        {
            self.set_wake(place, None);
            self.reopen(place, WatchState::Kept);
        }
    }

    /// Opens a counter, if it refused anything.
    pub(super) fn open(&mut self, counter: CounterKey, watch: WatchState) {
        if let Some(&place) = self.places.get(&counter) {
            self.reopen(place, watch);
        }
    }

    /// Opens all counters.
    pub(super) fn open_all(&mut self, watch: WatchState) {
        for place in 0..self.counters.len() {
            self.reopen(u32::try_from(place).expect("it has a place"), watch);
        }
    }

    /// Takes an open counter whose best group does not fit out of the contest. Returns the best of those
    /// that fit into `room`, if any does.
    pub(super) fn pass_by(&mut self, place: u32, room: i128) -> Best {
        self.open.remove(contestant(place));
        let refusing = &mut self.counters[place as usize];
        let fitting = refusing.fitting(room);
        if fitting == Best::default() {
            refusing.trial = Trial::Tried;
            self.tried.push(place);
        }
        fitting
    }

    /// Puts counters that were passed by into the contest again, unless nothing fits there.
    pub(super) fn return_to_contest(&mut self, passed: Vec<u32>) {
        passed.into_iter().for_each(|place| self.list(place));
    }

    /// Marks counters as watched. For each, calls `watch` with whether it is watched already and the
    /// least amount that a group wants; `sole` is the place and the amount of the only group with
    /// works, which is not listed. `watch` returns when time alone will make that much room.
    pub(super) fn watch(
        &mut self,
        which: Unwatched,
        sole: Option<Option<(u32, Amount)>>,
        watch: &mut impl FnMut(CounterKey, WatchState, Amount) -> Option<Timestamp>,
    ) {
        let tried = std::mem::take(&mut self.tried);
        let places = match which {
            Unwatched::Tried => tried,
            Unwatched::All => std::mem::take(&mut self.unwatched),
        };
        for place in places {
            let refusing = &mut self.counters[place as usize];
            refusing.listed &= which == Unwatched::Tried;
            if refusing.trial == Trial::Watched
                || (which == Unwatched::Tried && refusing.trial == Trial::Open)
            {
                continue;
            }
            refusing.trial = Trial::Watched;
            let least = match sole {
                Some(sole) => sole.filter(|(own, _)| *own == place).map(|(_, wanted)| wanted),
                None => refusing.groups.smallest().map(Amount::from_steps),
            };
            let wake = least.and_then(|least| watch(refusing.counter, refusing.watch, least));
            if least.is_some() {
                refusing.watch = WatchState::Kept;
            }
            self.open.remove(contestant(place));
            self.set_wake(place, wake.filter(|wake| *wake < Timestamp::MAX));
        }
    }

    fn reopen(&mut self, place: u32, watch: WatchState) {
        let refusing = &mut self.counters[place as usize];
        if watch == WatchState::Gone {
            refusing.watch = watch;
        }
        if refusing.trial == Trial::Open {
            return;
        }
        refusing.trial = Trial::Open;
        if !refusing.listed {
            refusing.listed = true;
            self.unwatched.push(place);
        }
        self.list(place);
    }

    /// Lists a counter under its best group.
    fn list(&mut self, place: u32) {
        let (refusing, key) = (&self.counters[place as usize], contestant(place));
        if refusing.groups.is_empty() {
            self.all.remove(key);
            self.open.remove(key);
            return;
        }
        let best = refusing.groups.best();
        self.all.set(key, best);
        if refusing.trial == Trial::Open {
            self.open.set(key, best);
        }
    }

    fn set_wake(&mut self, place: u32, wake: Option<Timestamp>) {
        let before = std::mem::replace(&mut self.counters[place as usize].wake, wake);
        if before != wake {
            before.map(|at| self.wakes.remove(&(at, place)));
            wake.map(|at| self.wakes.insert((at, place)));
        }
    }
}

impl Refusing {
    fn new(counter: CounterKey) -> Self {
        let (groups, watch) = (Tournament::default(), WatchState::Gone);
        Self { counter, groups, trial: Trial::Watched, watch, wake: None, listed: false }
    }

    fn fitting(&self, room: i128) -> Best {
        match u64::try_from(room) {
            Ok(room) => self.groups.best_up_to(room),
            Err(_) if room > 0 => self.groups.best(),
            Err(_) => Best::default(),
        }
    }
}

fn contestant(place: u32) -> Contestant {
    Contestant { size: 0, number: place }
}

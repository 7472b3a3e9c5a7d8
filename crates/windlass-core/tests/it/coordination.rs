//! Random histories of locks and semaphores, compared after every step with plain lists of holds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use windlass_core::{
    Answer, Claim, Claimed, CoordinationState, HolderId, LeaseTerms, Name, Need, Timestamp, Token,
};

const CAPACITY: u64 = 4;
const TIMEOUT_MS: u64 = 10;

#[derive(Clone, Debug)]
enum Call {
    /// Holder, names by number with their weights, priority.
    Claim(u8, Vec<(u8, u64)>, i64),
    Release(u8, u8),
    Heartbeat(u8, u8),
    /// Release and heartbeat with an old token.
    Stale(u8, u8, u64),
    Leave(u8),
    Kill(u8),
    Pass(u64),
    /// Exports and restores the state.
    Restart,
}

fn call() -> impl Strategy<Value = Call> {
    let holder = 0..6_u8;
    let needs = prop::collection::btree_map(0..4_u8, 1..=CAPACITY, 1..4)
        .prop_map(|needs| needs.into_iter().collect::<Vec<_>>());
    prop_oneof![
        8 => (holder.clone(), needs, 0..2_i64).prop_map(|(h, n, p)| Call::Claim(h, n, p)),
        5 => (holder.clone(), 0..4_u8).prop_map(|(h, n)| Call::Release(h, n)),
        3 => (holder.clone(), 0..4_u8).prop_map(|(h, n)| Call::Heartbeat(h, n)),
        1 => (holder.clone(), 0..4_u8, 0..9_u64).prop_map(|(h, n, t)| Call::Stale(h, n, t)),
        2 => holder.clone().prop_map(Call::Leave),
        1 => holder.prop_map(Call::Kill),
        3 => (0..2 * TIMEOUT_MS).prop_map(Call::Pass),
        1 => Just(Call::Restart),
    ]
}

/// Names 0 and 1 are locks, 2 and 3 semaphores.
fn name(number: u8) -> Name {
    match number {
        0 | 1 => Name::Lock(number.to_string()),
        _ => Name::Semaphore(number.to_string()),
    }
}

fn capacity(number: u8) -> u64 {
    if number < 2 { 1 } else { CAPACITY }
}

fn holder(number: u8) -> HolderId {
    HolderId::new(number.to_string())
}

/// One hold in the list.
#[derive(Clone, Debug)]
struct Held {
    name: u8,
    holder: u8,
    weight: u64,
    token: u64,
    beat: u64,
}

/// The state under test, and a list of what is held now.
#[derive(Default)]
struct History {
    state: CoordinationState,
    held: Vec<Held>,
    /// The largest token of each name.
    tokens: BTreeMap<u8, u64>,
    waiting: BTreeSet<u8>,
    now: u64,
}

impl History {
    fn start() -> Self {
        let mut history = History::default();
        for number in [2_u8, 3] {
            let declared = history.state.declare(&number.to_string(), CAPACITY, Timestamp::ZERO);
            declared.expect("it is new");
        }
        history
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_millis(self.now)
    }

    fn live(&self) -> impl Iterator<Item = &Held> {
        self.held.iter().filter(|held| self.now - held.beat <= TIMEOUT_MS)
    }

    fn in_use(&self, name: u8, besides: u8) -> u64 {
        let others = self.live().filter(|held| held.name == name && held.holder != besides);
        others.map(|held| held.weight).sum()
    }

    fn apply(&mut self, call: &Call) {
        match call {
            Call::Claim(who, needs, priority) => self.claim(*who, needs, *priority),
            Call::Release(who, what) => self.release(*who, *what),
            Call::Heartbeat(who, what) => self.heartbeat(*who, *what),
            Call::Stale(who, what, token) => self.stale(*who, *what, *token),
            Call::Leave(who) => {
                self.state.leave(&holder(*who), self.at());
                self.waiting.remove(who);
            }
            Call::Kill(who) => self.kill(*who),
            Call::Pass(millis) => self.now += millis,
            Call::Restart => {
                self.state = CoordinationState::restore(self.state.export());
            }
        }
        self.check();
    }

    fn claim(&mut self, who: u8, needs: &[(u8, u64)], priority: i64) {
        let weight = |&(what, weight): &(u8, u64)| (what, weight.min(capacity(what)));
        let needs: Vec<_> = needs.iter().map(weight).collect();
        let need = |&(what, weight): &(u8, u64)| Need { name: name(what), weight };
        let mut claim = Claim::new(holder(who), needs.iter().map(need).collect());
        claim.priority = priority;
        let heartbeat_timeout = Duration::from_millis(TIMEOUT_MS);
        claim.terms = LeaseTerms { heartbeat_timeout, max_hold: None };
        match self.state.claim(&claim, self.at()).expect("it makes sense") {
            Claimed::Held(holds) => {
                for ((what, weight), hold) in needs.into_iter().zip(holds) {
                    self.take(who, what, weight, hold.token.0);
                }
                self.waiting.remove(&who);
            }
            Claimed::Refused(refusals) => {
                let alone = self.waiting.is_empty();
                let full =
                    |&(what, weight): &(u8, u64)| weight > capacity(what) - self.in_use(what, who);
                assert!(!alone || needs.iter().any(full), "refused for no reason: {refusals:?}");
                self.waiting.insert(who);
            }
        }
    }

    fn take(&mut self, who: u8, what: u8, weight: u64, token: u64) {
        assert!(weight <= capacity(what) - self.in_use(what, who), "more than there is");
        let (now, live) = (self.now, self.live().any(|h| h.holder == who && h.name == what));
        let same = |held: &&mut Held| held.holder == who && held.name == what;
        match self.held.iter_mut().find(same).filter(|_| live) {
            Some(held) => {
                assert_eq!(held.token, token, "who has it keeps its token");
                (held.weight, held.beat) = (held.weight.max(weight), now);
            }
            None => {
                let before = self.tokens.insert(what, token).unwrap_or(0);
                assert!(token > before, "{token} after {before}");
                self.held.retain(|held| now - held.beat <= TIMEOUT_MS);
                self.held.push(Held { name: what, holder: who, weight, token, beat: now });
            }
        }
    }

    /// Returns the hold of this name in the list, which must agree with the state.
    fn find(&self, who: u8, what: u8) -> Option<Held> {
        self.held.iter().find(|held| held.holder == who && held.name == what).cloned()
    }

    fn release(&mut self, who: u8, what: u8) {
        let Some(held) = self.find(who, what) else { return };
        let live = self.now - held.beat <= TIMEOUT_MS;
        let answer = self.state.release(&name(what), &holder(who), Token(held.token), self.at());
        assert!(answer == Answer::Released || !live, "{answer:?}");
        self.held.retain(|other| other.holder != who || other.name != what);
    }

    fn heartbeat(&mut self, who: u8, what: u8) {
        let Some(held) = self.find(who, what) else { return };
        let live = self.now - held.beat <= TIMEOUT_MS;
        let answer = self.state.heartbeat(&name(what), &holder(who), Token(held.token), self.at());
        assert_eq!(answer == Answer::Refreshed, live, "{answer:?}");
        let now = self.now;
        let same = |held: &&mut Held| held.holder == who && held.name == what;
        self.held.iter_mut().filter(|_| live).find(same).into_iter().for_each(|h| h.beat = now);
    }

    fn stale(&mut self, who: u8, what: u8, token: u64) {
        let (name, holder, token) = (name(what), holder(who), Token(token));
        if self.state.leases(&name).any(|lease| lease.holder == holder && lease.token == token) {
            return;
        }
        let before = self.state.export();
        assert!(!self.state.release(&name, &holder, token, self.at()).is_yes());
        assert!(!self.state.heartbeat(&name, &holder, token, self.at()).is_yes());
        assert_eq!(self.state.export(), before, "nothing has changed");
    }

    /// Records that a holder is gone.
    fn kill(&mut self, who: u8) {
        for held in self.held.extract_if(.., |held| held.holder == who) {
            self.state.abandon(&name(held.name), Token(held.token));
        }
    }

    fn check(&self) {
        for number in 0..4 {
            let name = name(number);
            let live = self.state.leases(&name).filter(|lease| !lease.is_stale(self.at()));
            let live: Vec<_> = live.collect();
            let sum: u64 = live.iter().map(|lease| lease.weight).sum();
            assert!(sum <= capacity(number), "{live:?}");
            let listed = self.live().filter(|held| held.name == number).count();
            assert_eq!(live.len(), listed, "{live:?} and {:?}", self.held);
        }
    }

    /// Every notified waiter claims and every holder releases, until no waiter is left.
    fn finish(mut self) {
        for _ in 0..200 {
            let waiters = self.state.export().waiters;
            if waiters.is_empty() {
                return;
            }
            for held in std::mem::take(&mut self.held) {
                let (name, holder) = (name(held.name), holder(held.holder));
                self.state.release(&name, &holder, Token(held.token), self.at());
            }
            self.now += 2 * TIMEOUT_MS;
            let first = &waiters[0];
            let mut claim = Claim::new(first.holder.clone(), first.needs.clone());
            claim.priority = first.priority;
            let claimed = self.state.claim(&claim, self.at()).expect("it makes sense");
            let Claimed::Held(holds) = claimed else { panic!("the first is bound by nothing") };
            for hold in holds {
                self.state.release(&hold.name, &first.holder, hold.token, self.at());
            }
        }
        panic!("a waiter is left");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_history_has_two_holders_too_much_in_use_or_a_token_that_shrinks(
        calls in prop::collection::vec(call(), 1..80)
    ) {
        let mut history = History::start();
        calls.iter().for_each(|call| history.apply(call));
        history.finish();
    }
}

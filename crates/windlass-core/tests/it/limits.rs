//! Random histories of one limit that participants share, compared after every step with plain lists.
//!
//! A participant has many works and one place in the queue, at which its works claim.

use proptest::prelude::*;
use windlass_core::{
    Amount, Claim, Claimed, CoordinationState, HolderId, Name, Need, Timestamp, Token,
};

#[derive(Clone, Debug)]
enum Call {
    /// A participant wants so much for its next work, and waits at its place if it does not get it.
    Start(u8, u64),
    /// The oldest work of a participant ends.
    End(u8),
    /// A participant wants nothing any more.
    Leave(u8),
    Set(u64),
    Restart,
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        8 => (0..4_u8, 1..6_u64).prop_map(|(who, weight)| Call::Start(who, weight)),
        6 => (0..4_u8).prop_map(Call::End),
        1 => (0..4_u8).prop_map(Call::Leave),
        1 => (1..8_u64).prop_map(Call::Set),
        1 => Just(Call::Restart),
    ]
}

fn name() -> Name {
    Name::Limit("x".to_owned())
}

fn place(who: u8) -> HolderId {
    HolderId::new(format!("place {who}"))
}

/// The state under test, and what a naive reader of the rules would keep.
struct History {
    state: CoordinationState,
    limit: u64,
    /// The participant, the work, its weight and its token.
    held: Vec<(u8, HolderId, u64, Token)>,
    /// The participants that wait, and for how much.
    queue: Vec<(u8, u64)>,
    works: u64,
}

impl History {
    fn new() -> Self {
        let mut history = Self {
            state: CoordinationState::default(),
            limit: 0,
            held: Vec::new(),
            queue: Vec::new(),
            works: 0,
        };
        history.set(5);
        history
    }

    /// Returns what a participant may take: what is free, without what those before its place wait for.
    fn room(&self, who: u8) -> u64 {
        let held: u64 = self.held.iter().map(|(_, _, weight, _)| weight).sum();
        let ahead = self.queue.iter().take_while(|(waits, _)| *waits != who);
        let ahead: u64 = ahead.map(|(_, weight)| weight).sum();
        self.limit.saturating_sub(held).saturating_sub(ahead)
    }

    fn start(&mut self, who: u8, weight: u64) {
        self.works += 1;
        let work = HolderId::new(format!("work {}", self.works));
        let mut claim = Claim::new(work.clone(), vec![Need { name: name(), weight }]);
        claim.in_place_of = Some(place(who));
        let obstacles = self.state.obstacles(&claim, Timestamp::ZERO);
        let Ok(obstacles) = obstacles else {
            return assert!(weight > self.limit, "{weight} of {}: {obstacles:?}", self.limit);
        };
        assert_eq!(
            obstacles.is_empty(),
            weight <= self.room(who),
            "{weight} for {who}: {obstacles:?}"
        );
        if !obstacles.is_empty() {
            return self.wait(who, weight);
        }
        let claimed = self.state.claim(&claim, Timestamp::ZERO).expect("it makes sense");
        let Claimed::Held(holds) = claimed else { panic!("nothing stood in its way") };
        self.held.push((who, work, weight, holds[0].token));
        self.leave(who);
    }

    /// Takes a place in the queue. One that waits for something else is last again.
    fn wait(&mut self, who: u8, weight: u64) {
        let claim = Claim::new(place(who), vec![Need { name: name(), weight }]);
        let claimed = self.state.claim(&claim, Timestamp::ZERO).expect("it makes sense");
        if let Claimed::Held(holds) = claimed {
            panic!("{who} was refused before: {holds:?}");
        }
        if !self.queue.contains(&(who, weight)) {
            self.queue.retain(|(waits, _)| *waits != who);
            self.queue.push((who, weight));
        }
    }

    fn end(&mut self, who: u8) {
        let Some(at) = self.held.iter().position(|(by, ..)| *by == who) else { return };
        let (_, work, _, token) = self.held.remove(at);
        assert!(self.state.release(&name(), &work, token, Timestamp::ZERO).is_yes());
    }

    fn leave(&mut self, who: u8) {
        self.state.leave(&place(who), Timestamp::ZERO);
        self.queue.retain(|(waits, _)| *waits != who);
    }

    fn set(&mut self, limit: u64) {
        self.limit = limit;
        let left = self.state.set_limit("x", Amount::from_steps(limit), Timestamp::ZERO);
        let gone = self.queue.extract_if(.., |(_, weight)| *weight > limit);
        assert_eq!(left, gone.map(|(who, _)| place(who)).collect::<Vec<_>>());
    }

    fn apply(&mut self, call: &Call) {
        match call {
            Call::Start(who, weight) => self.start(*who, *weight),
            Call::End(who) => self.end(*who),
            Call::Leave(who) => self.leave(*who),
            Call::Set(limit) => self.set(*limit),
            Call::Restart => self.state = CoordinationState::restore(self.state.export()),
        }
        for who in 0..4 {
            let room = self.state.room_at(&name(), &place(who), 0, |_| false, Timestamp::ZERO);
            assert_eq!(room, self.room(who), "for {who} after {call:?}");
        }
    }

    /// Everything ends, and each participant gets what it waits for in its turn.
    fn finish(mut self) {
        for who in 0..4 {
            while self.held.iter().any(|held| held.0 == who) {
                self.end(who);
            }
        }
        while let Some((who, weight)) = self.queue.first().copied() {
            self.start(who, weight);
            assert!(
                self.queue.iter().all(|(waits, _)| *waits != who),
                "the first is bound by nothing"
            );
            self.end(who);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_history_gives_more_than_the_limit_or_passes_a_participant_that_waits(
        calls in prop::collection::vec(call(), 1..80)
    ) {
        let mut history = History::new();
        calls.iter().for_each(|call| history.apply(call));
        history.finish();
    }
}

//! The steps of a random run.

use proptest::prelude::*;
use windlass_core::Place;

use super::model::{Amounts, NAMES, PARENTS, Spot};

/// One step of a random run. Indices are taken modulo the number of entries.
#[derive(Clone, Debug)]
pub(super) enum Step {
    AddClient {
        level: usize,
        priority: i16,
    },
    RemoveClient {
        client: usize,
    },
    Ask {
        client: usize,
        amounts: Amounts,
        place: Place,
        then: Then,
    },
    Force {
        client: usize,
        amounts: Amounts,
    },
    GiveBack {
        permit: usize,
    },
    GiveBackMore {
        client: usize,
        amounts: Amounts,
    },
    Reconcile {
        permit: usize,
        actual: Amounts,
    },
    Withdraw {
        client: usize,
    },
    /// A queued client retries its demand.
    AskAgain {
        client: usize,
    },
    SetLimit {
        spot: Spot,
        limit: u64,
    },
    SetRate {
        spot: Spot,
        rate: (u64, u64, u64),
    },
    SetQuota {
        spot: Spot,
        quota: (u64, u64),
    },
    Wait {
        nanos: u64,
    },
    TurnBack {
        nanos: u64,
    },
}

/// What a refused client does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Then {
    Leave,
    Watch,
    Reserve { owner: u64 },
    ReserveAndWatch,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let any = any::<usize>();
    let amounts = || prop::array::uniform3(prop_oneof![Just(0u64), 0..5u64]);
    let spot = || (0..PARENTS.len(), 0..NAMES.len());
    let places = [Place::First, Place::Later, Place::Resuming, Place::ResumingLater];
    let place = prop::sample::select(places.to_vec());
    let then = prop_oneof![
        1 => Just(Then::Leave),
        1 => Just(Then::Watch),
        3 => (0..2u64).prop_map(|owner| Then::Reserve { owner }),
        3 => Just(Then::ReserveAndWatch),
    ];
    prop_oneof![
        1 => (0..PARENTS.len(), prop::sample::select(vec![i16::MIN, -1, 0, 1, i16::MAX]))
            .prop_map(|(level, priority)| Step::AddClient { level, priority }),
        1 => any.prop_map(|client| Step::RemoveClient { client }),
        9 => (any, amounts(), place, then).prop_map(|(client, amounts, place, then)| {
            Step::Ask { client, amounts, place, then }
        }),
        1 => (any, amounts()).prop_map(|(client, amounts)| Step::Force { client, amounts }),
        5 => any.prop_map(|permit| Step::GiveBack { permit }),
        1 => (any, amounts()).prop_map(|(client, amounts)| Step::GiveBackMore { client, amounts }),
        2 => (any, amounts()).prop_map(|(permit, actual)| Step::Reconcile { permit, actual }),
        1 => any.prop_map(|client| Step::Withdraw { client }),
        4 => any.prop_map(|client| Step::AskAgain { client }),
        3 => (spot(), 0..12u64).prop_map(|(spot, limit)| Step::SetLimit { spot, limit }),
        2 => (spot(), (1..5u64, 1..9u64, 1..7u64)).prop_map(|(spot, rate)| Step::SetRate { spot, rate }),
        1 => (spot(), (1..7u64, 1..20u64)).prop_map(|(spot, quota)| Step::SetQuota { spot, quota }),
        4 => (0..12u64).prop_map(|nanos| Step::Wait { nanos }),
        1 => (0..12u64).prop_map(|nanos| Step::TurnBack { nanos }),
    ]
}

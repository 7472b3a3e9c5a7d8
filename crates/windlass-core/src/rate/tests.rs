use super::*;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(nanos)
}

fn bucket(amount: u64, per: u64, burst: u64) -> Bucket {
    let [amount, burst] = [amount, burst].map(Amount::from_steps);
    let rate = Rate { amount, per: Duration::from_nanos(per), burst };
    Bucket::new(rate, Timestamp::ZERO).expect("a sound rate")
}

fn window(amount: u64, length: u64) -> Window {
    let quota = Quota { amount: Amount::from_steps(amount), window: Duration::from_nanos(length) };
    Window::new(quota, Timestamp::ZERO).expect("a sound quota")
}

#[test]
fn a_bucket_starts_full_and_never_holds_more() {
    let bucket = bucket(3, 7, 5);
    assert_eq!((bucket.free(at(0)), bucket.free(Timestamp::MAX)), (5, 5));
}

#[test]
fn tokens_come_evenly_and_nothing_is_rounded_away() {
    let mut bucket = bucket(3, 7, 5);
    bucket.charge(5, at(0));
    // Three in seven nanoseconds: the n-th comes as soon as 3 t >= 7 n.
    let times = [(1, 3), (2, 5), (3, 7), (4, 10), (5, 12)];
    for (steps, time) in times {
        assert_eq!(bucket.when(steps, at(0)), at(time));
        assert!(bucket.has(steps, at(time)) && !bucket.has(steps, at(time - 1)));
    }
    // Taking each one as it arrives loses no fractions.
    for time in 1..=7_000 {
        while bucket.has(1, at(time)) {
            bucket.charge(1, at(time));
        }
    }
    assert_eq!(bucket.when(1, at(7_000)), at(7_003), "3000 have been taken, not one less");
}

#[test]
fn a_debt_is_worked_off_by_time_alone() {
    let mut bucket = bucket(1, 10, 2);
    bucket.charge(7, at(0));
    assert_eq!((bucket.free(at(0)), bucket.free(at(49)), bucket.free(at(50))), (-5, -1, 0));
    assert_eq!(bucket.when(1, at(0)), at(60));
}

#[test]
fn what_is_put_back_never_overflows_the_burst() {
    let mut bucket = bucket(1, 10, 2);
    bucket.charge(-100, at(0));
    assert_eq!(bucket.free(at(0)), 2);
}

#[test]
fn an_earlier_time_counts_as_the_latest_seen() {
    let mut bucket = bucket(1, 10, 2);
    bucket.charge(2, at(100));
    bucket.charge(0, at(50));
    assert_eq!((bucket.free(at(40)), bucket.free(at(110))), (0, 1));

    let mut window = window(2, 10);
    window.charge(2, at(25));
    window.charge(0, at(5));
    assert_eq!((window.free(at(0)), window.free(at(30))), (0, 2));
}

#[test]
fn another_rate_keeps_what_has_gathered() {
    let mut slow = bucket(1, 10, 4);
    slow.charge(3, at(0));
    let fast = slow.at_rate(bucket(5, 10, 2).rate(), at(10)).expect("a sound rate");
    assert_eq!(fast.free(at(10)), 2, "two have gathered");
    let small = slow.at_rate(bucket(1, 10, 1).rate(), at(10)).expect("a sound rate");
    assert_eq!(small.free(at(10)), 1, "but no more than the new burst");
    slow.charge(8, at(10));
    let debt = slow.at_rate(bucket(1, 1, 4).rate(), at(10)).expect("a sound rate");
    assert_eq!(debt.free(at(10)), -6, "nor is a debt forgotten");
}

#[test]
fn windows_follow_each_other_from_the_origin() {
    let mut window = window(5, 10);
    window.charge(4, at(19));
    assert_eq!((window.free(at(19)), window.free(at(20))), (1, 5));
    assert_eq!((window.when(1, at(19)), window.when(2, at(19))), (at(19), at(20)));
    window.charge(-9, at(19));
    assert_eq!(window.free(at(19)), 5, "what is put back is never more than the quota");
}

#[test]
fn another_quota_keeps_what_the_window_has_used() {
    let mut window = window(5, 10);
    window.charge(4, at(3));
    let quota = Quota { amount: Amount::from_steps(6), window: Duration::from_nanos(20) };
    let longer = window.under(quota, at(4)).expect("a sound quota");
    assert_eq!((longer.free(at(19)), longer.free(at(20))), (2, 6));
    assert_eq!(window.under(quota, at(12)).map(|window| window.free(at(12))), Ok(6));
    let quota = Quota { window: Duration::from_nanos(1), ..quota };
    let shorter = window.under(quota, at(1)).expect("a sound quota");
    assert_eq!((shorter.free(at(2)), shorter.free(at(4))), (2, 6), "the latest time seen was 3");
}

#[test]
fn absurd_numbers_saturate() {
    let mut huge = bucket(u64::MAX, 1, u64::MAX);
    for _ in 0..3 {
        huge.charge(i128::MAX, at(0));
    }
    assert_eq!(huge.free(at(0)), i128::MIN, "as deep in debt as numbers go");
    assert_eq!(huge.when(1, at(0)), at((1 << 63) + 1));
    assert!(!huge.has(i128::MAX, Timestamp::MAX));

    let mut slow = bucket(1, u64::MAX, 1);
    slow.charge(1, at(0));
    assert_eq!(slow.when(1, at(0)), Timestamp::MAX, "the last moment there is");
    assert_eq!(slow.when(2, at(0)), Timestamp::MAX, "never");

    let mut long = window(1, u64::MAX);
    long.charge(i128::MAX, at(0));
    long.charge(i128::MAX, at(0));
    assert_eq!(long.when(1, at(0)), Timestamp::MAX);
    assert_eq!(long.free(Timestamp::MAX), 1, "which begins the second window");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let rate = |amount, per, burst| {
        let rate =
            Rate { amount: Amount::from_steps(amount), per, burst: Amount::from_steps(burst) };
        Bucket::new(rate, Timestamp::ZERO).map(|_| ())
    };
    let second = Duration::from_secs(1);
    assert_eq!(rate(0, second, 1), Err(RateError::ZeroAmount));
    assert_eq!(rate(1, second, 0), Err(RateError::ZeroBurst));
    assert_eq!(rate(1, Duration::ZERO, 1), Err(RateError::ZeroPeriod));
    assert_eq!(rate(1, Duration::MAX, 1), Err(RateError::TooLong { period: Duration::MAX }));
    let longest = Duration::from_nanos(u64::MAX);
    assert!(matches!(rate(1, longest, u64::MAX), Err(RateError::TooLarge { .. })));
    let quota = |amount, window| {
        Window::new(Quota { amount: Amount::from_steps(amount), window }, Timestamp::ZERO)
            .map(|_| ())
    };
    assert_eq!(quota(0, second), Err(RateError::ZeroAmount));
    assert_eq!(quota(1, Duration::ZERO), Err(RateError::ZeroPeriod));
    assert_eq!(quota(1, Duration::MAX), Err(RateError::TooLong { period: Duration::MAX }));
}

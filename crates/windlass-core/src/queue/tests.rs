use proptest::prelude::*;

use super::*;

/// The queue as a plain list that computes every effective priority at each instant.
#[derive(Default)]
struct Model {
    rate: i128,
    /// In nanoseconds.
    per: i128,
    cap: Option<i128>,
    works: Vec<Listed>,
    /// By cost: the counter that refused it, and how much it wants.
    blocked_by: [Option<(usize, u64)>; COSTS],
    open: [bool; CELLS],
}

#[derive(Clone, Copy)]
struct Listed {
    listing: Listing,
    waiting: Waiting,
}

const COSTS: usize = 4;
const CELLS: usize = 2;

fn number(counter: CounterKey) -> usize {
    match counter {
        CounterKey::Resource { resource, .. } => resource.index(),
        CounterKey::Workers(_) => panic!("no workers here"),
    }
}

fn counter(number: usize) -> CounterKey {
    CounterKey::Resource { level: LevelId::at(0), resource: ResourceId::at(number) }
}

impl Model {
    fn effective(&self, listed: &Listed, now: Timestamp) -> i128 {
        let age = i128::from(now.as_nanos()) - i128::from(listed.waiting.since.as_nanos());
        let boost = self.rate * age;
        let boost = self.cap.map_or(boost, |cap| boost.min(cap * self.per));
        i128::from(listed.listing.priority) * 10_000 * self.per + boost
    }

    fn first(&self, now: Timestamp, may: impl Fn(usize) -> bool) -> Option<WorkId> {
        let candidates = self.works.iter().filter(|listed| may(listed.listing.cost.index()));
        let first = candidates
            .min_by_key(|listed| (Reverse(self.effective(listed, now)), listed.waiting.seq));
        first.map(|listed| listed.waiting.work)
    }

    fn may_fit(&self, cost: usize, room: [i128; CELLS]) -> bool {
        self.blocked_by[cost].is_none_or(|(counter, wanted)| {
            self.open[counter] && i128::from(wanted) <= room[counter]
        })
    }
}

#[derive(Clone, Debug)]
enum Call {
    Insert {
        cost: u32,
        priority: i64,
    },
    Remove(prop::sample::Index),
    /// Removes a work and inserts it again at its old place.
    Return(prop::sample::Index),
    Pass(u64),
    Park {
        cost: usize,
        counter: usize,
        wanted: u64,
    },
    Open,
    OpenOne(usize),
    Close,
    Ask([i128; CELLS]),
}

fn priority() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -3..3i64, 1 => Just(i64::MIN), 1 => Just(i64::MAX), 1 => any::<i64>()]
}

fn call() -> impl Strategy<Value = Call> {
    let room = prop_oneof![-5..20i128, Just(i128::MAX)];
    prop_oneof![
        6 => (0..COSTS as u32, priority()).prop_map(|(cost, priority)| Call::Insert { cost, priority }),
        3 => any::<prop::sample::Index>().prop_map(Call::Remove),
        1 => any::<prop::sample::Index>().prop_map(Call::Return),
        3 => (0..4_000_000u64).prop_map(Call::Pass),
        1 => (0..20_000_000_000_000u64).prop_map(Call::Pass),
        2 => (0..COSTS, 0..CELLS, 0..15u64)
            .prop_map(|(cost, counter, wanted)| Call::Park { cost, counter, wanted }),
        1 => Just(Call::Open),
        2 => (0..CELLS).prop_map(Call::OpenOne),
        1 => Just(Call::Close),
        4 => [room.clone(), room].prop_map(Call::Ask),
    ]
}

/// A queue and its model, driven alike.
struct Pair {
    queue: ReadyQueue,
    model: Model,
    now: Timestamp,
    next_seq: u64,
}

impl Pair {
    /// Creates both with an ageing of `rate` steps per millisecond.
    fn new(rate: u64, cap: Option<u64>) -> Self {
        Self::ageing(rate, 1_000_000, cap)
    }

    fn ageing(rate: u64, per_ns: u64, cap: Option<u64>) -> Self {
        let per = std::time::Duration::from_nanos(per_ns);
        let ageing = Ageing::per(Amount::from_steps(rate), per, cap.map(Amount::from_steps));
        let (rate, per, cap) = (i128::from(rate), i128::from(per_ns), cap.map(i128::from));
        let model = Model { rate, per, cap, ..Model::default() };
        let queue = ReadyQueue::new(ageing.expect("a small rate"));
        Self { queue, model, now: Timestamp::ZERO, next_seq: 0 }
    }

    fn apply(&mut self, call: &Call) {
        match *call {
            Call::Insert { cost, priority } => self.insert(cost, priority),
            Call::Remove(index) => drop(self.take(index)),
            Call::Return(index) => {
                if let Some(listed) = self.take(index) {
                    self.put(listed);
                }
            }
            Call::Pass(nanos) => {
                self.now = Timestamp::from_nanos(self.now.as_nanos() + nanos);
                self.queue.advance(self.now);
            }
            Call::Park { cost, counter: number, wanted } => self.block(cost, number, wanted),
            Call::Open => {
                self.queue.unblock_all(WatchState::Gone);
                self.model.open = [true; CELLS];
            }
            Call::OpenOne(number) => {
                self.queue.unblock_at(counter(number), WatchState::Kept);
                self.model.open[number] = true;
            }
            Call::Close => {
                self.queue.watch_blocked(Unwatched::All, &mut |_, _, _| None);
                self.model.open = [false; CELLS];
            }
            Call::Ask(room) => self.ask(room),
        }
    }

    fn insert(&mut self, cost: u32, priority: i64) {
        self.next_seq += 1;
        let work = WorkId::from_index(self.next_seq as usize);
        let seq = Seq::new(self.next_seq).expect("they begin with 1");
        let waiting = Waiting { work, seq, since: self.now };
        self.put(Listed { listing: Listing { cost: CostId(cost), priority }, waiting });
    }

    fn put(&mut self, listed: Listed) {
        self.queue.insert(listed.listing, listed.waiting, self.now);
        self.model.works.push(listed);
    }

    fn take(&mut self, index: prop::sample::Index) -> Option<Listed> {
        if self.model.works.is_empty() {
            return None;
        }
        let listed = self.model.works.swap_remove(index.index(self.model.works.len()));
        self.queue.remove(listed.listing, listed.waiting.seq, self.now);
        let cost = listed.listing.cost;
        if self.model.works.iter().all(|other| other.listing.cost != cost) {
            self.model.blocked_by[cost.index()] = None;
        }
        Some(listed)
    }

    fn block(&mut self, cost: usize, number: usize, wanted: u64) {
        if self.model.works.iter().any(|listed| listed.listing.cost.index() == cost) {
            self.queue.block(CostId::at(cost), counter(number), Amount::from_steps(wanted));
            self.model.blocked_by[cost] = Some((number, wanted));
            self.model.open[number] = true;
        }
    }

    fn ask(&mut self, room: [i128; CELLS]) {
        let asked = |counter: CounterKey| room[number(counter)];
        let first = self.queue.first(self.now).map(|candidate| candidate.work);
        assert_eq!(first, self.model.first(self.now, |_| true));
        let open = self.queue.first_open(self.now, asked).map(|candidate| candidate.work);
        assert_eq!(open, self.model.first(self.now, |cost| self.model.may_fit(cost, room)));
        self.watch_tried(room);
        assert_eq!(self.queue.foremost(self.now), first);
        self.ask_places();
        assert_eq!(self.queue.len(), self.model.works.len());
        assert_eq!(self.queue.iter().count(), self.model.works.len());
    }
}

impl Pair {
    /// Watches the counters where the search has found nothing that fits, as the engine does.
    fn watch_tried(&mut self, room: [i128; CELLS]) {
        let model = &mut self.model;
        self.queue.watch_blocked(Unwatched::Tried, &mut |tried, _, least| {
            let number = number(tried);
            assert!(model.open[number], "it was asked because it was open");
            assert!(i128::from(least.steps()) > room[number], "nothing fits there");
            model.open[number] = false;
            None
        });
    }

    /// Compares the number of works before each with a sort.
    fn ask_places(&self) {
        let mut sorted = self.model.works.clone();
        let place = |one: &Listed| (Reverse(self.model.effective(one, self.now)), one.waiting.seq);
        sorted.sort_by_key(place);
        for (place, one) in sorted.iter().enumerate() {
            assert_eq!(self.queue.ahead(one.listing, one.waiting, self.now), place);
        }
    }
}

#[test]
fn places_are_exact_however_long_ago_the_queue_was_advanced() {
    let mut pair = Pair::new(10_000, Some(20_000));
    pair.insert(0, 0);
    pair.insert(1, 1);
    pair.now = Timestamp::from_nanos(5_000_000);
    pair.insert(2, 2);
    pair.insert(0, 4);
    pair.ask_places();
    assert_eq!(pair.queue.foremost(pair.now), pair.model.first(pair.now, |_| true));
}

#[test]
fn every_resuming_attempt_is_queued_before_every_start() {
    let mut queues = Queues::new(Ageing::NONE);
    let mut numbers = 1..;
    let mut add = |line, priority| {
        let number = numbers.next().expect("without end");
        let work = WorkId::from_index(number);
        let seq = Seq::new(number as u64).expect("they begin with 1");
        let waiting = Waiting { work, seq, since: Timestamp::ZERO };
        let listing = Listing { cost: CostId(0), priority };
        queues.insert(line, listing, waiting, Timestamp::ZERO);
        (line, listing, waiting)
    };
    let sorted = [
        add(QueueKind::Resuming, 1),
        add(QueueKind::Resuming, 0),
        add(QueueKind::Resuming, 0),
        add(QueueKind::Starting, 9),
        add(QueueKind::Starting, 5),
    ];
    for (place, &(line, listing, waiting)) in sorted.iter().enumerate() {
        assert_eq!(queues.ahead(line, listing, waiting, Timestamp::ZERO), place);
    }
    assert_eq!(queues.foremost(Timestamp::ZERO), Some(sorted[0].2.work));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_queue_agrees_with_a_scan_of_effective_priorities(
        rate in prop_oneof![Just(0u64), 1..5000u64, Just(10_000_000_000_000)],
        per_ns in prop_oneof![
            3 => Just(1_000_000u64),
            1 => Just(7_919_000_000),
            1 => Just(3_600_000_000_000),
        ],
        cap in prop_oneof![Just(None), (0..60_000u64).prop_map(Some), Just(Some(u64::MAX))],
        calls in prop::collection::vec(call(), 1..120),
    ) {
        let mut pair = Pair::ageing(rate, per_ns, cap);
        for call in &calls {
            pair.apply(call);
            pair.ask([i128::MAX; CELLS]);
        }
    }
}

#[test]
fn few_priorities_become_many_and_the_order_stays() {
    let mut pair = Pair::new(0, None);
    for number in 0..200i64 {
        // From the middle outwards, each priority twice.
        let priority = if number % 2 == 0 { number } else { -number };
        pair.insert(0, priority);
        pair.insert(0, priority / 3);
        pair.ask([i128::MAX; CELLS]);
    }
    let mut last = i64::MAX;
    while let Some(first) = pair.queue.first(pair.now) {
        let is_first = |listed: &Listed| listed.waiting.work == first.work;
        let place = pair.model.works.iter().position(is_first).expect("it is there");
        let listed = pair.model.works.swap_remove(place);
        assert!(listed.listing.priority <= last, "the most urgent first");
        last = listed.listing.priority;
        pair.queue.remove(listed.listing, listed.waiting.seq, pair.now);
    }
    assert_eq!(pair.queue.len(), 0);
}

#[test]
fn priorities_that_come_and_go_leave_their_places_to_others() {
    let mut pair = Pair::new(0, None);
    for priority in 0..1000 {
        pair.insert(0, priority);
        pair.ask([i128::MAX; CELLS]);
        let listed = pair.model.works.pop().expect("it is alone");
        pair.queue.remove(listed.listing, listed.waiting.seq, pair.now);
    }
    assert!(pair.queue.groups[0].lanes().count() <= 64, "no lane is kept for a priority that was");
}

#[test]
fn an_older_work_overtakes_a_more_urgent_one_only_as_far_as_the_cap() {
    // One level per millisecond, at most two.
    let mut pair = Pair::new(10_000, Some(20_000));
    let first = |pair: &Pair| pair.queue.first(pair.now).expect("a work waits").work.index();
    pair.insert(0, 0);
    pair.apply(&Call::Pass(1_500_000));
    pair.insert(0, 1);
    assert_eq!(first(&pair), 1, "half a level ahead by its age");
    pair.insert(0, 3);
    pair.apply(&Call::Pass(1_000_000));
    assert_eq!(first(&pair), 3, "at the cap, and still one level behind");
}

#[test]
fn works_that_left_are_swept_out() {
    let mut pair = Pair::new(0, None);
    (0..1000).for_each(|_| pair.insert(0, 0));
    for seq in 2..=1000 {
        let listing = Listing { cost: CostId(0), priority: 0 };
        pair.queue.remove(listing, Seq::new(seq).expect("not zero"), pair.now);
    }
    assert_eq!(pair.queue.len(), 1);
    assert_eq!(pair.queue.iter().count(), 1);
    assert!(pair.queue.groups[0].lane(0).footprint() < 10, "the dead are not kept");
}

#[test]
fn works_that_all_lack_the_same_are_known_by_it_once_the_counter_is_watched() {
    let mut pair = Pair::new(0, None);
    pair.insert(0, 0);
    pair.insert(0, 1);
    assert_eq!(pair.queue.awaited_by_all(), None, "none was refused");
    pair.block(0, 1, 3);
    assert_eq!(pair.queue.awaited_by_all(), None, "no release of the counter would be noticed");
    pair.apply(&Call::Close);
    assert_eq!(pair.queue.awaited_by_all(), Some((counter(1), Amount::from_steps(3))));
    pair.apply(&Call::Open);
    assert_eq!(pair.queue.awaited_by_all(), None, "the watch has ended");
}

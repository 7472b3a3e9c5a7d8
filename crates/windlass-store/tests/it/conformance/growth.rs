use windlass_core::{Fact, Happening, Timestamp, WorkId};
use windlass_store::{RunRecord, StoredBase, StoredQueue};

use super::*;

fn work(number: u64) -> WorkId {
    WorkId::new(number).expect("not zero")
}

fn submitted(number: u64) -> Fact {
    Fact { at: Timestamp::from_nanos(number), what: Happening::Submitted { work: work(number) } }
}

/// Creates the queue `q`, which is the run `abc`.
fn create(on: &mut Fixture) {
    let run = RunRecord { id: "abc".to_owned(), dir: "/".into(), ..RunRecord::default() };
    let created = on.store.transact(|transaction| {
        transaction.runs().insert(&run)?;
        transaction.queues().create("q", "abc")
    });
    created.expect("the store works");
}

fn add(on: &mut Fixture, text: &str) -> u64 {
    let added = on.store.transact(|transaction| transaction.queues().add("abc", text));
    added.expect("the store works").get()
}

pub(super) fn steps_are_numbered_as_they_are_added_and_no_number_is_used_again(on: &mut Fixture) {
    create(on);
    assert_eq!([add(on, "a"), add(on, "b"), add(on, "c")], [1, 2, 3]);
    let deleted =
        on.store.transact(|transaction| transaction.queues().compact("abc", "", &[work(3)]));
    deleted.expect("the store works");
    assert_eq!(add(on, "d"), 4);
    let (found, steps, third) = on
        .store
        .read(|transaction| {
            let queues = transaction.queues();
            let steps = queues.steps_after("abc", 1)?;
            Ok((queues.find("q")?, steps, queues.step("abc", work(3))?))
        })
        .expect("it can be read");
    let queue = StoredQueue { name: "q".to_owned(), run: "abc".to_owned(), added: 4, changed: 0 };
    assert_eq!(found, Some(queue.clone()));
    let of_run = on.store.read(|transaction| transaction.queues().of_run("abc"));
    assert_eq!(of_run.expect("it can be read"), Some(queue));
    let texts: Vec<_> = steps.iter().map(|step| (step.work.get(), step.text.as_str())).collect();
    assert_eq!((texts, third), (vec![(2, "b"), (4, "d")], None));
    let unknown = on.store.transact(|transaction| transaction.queues().add("xyz", "a"));
    assert!(unknown.is_err(), "only a queue grows");
}

pub(super) fn changes_are_numbered_and_go_with_their_queue(on: &mut Fixture) {
    create(on);
    add(on, "a");
    let mut change = |text: &str| {
        let changed = on.store.transact(|transaction| transaction.queues().change("abc", text));
        changed.expect("the store works")
    };
    assert_eq!([change("x"), change("y"), change("z")], [1, 2, 3]);
    let folded = on.store.transact(|transaction| {
        transaction.queues().set_step("abc", work(1), "b")?;
        transaction.queues().drop_change("abc", 1)?;
        transaction.queues().drop_change("abc", 3)
    });
    folded.expect("the store works");
    let changed = on.store.transact(|transaction| transaction.queues().change("abc", "w"));
    assert_eq!(changed.expect("the store works"), 4, "no number is used again");
    let read = |on: &mut Fixture| {
        let read = on.store.read(|transaction| {
            let queues = transaction.queues();
            let changes = [queues.changes_after("abc", 0)?, queues.changes_after("abc", 2)?];
            Ok((changes, queues.step("abc", work(1))?, queues.find("q")?))
        });
        read.expect("it can be read")
    };
    let (changes, step, queue) = read(on);
    let texts = changes.map(|changes| {
        changes.into_iter().map(|change| (change.number, change.text)).collect::<Vec<_>>()
    });
    let stored = |number, text: &str| (number, text.to_owned());
    assert_eq!(texts, [vec![stored(2, "y"), stored(4, "w")], vec![stored(4, "w")]]);
    assert_eq!(step.map(|step| step.text).as_deref(), Some("b"));
    assert_eq!(queue.map(|queue| queue.changed), Some(4));
    let unknown = on.store.transact(|transaction| transaction.queues().change("xyz", "a"));
    assert!(unknown.is_err(), "only a queue has steps to change");
    on.store.transact(|transaction| transaction.runs().delete("abc")).expect("the store works");
    assert_eq!(read(on), ([vec![], vec![]], None, None));
}

pub(super) fn a_base_stands_for_the_facts_before_it(on: &mut Fixture) {
    create(on);
    assert_eq!(on.tokens("leader", "run/abc"), [1]);
    let mut append = |numbers: &[u64], base: Option<&str>| {
        let facts: Vec<_> = numbers.iter().map(|number| submitted(*number)).collect();
        let appended = on.store.transact(|transaction| {
            transaction.facts().append("abc", Token(1), &facts)?;
            base.map_or(Ok(()), |base| transaction.queues().compact("abc", base, &[]))
        });
        appended.expect("it leads");
        let read = on.store.read(|transaction| {
            let facts = transaction.facts();
            Ok((transaction.queues().base("abc")?, facts.of("abc")?, facts.after("abc", 3)?))
        });
        read.expect("it can be read")
    };
    let base = |facts: usize, text: &str| Some(StoredBase { facts, text: text.to_owned() });
    assert_eq!(append(&[1, 2], Some("two")), (base(2, "two"), vec![], vec![]));
    let later = append(&[3, 4], None);
    assert_eq!(later, (base(2, "two"), vec![submitted(3), submitted(4)], vec![submitted(4)]));
    assert_eq!(append(&[5], Some("five")), (base(5, "five"), vec![], vec![]));
    assert_eq!(append(&[6], None).1, [submitted(6)]);
    on.store.transact(|transaction| transaction.runs().delete("abc")).expect("the store works");
    let left = on
        .store
        .read(|transaction| Ok((transaction.queues().all()?, transaction.queues().base("abc")?)));
    assert_eq!(left.expect("it can be read"), (vec![], None));
}

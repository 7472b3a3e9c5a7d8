use tempfile::TempDir;
use windlass_core::{Happening, Timestamp};

use super::*;

/// A run with its journal and its slate, as its leader keeps them.
struct Desk {
    dir: TempDir,
    slate: Wal,
    journal: Vec<Fact>,
    /// What stands on the slate and not in the journal.
    pending: Vec<Fact>,
}

fn fact(number: u64) -> Fact {
    let what = Happening::Started { work: WorkId::new(number).expect("not 0"), attempt: 1 };
    Fact { at: Timestamp::from_nanos(1000 + number), what }
}

fn attempt(number: u64) -> AttemptRecord {
    AttemptRecord {
        work: WorkId::new(number).expect("not 0"),
        attempt: 2,
        step: format!("\"step\"\n{number}"),
        started_ms: -5,
        ended_ms: i64::MAX,
        end: AttemptEnd::Failed,
        code: None,
        signal: Some(9),
        why: Some("killed \u{1f980}".to_owned()),
        peak_kib: Some(u64::MAX),
        cpu_ms: None,
    }
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let slate = Wal::new(&dir.path().join("slate"));
        Self { dir, slate, journal: vec![fact(1)], pending: Vec::new() }
    }

    fn jot(&mut self, numbers: impl IntoIterator<Item = u64>) -> bool {
        let facts: Vec<_> = numbers.into_iter().map(fact).collect();
        let after = JournalPosition::default().with(&self.journal).with(&self.pending);
        let written = self.slate.write(after, &facts, [].into_iter());
        if written {
            self.pending.extend(facts);
        }
        written
    }

    /// The store takes over what stands on the slate.
    fn store(&mut self) {
        self.journal.append(&mut self.pending);
    }

    /// What the next leader finds.
    fn left(&self) -> Vec<Fact> {
        let copy = Wal::read(&self.dir.path().join("slate")).expect("it can be read");
        copy.after(&self.journal).facts
    }

    fn change(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.dir.path().join("slate");
        let mut text = fs::read(&path).expect("it is there");
        change(&mut text);
        fs::write(&path, text).expect("there is room");
    }
}

#[test]
fn what_was_jotted_down_is_read_as_it_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("slate");
    let expected =
        WalTail { facts: vec![fact(1), fact(2)], attempts: vec![attempt(1), attempt(2)] };
    let WalTail { facts, attempts } = &expected;
    assert!(Wal::new(&path).write(JournalPosition::default(), facts, attempts.iter()));
    assert_eq!(Wal::read(&path).expect("it can be read").after(&[]), expected);
}

#[test]
fn nothing_is_left_where_there_is_no_slate() {
    let desk = Desk::new();
    assert_eq!(desk.left(), []);
}

#[test]
fn what_the_journal_has_is_not_left() {
    let mut desk = Desk::new();
    assert!(desk.jot([2, 3]));
    desk.store();
    assert_eq!(desk.left(), []);
    assert!(desk.jot([4]) && desk.jot([5]));
    assert_eq!(desk.left(), [fact(4), fact(5)]);
}

#[test]
fn nothing_is_left_of_what_was_wiped_off_and_written_over() {
    let mut desk = Desk::new();
    for number in 2..20 {
        assert!(desk.jot([number]));
    }
    desk.store();
    desk.slate.clear();
    assert_eq!(desk.left(), []);
    assert!(desk.jot(20..23));
    assert_eq!(desk.left(), [fact(20), fact(21), fact(22)]);
}

#[test]
fn what_comes_behind_a_gap_is_not_taken() {
    let mut desk = Desk::new();
    assert!(desk.jot([2]));
    desk.store();
    // The store had this without the slate, and lost it with the power.
    desk.journal.push(fact(3));
    assert!(desk.jot([4]));
    desk.journal.pop();
    assert_eq!(desk.left(), []);
}

#[test]
fn what_comes_after_another_past_is_not_taken() {
    let mut desk = Desk::new();
    desk.journal.push(fact(2));
    assert!(desk.jot([3]));
    // That past is lost with the power, and something else has happened instead.
    desk.journal[1] = fact(7);
    assert_eq!(desk.left(), []);
}

#[test]
fn a_jotting_counts_as_a_whole_or_not_at_all() {
    let mut desk = Desk::new();
    assert!(desk.jot([2]));
    let whole = desk.slate.at;
    assert!(desk.jot([3, 4]));
    for cut in whole..desk.slate.at {
        desk.change(|text| text.truncate(cut));
        assert_eq!(desk.left(), [fact(2)], "cut at {cut}");
        desk.change(|text| text.resize(SIZE, 0));
        assert_eq!(desk.left(), [fact(2)], "nothing behind {cut}");
    }
}

#[test]
fn a_byte_that_has_changed_is_noticed() {
    let mut desk = Desk::new();
    assert!(desk.jot([2]));
    for place in 0..desk.slate.at {
        desk.change(|text| text[place] ^= 0x20);
        assert_eq!(desk.left(), [], "at {place}");
        desk.change(|text| text[place] ^= 0x20);
    }
    assert_eq!(desk.left(), [fact(2)]);
}

#[test]
fn there_is_room_again_once_it_was_wiped() {
    let mut desk = Desk::new();
    let mut number = 2;
    while desk.jot([number]) {
        number += 1;
    }
    assert_eq!(desk.left().len() as u64, number - 2, "what found no room is not there in part");
    assert!(fs::metadata(desk.dir.path().join("slate")).expect("it is there").len() <= SIZE as u64);
    desk.store();
    desk.slate.clear();
    assert!(desk.jot([number]));
    assert_eq!(desk.left(), [fact(number)]);
}

#[test]
fn a_sync_changes_nothing_that_is_read() {
    let mut desk = Desk::new();
    assert!(desk.slate.sync(), "there is nothing to sync");
    assert!(desk.jot([2]));
    assert!(desk.slate.sync());
    assert!(desk.jot([3]));
    assert!(desk.slate.sync());
    assert_eq!(desk.left(), [fact(2), fact(3)]);
}

#[test]
fn what_is_stored_while_somebody_reads_is_not_missed() {
    let mut desk = Desk::new();
    assert!(desk.jot([2]) && desk.jot([3]));
    let copy = Wal::read(&desk.dir.path().join("slate")).expect("it can be read");
    desk.store();
    desk.slate.clear();
    assert!(desk.jot([4]));
    assert_eq!(copy.after(&desk.journal).facts, [], "the journal has it all");
    assert_eq!(copy.after(&desk.journal[..2]).facts, [fact(3)]);
}

#[test]
fn one_that_cannot_be_synced_takes_no_more() {
    let mut desk = Desk::new();
    assert!(desk.jot([2]));
    desk.slate.file = Some(File::open("/dev/null").expect("it is always there"));
    assert!(!desk.slate.sync(), "it cannot be written to");
    assert!(!desk.jot([3]));
    assert!(!desk.slate.sync(), "it is not tried again");
}

#[test]
fn one_that_cannot_be_made_takes_nothing() {
    let mut slate = Wal::new(Path::new("/dev/null/slate"));
    assert!(!slate.write(JournalPosition::default(), &[fact(1)], [].into_iter()));
    slate.remove();
}

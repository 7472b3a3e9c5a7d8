use tempfile::TempDir;
use windlass_core::{Happening, Timestamp, WorkId};

use super::*;
use crate::step::AttemptEnd;

/// A run with its journal and its write-ahead log, as its leader sees them.
struct Run {
    dir: TempDir,
    wal: Wal,
    journal: Vec<Fact>,
    /// The facts in the log that are not in the journal.
    pending: Vec<Fact>,
}

fn fact(number: u64) -> Fact {
    let what =
        Happening::Started { work: WorkId::new(number).expect("not 0"), attempt: 1, worker: None };
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

impl Run {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let wal = Wal::new(&dir.path().join("wal"));
        Self { dir, wal, journal: vec![fact(1)], pending: Vec::new() }
    }

    fn write(&mut self, numbers: impl IntoIterator<Item = u64>) -> bool {
        let facts: Vec<_> = numbers.into_iter().map(fact).collect();
        let after = JournalPosition::default().with(&self.journal).with(&self.pending);
        let written = self.wal.write(after, &facts, [].into_iter());
        if written {
            self.pending.extend(facts);
        }
        written
    }

    /// Has the store take over the records of the log.
    fn store(&mut self) {
        self.journal.append(&mut self.pending);
    }

    /// Returns the facts that the next leader finds in the log.
    fn tail(&self) -> Vec<Fact> {
        let copy = Wal::read(&self.dir.path().join("wal")).expect("it can be read");
        copy.after(&self.journal).facts
    }

    fn damage(&self, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.dir.path().join("wal");
        let mut text = fs::read(&path).expect("it is there");
        change(&mut text);
        fs::write(&path, text).expect("there is room");
    }
}

#[test]
fn records_are_read_as_they_were_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("wal");
    let expected =
        WalTail { facts: vec![fact(1), fact(2)], attempts: vec![attempt(1), attempt(2)] };
    let WalTail { facts, attempts } = &expected;
    assert!(Wal::new(&path).write(JournalPosition::default(), facts, attempts.iter()));
    assert_eq!(Wal::read(&path).expect("it can be read").after(&[]), expected);
}

#[test]
fn a_missing_log_has_no_records() {
    let run = Run::new();
    assert_eq!(run.tail(), []);
}

#[test]
fn records_that_the_journal_has_are_not_read_again() {
    let mut run = Run::new();
    assert!(run.write([2, 3]));
    run.store();
    assert_eq!(run.tail(), []);
    assert!(run.write([4]) && run.write([5]));
    assert_eq!(run.tail(), [fact(4), fact(5)]);
}

#[test]
fn cleared_records_are_not_read_even_if_partly_overwritten() {
    let mut run = Run::new();
    for number in 2..20 {
        assert!(run.write([number]));
    }
    run.store();
    run.wal.clear();
    assert_eq!(run.tail(), []);
    assert!(run.write(20..23));
    assert_eq!(run.tail(), [fact(20), fact(21), fact(22)]);
}

#[test]
fn a_record_behind_a_gap_is_ignored() {
    let mut run = Run::new();
    assert!(run.write([2]));
    run.store();
    // The store had this fact without the log, and lost it with the power.
    run.journal.push(fact(3));
    assert!(run.write([4]));
    run.journal.pop();
    assert_eq!(run.tail(), []);
}

#[test]
fn a_record_after_another_journal_is_ignored() {
    let mut run = Run::new();
    run.journal.push(fact(2));
    assert!(run.write([3]));
    // That journal is lost with the power, and something else has happened instead.
    run.journal[1] = fact(7);
    assert_eq!(run.tail(), []);
}

#[test]
fn a_record_counts_as_a_whole_or_not_at_all() {
    let mut run = Run::new();
    assert!(run.write([2]));
    let whole = run.wal.at;
    assert!(run.write([3, 4]));
    for cut in whole..run.wal.at {
        run.damage(|text| text.truncate(cut));
        assert_eq!(run.tail(), [fact(2)], "cut at {cut}");
        run.damage(|text| text.resize(SIZE, 0));
        assert_eq!(run.tail(), [fact(2)], "nothing behind {cut}");
    }
}

#[test]
fn a_changed_byte_is_noticed() {
    let mut run = Run::new();
    assert!(run.write([2]));
    for place in 0..run.wal.at {
        run.damage(|text| text[place] ^= 0x20);
        assert_eq!(run.tail(), [], "at {place}");
        run.damage(|text| text[place] ^= 0x20);
    }
    assert_eq!(run.tail(), [fact(2)]);
}

#[test]
fn a_cleared_log_has_room_again() {
    let mut run = Run::new();
    let mut number = 2;
    while run.write([number]) {
        number += 1;
    }
    assert_eq!(run.tail().len() as u64, number - 2, "a record without room is not written in part");
    assert!(fs::metadata(run.dir.path().join("wal")).expect("it is there").len() <= SIZE as u64);
    run.store();
    run.wal.clear();
    assert!(run.write([number]));
    assert_eq!(run.tail(), [fact(number)]);
}

#[test]
fn a_sync_does_not_change_the_records() {
    let mut run = Run::new();
    assert!(run.wal.sync(), "there is nothing to sync");
    assert!(run.write([2]));
    assert!(run.wal.sync());
    assert!(run.write([3]));
    assert!(run.wal.sync());
    assert_eq!(run.tail(), [fact(2), fact(3)]);
}

#[test]
fn a_record_that_is_stored_during_a_read_is_not_missed() {
    let mut run = Run::new();
    assert!(run.write([2]) && run.write([3]));
    let copy = Wal::read(&run.dir.path().join("wal")).expect("it can be read");
    run.store();
    run.wal.clear();
    assert!(run.write([4]));
    assert_eq!(copy.after(&run.journal).facts, [], "the journal has it all");
    assert_eq!(copy.after(&run.journal[..2]).facts, [fact(3)]);
}

#[test]
fn a_log_that_cannot_be_synced_takes_no_more_records() {
    let mut run = Run::new();
    assert!(run.write([2]));
    run.wal.file = Some(File::open("/dev/null").expect("it is always there"));
    assert!(!run.wal.sync(), "it cannot be written to");
    assert!(!run.write([3]));
    assert!(!run.wal.sync(), "it is not tried again");
}

#[test]
fn a_log_that_cannot_be_created_takes_no_records() {
    let mut wal = Wal::new(Path::new("/dev/null/wal"));
    assert!(!wal.write(JournalPosition::default(), &[fact(1)], [].into_iter()));
    wal.remove();
}

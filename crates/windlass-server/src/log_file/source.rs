//! Reads what an order has printed while its log grows: by how much it has printed before.
//!
//! Such a position stays the same while parts are left out and while they are added to the log, which may
//! happen between two reads. Knows nothing of who reads.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{HEAD_PARTS, LogFile, Parts, open_log_file};

/// Tells another thread that a log grows, and where that finds what was printed.
#[derive(Clone)]
pub(crate) struct Growth(Arc<SharedGrowth>);

struct SharedGrowth {
    /// Whether it was told since the log was read last.
    is_told: AtomicBool,
    tell: Box<dyn Fn() + Send + Sync>,
    /// Locked while parts move.
    joined: Mutex<Option<JoinedParts>>,
}

/// The parts of a log that are in the log itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinedParts {
    /// The number of the first one.
    pub(super) first: u64,
    /// The number behind that of the last one.
    pub(super) after: u64,
    /// Where the first one begins in the log.
    pub(super) offset: u64,
}

impl Growth {
    /// Calls `tell` when the log has grown for the first time since it was read last.
    pub(crate) fn new(tell: impl Fn() + Send + Sync + 'static) -> Self {
        let (is_told, joined) = (AtomicBool::new(false), Mutex::default());
        Self(Arc::new(SharedGrowth { is_told, tell: Box::new(tell), joined }))
    }

    pub(super) fn tell(&self) {
        // Pairs with the swap in `LogSource::read`: what is written before is read there, or told again.
        if !self.0.is_told.swap(true, Ordering::AcqRel) {
            (self.0.tell)();
        }
    }

    pub(super) fn joined(&self) -> MutexGuard<'_, Option<JoinedParts>> {
        // A panic leaves what was joined so far.
        self.0.joined.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Growth")
    }
}

/// Two are equal if they tell the same.
impl PartialEq for Growth {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Growth {}

/// Reads what one order has printed, by how much it has printed before, also while its log grows.
pub(crate) struct LogSource {
    path: PathBuf,
    tail: PathBuf,
    part_bytes: u64,
    /// How long the log was before the order.
    before: u64,
    growth: Growth,
}

impl LogSource {
    /// Reads the log that an order prints to from now on, up to its limit.
    pub(crate) fn new(path: &Path, limit: u64, call: Option<u32>, growth: Growth) -> Self {
        let of = match call {
            Some(call) => LogFile::of_call(path.to_owned(), limit, call),
            None => LogFile::new(path.to_owned(), limit),
        };
        let before = length_of(path);
        Self { path: of.path, tail: of.tail, part_bytes: of.part_bytes, before, growth }
    }

    /// Reads a log to which nothing but its order has printed.
    pub(crate) fn alone(self) -> Self {
        Self { before: 0, ..self }
    }

    /// Returns whether nothing was printed.
    pub(crate) fn is_empty(&self) -> bool {
        length_of(&self.path) <= self.before
    }

    /// Returns the position behind everything that was printed.
    pub(crate) fn end(&self) -> u64 {
        let joined = self.growth.joined();
        let head = HEAD_PARTS * self.part_bytes;
        let parts = Parts::of(&self.tail);
        let length = length_of(&self.path);
        if let Some(last) = parts.numbers.last() {
            let last_length = length_of(&self.tail.join(last.to_string()));
            return head + last * self.part_bytes + last_length;
        }
        match *joined {
            Some(JoinedParts { first, offset, .. }) => {
                head + first * self.part_bytes + length.saturating_sub(offset)
            }
            None => length.saturating_sub(self.before),
        }
    }

    /// Appends to `bytes` what was printed from `position` on, at most as much. Returns the position at which
    /// that begins: a later one, if what was there is not kept.
    pub(crate) fn read(&self, position: u64, most: u64, bytes: &mut Vec<u8>) -> io::Result<u64> {
        self.growth.0.is_told.swap(false, Ordering::AcqRel);
        let joined = self.growth.joined();
        let head = HEAD_PARTS * self.part_bytes;
        let parts = Parts::of(&self.tail);
        let first = joined.map(|joined| joined.first).or(parts.numbers.first().copied());
        let (path, from, begins, ends) = match (first, *joined) {
            (None, _) => (self.path.clone(), self.before, 0, u64::MAX),
            (Some(_), _) if position < head => (self.path.clone(), self.before, 0, head),
            (Some(first), joined) => {
                let position = position.max(head + first * self.part_bytes);
                let number = (position - head) / self.part_bytes;
                let begin_of = |number: u64| head + number * self.part_bytes;
                match joined {
                    // Behind the parts, there may be messages.
                    Some(joined) if parts.numbers.is_empty() => {
                        (self.path.clone(), joined.offset, begin_of(first), u64::MAX)
                    }
                    Some(joined) if number < joined.after => {
                        (self.path.clone(), joined.offset, begin_of(first), begin_of(joined.after))
                    }
                    _ => {
                        let part = self.tail.join(number.to_string());
                        (part, 0, begin_of(number), begin_of(number + 1))
                    }
                }
            }
        };
        let position = position.max(begins);
        read_into(&path, from + (position - begins), most.min(ends - position), bytes)?;
        Ok(position)
    }
}

/// Appends bytes of a file to `bytes`; of one that does not exist, none.
fn read_into(path: &Path, from: u64, most: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut file = match open_log_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    file.seek(SeekFrom::Start(from))?;
    file.take(most).read_to_end(bytes).map(drop)
}

/// Returns the length of a file; 0 if there is none.
fn length_of(path: &Path) -> u64 {
    path.metadata().map_or(0, |file| file.len())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use proptest::prelude::*;

    use super::*;

    const LIMIT: u64 = 160;

    /// A log that grows, and what its order has printed.
    struct Growing {
        _dir: tempfile::TempDir,
        log: LogFile,
        source: LogSource,
        told: Arc<AtomicUsize>,
        printed: Vec<u8>,
    }

    impl Growing {
        fn new(before: &str) -> Self {
            let dir = tempfile::tempdir().expect("a directory");
            let path = dir.path().join("1-a.1.log");
            if !before.is_empty() {
                std::fs::write(&path, before).expect("it can be written");
            }
            let told = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&told);
            let growth = Growth::new(move || {
                counter.fetch_add(1, Ordering::Relaxed);
            });
            let log = LogFile::new(path.clone(), LIMIT).watched_by(Some(growth.clone()));
            let source = LogSource::new(&path, LIMIT, None, growth);
            Self { _dir: dir, log, source, told, printed: Vec::new() }
        }

        fn print(&mut self, count: usize) {
            let from = self.printed.len();
            self.printed.extend((from..from + count).map(|number| b'a' + (number % 23) as u8));
            self.log.append(&mut &self.printed[from..]).expect("there is room");
        }

        /// Reads from `position` on, and checks it. Returns the position behind.
        fn read(&self, position: u64, most: u64) -> u64 {
            let mut bytes = Vec::new();
            let at = self.source.read(position, most, &mut bytes).expect("it can be read");
            assert!(bytes.len() as u64 <= most);
            let from = at as usize;
            assert_eq!(bytes, self.printed[from..from + bytes.len()], "from {position}, at {at}");
            at + bytes.len() as u64
        }
    }

    proptest! {
        #[test]
        fn each_byte_is_read_once_except_those_that_were_left_out(
            steps in prop::collection::vec((0..60_usize, 0..3_usize, 1..50_u64), 1..40),
            before in "[a-z]{0,9}",
            completed in any::<bool>(),
        ) {
            let mut growing = Growing::new(&before);
            let (mut position, mut skipped) = (0, 0);
            let mut read = |growing: &Growing, most: u64| {
                let next = growing.read(position, most);
                skipped += (next - position).saturating_sub(most);
                let moved = next > position;
                position = next;
                moved
            };
            for (count, reads, most) in steps {
                growing.print(count);
                for _ in 0..reads {
                    read(&growing, most);
                }
            }
            if completed && growing.log.has_tail() && before.is_empty() {
                growing.log.complete().expect("there is room");
            }
            while read(&growing, 7) {}
            prop_assert_eq!(position, growing.printed.len() as u64);
            prop_assert_eq!(growing.source.end(), position);
        }
    }

    #[test]
    fn growth_is_told_once_until_it_was_read() {
        let mut growing = Growing::new("");
        let told = |growing: &Growing| growing.told.load(Ordering::Relaxed);
        growing.print(3);
        growing.print(3);
        assert_eq!(told(&growing), 1);
        assert_eq!(growing.read(0, 9), 6);
        assert_eq!(told(&growing), 1);
        growing.print(1);
        assert_eq!((told(&growing), growing.read(6, 9)), (2, 7));
    }

    #[test]
    fn a_message_behind_the_parts_is_read_too() {
        let mut growing = Growing::new("");
        growing.print(1000);
        growing.log.complete().expect("there is room");
        crate::outputs::complain(growing.log.path(), "it is late");
        let mut bytes = Vec::new();
        let at = growing.source.read(990, 99, &mut bytes).expect("it can be read");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert_eq!((at, &text[10..]), (990, "windlass: it is late\n"));
        assert_eq!(growing.source.end(), 1000 + 21);
    }
}

//! The log file of an attempt, of which no more is kept than its limit.
//!
//! The first half of the limit goes into the log itself. What is printed beyond that goes into parts of one
//! length, in a directory beside the log, of which only the newest are kept, together as long as the other
//! half. When the attempt has ended, the parts are added to the log, behind a line that says how much was
//! left out. A log is created with its first byte, so a silent step costs no file. A leader that is killed
//! leaves the parts where they are: readers find them there, and the next leader adds them.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use windlass_store::Access;

mod source;

use self::source::JoinedParts;
pub(crate) use self::source::{Growth, LogSource};

/// How many parts the log and the parts behind it have together.
const PARTS: u64 = 16;
/// How many parts the log itself has.
const HEAD_PARTS: u64 = 8;
/// How many of the parts behind it are kept.
const TAIL_PARTS: u64 = PARTS - HEAD_PARTS;
/// The extension of the directory with the parts.
const TAIL: &str = "tail";

/// A log file, which exists once something was printed.
#[derive(Clone)]
pub(crate) struct LogFile {
    path: PathBuf,
    /// The directory of the parts behind the first half.
    tail: PathBuf,
    part_bytes: u64,
    printed: u64,
    /// Why nothing more is written.
    failure: Option<String>,
    /// Who is told that the log grows.
    growth: Option<Growth>,
}

impl LogFile {
    /// Describes the log of one attempt, to which nothing else writes.
    pub(crate) fn new(path: PathBuf, limit: u64) -> Self {
        let tail = beside(&path, TAIL);
        let part_bytes = (limit / PARTS).max(1);
        Self { path, tail, part_bytes, printed: 0, failure: None, growth: None }
    }

    /// Has `growth` tell whenever something was written.
    pub(crate) fn watched_by(self, growth: Option<Growth>) -> Self {
        Self { growth, ..self }
    }

    /// Describes the log of call number `call` of a hook. All calls append to one log, each up to its limit.
    pub(crate) fn of_call(path: PathBuf, limit: u64, call: u32) -> Self {
        let tail = beside(&path, &format!("{call}.{TAIL}"));
        Self { tail, ..Self::new(path, limit) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the file even if nothing was printed.
    pub(crate) fn create(&self) -> io::Result<()> {
        open(&self.path).map(drop)
    }

    /// Appends what was printed, and takes it from `bytes` as far as it was written.
    pub(crate) fn append(&mut self, bytes: &mut &[u8]) -> io::Result<()> {
        if self.failure.is_some() {
            *bytes = &[];
        }
        let (before, written) = (self.printed, self.write(bytes));
        if let Some(growth) = self.growth.as_ref().filter(|_| self.printed > before) {
            growth.tell();
        }
        written
    }

    /// Discards whatever is appended from now on, because of an error.
    pub(crate) fn give_up(&mut self, why: String) {
        self.failure = Some(why);
    }

    /// Returns the error because of which output was discarded.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns whether there are parts to be added to the log.
    pub(crate) fn has_tail(&self) -> bool {
        self.printed > HEAD_PARTS * self.part_bytes
    }

    /// Adds the parts to the log, which copies them.
    pub(crate) fn complete(&self) -> io::Result<()> {
        if self.failure.is_some() {
            return Ok(());
        }
        let parts = Parts::of(&self.tail);
        let gap = parts.gap();
        let mut joined = self.growth.as_ref().map(Growth::joined);
        parts.add_to(&self.path, gap, joined.as_deref_mut())
    }

    /// Writes bytes. The file is opened each time, so it does not count among the open files, and a user
    /// may remove it.
    fn write(&mut self, bytes: &mut &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (mut file, room) = self.place()?;
            let length = usize::try_from(room).map_or(bytes.len(), |room| room.min(bytes.len()));
            let written = match file.write(&bytes[..length]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                written => written?,
            };
            self.printed += written as u64;
            *bytes = &bytes[written..];
        }
        Ok(())
    }

    /// Returns the file that the next byte goes to, and how many it takes.
    fn place(&self) -> io::Result<(File, u64)> {
        let head = HEAD_PARTS * self.part_bytes;
        let Some(behind) = self.printed.checked_sub(head) else {
            return Ok((open(&self.path)?, head - self.printed));
        };
        let (number, within) = (behind / self.part_bytes, behind % self.part_bytes);
        if behind == 0 {
            Access::create_dir(&self.tail)?;
        }
        if within == 0
            && let Some(oldest) = number.checked_sub(TAIL_PARTS)
        {
            remove(&self.tail.join(oldest.to_string()))?;
        }
        Ok((open(&self.tail.join(number.to_string()))?, self.part_bytes - within))
    }
}

fn open(path: &Path) -> io::Result<File> {
    Access::open(path, File::options().append(true))
}

/// Returns the path with an extension added to its name.
fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(more);
    name.into()
}

/// The parts behind the first half of a log, as they are on the disk.
#[derive(Default)]
struct Parts {
    dir: PathBuf,
    /// By their numbers, without gaps.
    numbers: Vec<u64>,
    /// How long a complete one is, which all but the last are.
    part_bytes: u64,
}

impl Parts {
    /// Lists the parts; there are none if the directory cannot be read, usually because it does not exist.
    fn of(dir: &Path) -> Self {
        let Ok(entries) = fs::read_dir(dir) else { return Self::default() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut numbers: Vec<u64> = names.filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        let first = numbers.first().and_then(|first| dir.join(first.to_string()).metadata().ok());
        let part_bytes = first.map_or(0, |first| first.len());
        Self { dir: dir.to_owned(), numbers, part_bytes }
    }

    fn paths(&self) -> impl DoubleEndedIterator<Item = PathBuf> {
        self.numbers.iter().map(|number| self.dir.join(number.to_string()))
    }

    /// Returns the line that says how much was left out before the parts, if something was.
    fn gap(&self) -> Option<String> {
        let left_out = self.numbers.first()? * self.part_bytes;
        let (left_out, limit) = (size(left_out), size(PARTS * self.part_bytes));
        let line = format!("[windlass: {left_out} of output left out here, log_limit = {limit}]\n");
        (self.numbers[0] > 0).then_some(line)
    }

    /// Returns that line for parts that a killed leader has left. The leader may have begun to add them to
    /// the log, and then the log is longer than its half already.
    fn gap_unless_in(&self, log: &Path) -> Option<String> {
        let length = fs::metadata(log).map_or(0, |log| log.len());
        self.gap().filter(|_| length <= HEAD_PARTS * self.part_bytes)
    }

    /// Adds the parts to the log one by one, so that at most one of them exists twice. A part that does not
    /// fit on the disk stays where it is, with those behind it.
    fn add_to(
        &self,
        log: &Path,
        gap: Option<String>,
        mut joined: Option<&mut Option<JoinedParts>>,
    ) -> io::Result<()> {
        let mut out = open(log)?;
        if let Some(gap) = gap {
            let line = [line_break_after(log)?, gap.as_bytes()].concat();
            add(&mut out, &mut line.as_slice())?;
        }
        let (offset, first) = (out.metadata()?.len(), self.numbers.first().copied());
        for (path, number) in self.paths().zip(&self.numbers) {
            add(&mut out, &mut open_log_file(&path)?)?;
            if let (Some(joined), Some(first)) = (&mut joined, first) {
                **joined = Some(JoinedParts { first, after: number + 1, offset });
            }
            fs::remove_file(path)?;
        }
        fs::remove_dir(&self.dir)
    }
}

/// Adds something to the end of a log, all of it or nothing.
fn add(log: &mut File, from: &mut impl Read) -> io::Result<()> {
    let length = log.metadata()?.len();
    let copied = io::copy(from, log);
    if copied.is_err() {
        log.set_len(length)?;
    }
    copied.map(drop)
}

/// Removes a file, unless an attempt to do so got further than it seemed.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Returns the newline that completes the last line of a log, if it lacks one.
fn line_break_after(log: &Path) -> io::Result<&'static [u8]> {
    let mut file = open_log_file(log)?;
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok(if last == [b'\n'] { b"" } else { b"\n" })
}

/// Adds the parts that a killed leader has left in `dir` to their logs.
pub(crate) fn complete_all_in(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let tail = entry?.path();
        if tail.extension().is_none_or(|extension| extension != TAIL) {
            continue;
        }
        let log = tail.with_extension("");
        let of_call = log.extension().is_some_and(|extension| extension != "log");
        let log = if of_call { log.with_extension("") } else { log };
        let parts = Parts::of(&tail);
        let gap = parts.gap_unless_in(&log);
        parts.add_to(&log, gap, None)?;
    }
    Ok(())
}

/// Opens a log to read all that there is of it, also where its attempt has not ended or was never seen
/// to end.
///
/// ```
/// use std::io::Read;
///
/// let dir = tempfile::tempdir()?;
/// let log = dir.path().join("log");
/// std::fs::write(&log, "hello\n")?;
/// let mut text = String::new();
/// windlass_server::open_log(&log)?.read_to_string(&mut text)?;
/// assert_eq!(text, "hello\n");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn open_log(log: &Path) -> io::Result<Box<dyn Read>> {
    let head = open_log_file(log)?;
    let parts = Parts::of(&beside(log, TAIL));
    if parts.numbers.is_empty() {
        return Ok(Box::new(head));
    }
    let gap = parts.gap_unless_in(log);
    let end = if gap.is_some() { line_break_after(log)? } else { b"" };
    let gap = [end, gap.unwrap_or_default().as_bytes()].concat();
    // The leader may remove the oldest one at any time.
    let mut rest: Box<dyn Read> = Box::new(io::empty());
    for part in parts.paths().rev().filter_map(|path| open_log_file(&path).ok()) {
        rest = Box::new(part.chain(rest));
    }
    Ok(Box::new(head.chain(io::Cursor::new(gap)).chain(rest)))
}

/// Returns how many bytes a reader of [`open_log`] finds at most, as the log is now; 0 if there is none.
///
/// ```
/// let dir = tempfile::tempdir()?;
/// let log = dir.path().join("log");
/// std::fs::write(&log, "hello\n")?;
/// assert_eq!(windlass_server::log_length(&log), 6);
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn log_length(log: &Path) -> u64 {
    let length = |path: &Path| path.metadata().map_or(0, |file| file.len());
    let parts = Parts::of(&beside(log, TAIL));
    let rest: u64 = parts.paths().map(|path| length(&path)).sum();
    let gap = parts.gap_unless_in(log).map_or(0, |gap| gap.len() as u64 + 1);
    length(log) + gap + rest
}

/// Opens one file of a log to read it. Anything but a regular file is refused, without waiting for it.
///
/// ```
/// let dir = tempfile::tempdir()?;
/// assert!(windlass_server::open_log_file(dir.path()).is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn open_log_file(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

/// Returns the file to which the next output goes.
pub(crate) fn newest_file(log: &Path) -> PathBuf {
    Parts::of(&beside(log, TAIL)).paths().next_back().unwrap_or_else(|| log.to_owned())
}

/// Formats a number of bytes.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(1_u64 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let fits = units.into_iter().find(|(unit, _)| bytes >= *unit);
    let Some((unit, name)) = fits else { return format!("{bytes} B") };
    let tenths = u128::from(bytes) * 10 / u128::from(unit);
    match bytes % unit {
        0 => format!("{} {name}", bytes / unit),
        _ => format!("{}.{} {name}", tenths / 10, tenths % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the log of a process that has printed this many lines of 10 bytes, with a limit of 1600
    /// bytes.
    fn after(lines: usize, complete: bool) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("1-a.1.log");
        let mut log = LogFile::new(path.clone(), 1600);
        for line in 0..lines {
            let text = format!("line {line:4}\n");
            log.append(&mut text.as_bytes()).expect("there is room");
            let kept: u64 =
                files(dir.path()).iter().map(|file| file.metadata().expect("a file").len()).sum();
            assert!(kept <= 1600, "{kept} bytes after {line} lines");
        }
        if complete && log.has_tail() {
            log.complete().expect("there is room");
        }
        (dir, path)
    }

    fn files(dir: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(dir)
            .expect("it is there")
            .map(|entry| entry.expect("it is listed").path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }

    fn lines(numbers: std::ops::Range<usize>) -> String {
        numbers.map(|number| format!("line {number:4}\n")).collect()
    }

    #[test]
    fn within_the_limit_all_is_kept() {
        for count in [0, 1, 80, 81, 159, 160] {
            let (dir, path) = after(count, true);
            assert_eq!(fs::read_to_string(path).unwrap_or_default(), lines(0..count));
            assert_eq!(files(dir.path()).len(), usize::from(count > 0), "nothing else is left");
        }
    }

    #[test]
    fn beyond_it_the_beginning_and_the_end_are() {
        let (dir, path) = after(1234, true);
        let text = fs::read_to_string(path).expect("it is there");
        let gap = "[windlass: 10.5 KiB of output left out here, log_limit = 1.5 KiB]\n";
        assert_eq!(text, format!("{}{gap}{}", lines(0..80), lines(1160..1234)));
        assert_eq!(files(dir.path()).len(), 1, "nothing else is left");
    }

    #[test]
    fn what_a_killed_leader_has_left_can_be_read_and_is_added_later() {
        let (_whole, expected) = after(1234, true);
        let expected = fs::read_to_string(expected).expect("it is there");
        let (dir, path) = after(1234, false);
        let mut text = String::new();
        open_log(&path).and_then(|mut log| log.read_to_string(&mut text)).expect("it is there");
        assert_eq!(text, expected);
        complete_all_in(dir.path()).expect("there is room");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), expected);
    }

    #[test]
    fn a_leader_killed_while_it_added_parts_reports_the_gap_once() {
        let (dir, path) = after(1234, false);
        let parts = Parts::of(&beside(&path, TAIL));
        open(&path)
            .and_then(|mut log| log.write_all(parts.gap().expect("one").as_bytes()))
            .expect("room");
        complete_all_in(dir.path()).expect("there is room");
        let (_whole, expected) = after(1234, true);
        assert_eq!(fs::read(&path).expect("it is there"), fs::read(expected).expect("it is there"));
    }

    #[test]
    fn sizes_use_the_largest_unit() {
        let told = [0, 1023, 1024, 1536, 1 << 30, 3_500_000_000, u64::MAX].map(size);
        let expected = ["0 B", "1023 B", "1 KiB", "1.5 KiB", "1 GiB", "3.2 GiB", "16777215.9 TiB"];
        assert_eq!(told, expected);
    }
}

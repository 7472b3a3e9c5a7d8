use std::fs::{self, File};
use std::io::Write;

use super::*;

struct Log {
    dir: tempfile::TempDir,
}

impl Log {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn append(&self, bytes: impl AsRef<[u8]>) {
        let mut file = File::options().create(true).append(true).open(self.path()).expect("a log");
        file.write_all(bytes.as_ref()).expect("it takes everything");
    }
}

fn lines(tail: &mut Tail, until: Until) -> Vec<u8> {
    let mut seen = Vec::new();
    let mut logs = ShownLogs::on_this_machine();
    let mut take = |piece: &[u8]| seen.extend_from_slice(piece);
    while tail.lines(&mut logs, until, &mut take).expect("it can be read") {}
    seen
}

#[test]
fn only_complete_lines_are_shown_before_the_end() {
    let log = Log::new();
    let mut tail = Tail::new(&log.path());
    assert_eq!(lines(&mut tail, Until::Now), b"", "the log is not there yet");
    log.append("one\ntw");
    assert_eq!(lines(&mut tail, Until::Now), b"one\n");
    assert_eq!(lines(&mut tail, Until::Now), b"");
    log.append("o\n\nthree");
    assert_eq!(lines(&mut tail, Until::Now), b"two\n\n");
    assert_eq!(lines(&mut tail, Until::TheEnd), b"three");
    assert_eq!(lines(&mut tail, Until::TheEnd), b"");
}

#[test]
fn a_line_longer_than_any_buffer_comes_whole() {
    let log = Log::new();
    let mut tail = Tail::new(&log.path());
    let long = vec![b'x'; 3 * TURN as usize + 17];
    for before in ["", "short\n", "two\nlines\n"] {
        log.append(before);
        log.append(&long);
        assert_eq!(lines(&mut tail, Until::Now), before.as_bytes());
        assert!(tail.rest.capacity() <= SPARE, "it is not kept");
        log.append("\nnext\nla");
        let seen = lines(&mut tail, Until::Now);
        assert_eq!(seen.len(), long.len() + "\nnext\n".len());
        assert!(seen.starts_with(&long) && seen.ends_with(b"x\nnext\n"));
        log.append("st\n");
        assert_eq!(lines(&mut tail, Until::Now), b"last\n");
    }
    log.append(&long);
    assert_eq!(lines(&mut tail, Until::Now), b"");
    assert_eq!(lines(&mut tail, Until::TheEnd), long, "also without an end");
    assert_eq!(lines(&mut tail, Until::TheEnd), b"");
}

#[test]
fn no_turn_is_longer_than_its_share() {
    let log = Log::new();
    log.append(b"0123456\n".repeat(TURN as usize / 4));
    let (mut tail, mut logs) = (Tail::new(&log.path()), ShownLogs::on_this_machine());
    let mut seen = 0;
    let more = tail
        .lines(&mut logs, Until::Now, &mut |piece| seen += piece.len())
        .expect("it can be read");
    assert_eq!((more, seen as u64), (true, TURN));
    let more = tail
        .bytes(&mut logs, Until::Now, &mut |piece| seen += piece.len())
        .expect("it can be read");
    assert_eq!((more, seen as u64), (true, 2 * TURN));
    let more = tail
        .bytes(&mut logs, Until::Now, &mut |piece| seen += piece.len())
        .expect("it can be read");
    assert_eq!((more, seen as u64), (false, 2 * TURN));
}

#[test]
fn bytes_come_as_they_are() {
    let log = Log::new();
    let (mut tail, mut logs) = (Tail::new(&log.path()), ShownLogs::on_this_machine());
    let mut seen = Vec::new();
    for part in [&b"half a li"[..], b"ne\r\x1b[2J\xff", b"\0"] {
        log.append(part);
        tail.bytes(&mut logs, Until::Now, &mut |piece| seen.extend_from_slice(piece))
            .expect("it can be read");
    }
    assert_eq!(seen, b"half a line\r\x1b[2J\xff\0");
}

fn written(pieces: &[&str]) -> String {
    let (mut writer, mut out) = (LineWriter::new("a | ".to_owned(), Keep::Colours), String::new());
    pieces.iter().for_each(|piece| writer.push(piece.as_bytes(), &mut out));
    writer.finish(&mut out);
    out
}

#[test]
fn every_line_has_its_prefix() {
    let check = |pieces: &[&str], expected: &str| assert_eq!(written(pieces), expected);
    check(&[], "");
    check(&["one\ntwo\n"], "a | one\na | two\n");
    check(&["no end"], "a | no end\n");
    check(&["blank\n\nlines\n\n"], "a | blank\na | \na | lines\na | \n");
    check(&["in pi", "eces\n"], "a | in pieces\n");
    check(&["dos\r\n", "dos\r", "\nend"], "a | dos\na | dos\na | end\n");
    check(&["10%\r20%\r\r30%\n"], "a | 10%\na | 20%\na | 30%\n");
    check(&["\x1b[31mred\nplain\n"], "a | \x1b[31mred\x1b[0m\na | plain\n");
    check(&["\x1b[2Aup\x1b", "[31", "mred"], "a | up\x1b[31mred\x1b[0m\n");
}

#[test]
fn the_last_line_is_not_blank() {
    let log = Log::new();
    let mut logs = ShownLogs::on_this_machine();
    let mut check = |text: &[u8], expected: &str| {
        fs::write(log.path(), text).expect("it can be written");
        assert_eq!(last_line(&mut logs, &log.path()).expect("it can be read"), expected);
    };
    check(b"", "");
    check(b"one\ntwo\n", "two");
    check(b"one\nhalf a li", "half a li");
    check(b"one\n \n\x1b[0m\n\r\n", "one");
    check(b"10%\r20%\r", "20%");
    check(b"\x1b[1mbold\x1b[0m \xff\x1b]0;title\x07 end\n", "bold \u{fffd} end");
    check(&b"x".repeat(100_000), &"x".repeat(WINDOW as usize));
    assert_eq!(last_line(&mut logs, Path::new("/nowhere/at/all")).expect("that is no mistake"), "");
}

#[test]
fn a_log_is_open_only_while_it_is_read() {
    let log = Log::new();
    let mut tail = Tail::new(&log.path());
    log.append("one\ntwo");
    assert_eq!(lines(&mut tail, Until::Now), b"one\n");
    let is_log = |open: io::Result<fs::DirEntry>| {
        open.and_then(|open| fs::read_link(open.path())).is_ok_and(|path| path == log.path())
    };
    assert!(!fs::read_dir("/proc/self/fd").expect("this is Linux").any(is_log));
}

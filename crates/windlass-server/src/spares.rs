//! Files that attempts print to before there is anything to call a log.
//!
//! A new file costs as much as a small part of a small process, and makes every sync after it dearer;
//! most small steps print nothing. So an attempt begins with a *spare* file, which gets the name of
//! its log as soon as the attempt has run for a moment, has ended and printed something, or has
//! failed. One that is still empty at a good end serves the next attempt. Which log each spare is to
//! become stands in the *roster* before anything can be printed, so whoever takes a killed run over, or
//! looks at it, knows.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use windlass_store::Access;

use crate::roster;

/// The spare files of a run.
pub(crate) struct Spares {
    path: PathBuf,
    dir: OwnedFd,
    access: Access,
    /// Opened with the first of them.
    roster: Option<File>,
    made: u32,
    /// Those that nobody uses.
    free: Vec<u32>,
}

/// A spare that an attempt prints to.
#[derive(Debug)]
pub(crate) struct Lent {
    number: u32,
    /// What it will be called.
    log: String,
}

impl Spares {
    /// The spares of the run whose logs are in `dir`. Those that a dead leader has left become logs.
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty())?;
        let (path, access) = (path.to_owned(), Access::of(path)?);
        let spares = Self { path, dir, access, roster: None, made: 0, free: Vec::new() };
        spares.adopt()?;
        Ok(spares)
    }

    /// An empty file to print to, for what is to become `log`.
    pub(crate) fn lend(&mut self, log: &Path) -> io::Result<(Lent, File)> {
        let log = log.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let number = self.free.last().copied().unwrap_or(self.made);
        self.enter(number, &log)?;
        // Opened anew for each: a program can change how a file is open for all who have it so.
        // Whatever else opens it, such as a step that writes to `/dev/stderr`, nobody writes over
        // others.
        let file = self.open(number)?;
        if self.free.pop().is_none() {
            self.made += 1;
        }
        Ok((Lent { number, log }, file))
    }

    fn open(&self, number: u32) -> io::Result<File> {
        let flags = OFlags::APPEND | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        match openat(&self.dir, name(number), flags | OFlags::CREATE | OFlags::EXCL, mode) {
            Ok(created) => {
                self.access.apply(&created)?;
                Ok(created.into())
            }
            Err(Errno::EXIST) => Ok(openat(&self.dir, name(number), flags, mode)?.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a spare its name, whatever is in it. Where that cannot be done, because a step has removed
    /// what it prints to or for worse reasons, the roster still knows, and the run goes on.
    pub(crate) fn give_name(&self, lent: &Lent) {
        let _ = renameat(&self.dir, name(lent.number), &self.dir, &lent.log);
    }

    /// Takes a spare back from an attempt of which nothing is left; if there is something in it, it
    /// becomes a log.
    pub(crate) fn take_back(&mut self, lent: &Lent) {
        match statat(&self.dir, name(lent.number), AtFlags::empty()) {
            Ok(file) if file.st_size == 0 => self.free.push(lent.number),
            _ => self.give_name(lent),
        }
    }

    /// Removes what nobody uses any more. Harmless if it is left.
    pub(crate) fn clear(&mut self) {
        for number in self.free.drain(..) {
            let _ = unlinkat(&self.dir, name(number), AtFlags::empty());
        }
        if let Some(roster) = self.roster.take() {
            let _ = roster.set_len(roster::LINE as u64);
        }
    }

    fn enter(&mut self, number: u32, log: &str) -> io::Result<()> {
        let roster = match &self.roster {
            Some(roster) => roster,
            None => {
                let path = self.path.join(roster::NAME);
                self.roster.insert(Access::open(&path, File::options().write(true))?)
            }
        };
        roster::write(roster, number + 1, log)
    }

    fn adopt(&self) -> io::Result<()> {
        for (log, spare) in left_in(&self.path) {
            fs::rename(spare, self.path.join(log))?;
        }
        // Somebody who could not be ended may still print to one that is empty so far.
        for number in 0..entries(&self.path).len() {
            let _ = fs::remove_file(self.path.join(name(number)));
        }
        Ok(())
    }
}

fn name(number: impl Display) -> String {
    format!("spare-{number}")
}

/// The logs in `dir` that a dead leader has not given their names, and what they are called so far.
pub(crate) fn left_in(dir: &Path) -> BTreeMap<String, PathBuf> {
    let mut left = BTreeMap::new();
    for (number, log) in entries(dir).into_iter().enumerate() {
        let spare = dir.join(name(number));
        let has_output = fs::metadata(&spare).is_ok_and(|file| file.len() > 0);
        if has_output && !log.is_empty() && !log.contains('/') {
            left.insert(log, spare);
        }
    }
    left
}

/// Which log each spare in `dir` is to become, by number.
fn entries(dir: &Path) -> Vec<String> {
    let roster = fs::read(dir.join(roster::NAME)).unwrap_or_default();
    roster.chunks_exact(roster::LINE).skip(1).map(roster::text).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).expect("it is there");
        let name = |entry: io::Result<fs::DirEntry>| {
            entry.expect("it can be listed").file_name().into_string().expect("plain")
        };
        let mut names: Vec<_> = entries.map(name).filter(|name| name != roster::NAME).collect();
        names.sort();
        names
    }

    #[test]
    fn one_that_stayed_empty_serves_the_next() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spares = Spares::of(dir.path()).expect("it is there");
        for log in ["1-a.1.log", "2-b.1.log"] {
            let (lent, _) = spares.lend(&dir.path().join(log)).expect("a file");
            assert_eq!(names(dir.path()), ["spare-0"]);
            spares.take_back(&lent);
        }
        spares.clear();
        assert_eq!(names(dir.path()), [] as [&str; 0]);
        assert_eq!(entries(dir.path()), [] as [&str; 0]);
    }

    #[test]
    fn what_was_printed_is_found_under_its_name_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spares = Spares::of(dir.path()).expect("it is there");
        let (loud, mut file) = spares.lend(&dir.path().join("1-loud.1.log")).expect("a file");
        let (slow, _) = spares.lend(&dir.path().join("2-slow.1.log")).expect("a file");
        file.write_all(b"hello").expect("there is room");
        spares.take_back(&loud);
        spares.give_name(&slow);
        assert_eq!(names(dir.path()), ["1-loud.1.log", "2-slow.1.log"]);
        let (_, mut file) = spares.lend(&dir.path().join("3-next.1.log")).expect("a file");
        file.write_all(b"other").expect("there is room");
        assert_eq!(fs::read(dir.path().join("1-loud.1.log")).expect("it is there"), b"hello");
    }

    #[test]
    fn what_a_dead_leader_has_left_is_known_and_becomes_logs() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spares = Spares::of(dir.path()).expect("it is there");
        let (_, mut printed) = spares.lend(&dir.path().join("1-a.1.log")).expect("a file");
        let (_, mut silent) = spares.lend(&dir.path().join("2-b.1.log")).expect("a file");
        printed.write_all(b"hello").expect("there is room");
        drop(spares);
        let left = left_in(dir.path());
        assert_eq!(left.keys().collect::<Vec<_>>(), ["1-a.1.log"], "the other one is empty");

        let mut spares = Spares::of(dir.path()).expect("it is there");
        assert_eq!(fs::read(dir.path().join("1-a.1.log")).expect("it is there"), b"hello");
        assert!(left_in(dir.path()).is_empty());
        silent.write_all(b"late").expect("there is room");
        for log in ["1-a.2.log", "2-b.2.log"] {
            let (_, file) = spares.lend(&dir.path().join(log)).expect("a file");
            assert_eq!(file.metadata().expect("it is open").len(), 0, "it is its own");
        }
    }

    #[test]
    fn a_step_may_remove_what_it_prints_to() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spares = Spares::of(dir.path()).expect("it is there");
        let (lent, _) = spares.lend(&dir.path().join("1-a.1.log")).expect("a file");
        fs::remove_file(dir.path().join("spare-0")).expect("it is there");
        spares.take_back(&lent);
        let (_, _) = spares.lend(&dir.path().join("2-b.1.log")).expect("a file");
        assert_eq!(names(dir.path()), ["spare-1"]);
    }
}

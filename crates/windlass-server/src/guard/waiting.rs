//! Which guards `windlass guard` waits for at the moment.
//!
//! Each wait has a file with the guard's name in it, and keeps that file locked. The kernel unlocks it
//! when the process ends, however it ends, so a file that can be locked is left over.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use windlass_store::Access;

/// The directory of the files, in that of the store.
const DIRECTORY: &str = "guards";

/// A wait that others can see, until it is dropped.
pub(super) struct Waiting {
    path: PathBuf,
    _locked: File,
}

impl Waiting {
    /// Announces a wait for `guard`. `id` is a word that no other wait uses.
    pub(super) fn announce(state: &Path, guard: &str, id: &str) -> io::Result<Self> {
        let dir = state.join(DIRECTORY);
        Access::create_dir(&dir)?;
        let (hidden, path) = (dir.join(format!(".{id}")), dir.join(id));
        let mut file = Access::open(&hidden, File::options().write(true))?;
        file.lock()?;
        file.write_all(guard.as_bytes())?;
        // Under its name it is locked from the beginning.
        fs::rename(&hidden, &path)?;
        Ok(Self { path, _locked: file })
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // One that stays is removed by the next process that looks.
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns the names of the guards that processes wait for with [`watch`](super::watch) in the store
/// with this directory, each with the number of these processes.
pub fn waiting_guards(state: &Path) -> io::Result<BTreeMap<String, usize>> {
    let entries = match fs::read_dir(state.join(DIRECTORY)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries?,
    };
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
        if !is_hidden && is_locked(&path) {
            let name = fs::read_to_string(&path).ok();
            name.into_iter().for_each(|name| *names.entry(name).or_default() += 1);
        }
    }
    Ok(names)
}

/// Returns whether a process keeps the file locked; removes it otherwise.
fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let free = file.try_lock_shared().is_ok();
    if free {
        let _ = fs::remove_file(path);
    }
    !free
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_seen_for_as_long_as_it_lasts() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(waiting_guards(dir.path()).expect("nothing is there").is_empty());
        let wait = |guard: &str, id: &str| Waiting::announce(dir.path(), guard, id).expect("room");
        let (first, _second) = (wait("approved", "1"), wait("approved", "2"));
        let third = wait("up", "3");
        // What a process that was killed has left.
        fs::write(dir.path().join("guards/4"), "dead").expect("room");
        let names = || waiting_guards(dir.path()).expect("it can be listed").into_iter();
        assert!(names().eq([("approved".to_owned(), 2), ("up".to_owned(), 1)]));
        drop((first, third));
        assert!(names().eq([("approved".to_owned(), 1)]));
        assert!(!dir.path().join("guards/4").exists());
    }
}

//! Which file systems may hold a store, and whether the file is still the one that was created.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Access as Permissions, access, statfs};
use rustix::process::geteuid;

use super::place::{Inode, inode};
use crate::access::Access;
use crate::error::StoreError;
use crate::layout;

/// What to do on a network file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Refuse it: file locks are unreliable there, and shared memory does not work.
    #[default]
    Refuse,
    /// Allow it: the caller knows that only one machine uses the store.
    Allow,
}

/// The magic numbers of network file systems in `statfs`.
const NETWORKS: [(u64, &str); 9] = [
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xfe53_4d42, "smb2"),
    (0xff53_4d42, "cifs"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "afs"),
    (0x00c3_6400, "ceph"),
    (0x0bd0_0bd0, "lustre"),
    (0x0116_1970, "gfs2"),
];

/// Returns the network file system that a directory is on, if it is on one.
pub(super) fn network_of(dir: &Path) -> Option<&'static str> {
    statfs(dir).ok().and_then(|found| network(found.f_type as u64))
}

pub(super) fn refuse_network(dir: &Path) -> Result<(), StoreError> {
    match network_of(dir) {
        Some(kind) => Err(StoreError::NetworkFileSystem { path: dir.to_owned(), kind }),
        None => Ok(()),
    }
}

/// Writable for all users, and what protects their files from each other there.
const FOR_ALL: u32 = 0o0002;
const STICKY: u32 = 0o1000;
/// A directory for files of all users, such as `/tmp`.
const PUBLIC: u32 = FOR_ALL | STICKY;

/// Refuses a directory in which another user could replace the files of the store. A directory that a
/// group shares on purpose is none of these, and root may use the store of any user.
pub(super) fn refuse_unsafe(dir: &Path) -> Result<(), StoreError> {
    let Ok(found) = fs::metadata(dir) else { return Ok(()) };
    let (this, uid) = (geteuid(), found.uid());
    let shared = Access::of(dir).is_ok_and(Access::is_shared);
    match found.mode() & (FOR_ALL | STICKY) {
        FOR_ALL => return Err(StoreError::WorldWritable { dir: dir.to_owned() }),
        PUBLIC if !shared && !holds_own_store(dir) => {
            return Err(StoreError::PublicDir { dir: dir.to_owned() });
        }
        _ => {}
    }
    let trusted = this.is_root() || uid == this.as_raw() || uid == 0 || shared;
    // One that this process cannot write to can still be looked at.
    if !trusted && access(dir, Permissions::WRITE_OK).is_ok() {
        return Err(StoreError::ForeignDir { dir: dir.to_owned(), uid });
    }
    Ok(())
}

/// Returns whether `dir` contains a store of this process's user; root may use that of any user.
fn holds_own_store(dir: &Path) -> bool {
    let this = geteuid();
    // Another user may have made a link to a file of this user.
    let found = |file| fs::symlink_metadata(dir.join(file)).ok().filter(fs::Metadata::is_file);
    let mut files = [layout::WRITER_LOCK, layout::DATABASE].into_iter().filter_map(found);
    files.any(|file| this.is_root() || file.uid() == this.as_raw())
}

/// Returns the network file system with this magic number, which some systems sign-extend.
fn network(number: u64) -> Option<&'static str> {
    let same = |(known, _): &&(u64, &str)| *known == number & 0xffff_ffff;
    NETWORKS.iter().find(same).map(|(_, kind)| *kind)
}

/// Fails if the file of a store that was created earlier is missing, empty, or shorter than its header
/// says. While SQLite's log is not empty, missing pages may be there.
pub(super) fn refuse_truncated(path: &Path) -> Result<(), StoreError> {
    let lost = || StoreError::lost(path);
    let length = fs::metadata(path).map_err(|_| lost())?.len();
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let logged = fs::metadata(log).is_ok_and(|log| log.len() > 0);
    let stated = stated_length(path).unwrap_or_default();
    if length == 0 || (!logged && length < stated) { Err(lost()) } else { Ok(()) }
}

/// Returns the length of the database according to its SQLite header.
fn stated_length(path: &Path) -> io::Result<u64> {
    let mut header = [0; 32];
    File::open(path)?.read_exact(&mut header)?;
    if !header.starts_with(b"SQLite format 3\0") {
        return Ok(0);
    }
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 1 << 16,
        page => u64::from(page),
    };
    let pages = u32::from_be_bytes([header[28], header[29], header[30], header[31]]);
    Ok(page * u64::from(pages))
}

/// The number of connections that this process has to each file.
static CONNECTIONS: Mutex<BTreeMap<Inode, usize>> = Mutex::new(BTreeMap::new());

/// Held by a thread from its check of a file until its connection is counted.
static BEGINNING: Mutex<()> = Mutex::new(());

/// Keeps other threads of this process from opening a store until the guard is dropped.
pub(super) fn begin_alone() -> MutexGuard<'static, ()> {
    // The mutex protects no data that a panic could leave half changed.
    BEGINNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts one connection of this process to a file.
pub(super) struct InUse(Inode);

impl InUse {
    /// Returns whether this process has a connection to the file.
    pub(super) fn already(path: &Path) -> bool {
        inode(path).is_ok_and(|inode| connections().contains_key(&inode))
    }

    /// Counts a new connection to the file.
    pub(super) fn count(inode: Inode) -> Self {
        *connections().entry(inode).or_default() += 1;
        Self(inode)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut connections = connections();
        if let Entry::Occupied(mut count) = connections.entry(self.0) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }
}

fn connections() -> MutexGuard<'static, BTreeMap<Inode, usize>> {
    // A panic cannot leave a count half changed.
    CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_magic_numbers() {
        assert_eq!(network(0x6969), Some("nfs"));
        assert_eq!(network(0xff53_4d42), Some("cifs"));
        assert_eq!(network(0xffff_ffff_ff53_4d42), Some("cifs"), "sign-extended");
        assert_eq!(network(0xef53), None, "ext4");
        assert_eq!(network(0x0102_1994), None, "tmpfs");
    }
}

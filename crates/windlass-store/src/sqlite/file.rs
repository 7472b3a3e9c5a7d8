//! Where a store may lie, and whether the file is still the one that was made.

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

/// What to do on a network file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// Say no: locks there do not always hold, and shared memory does not work.
    #[default]
    Refuse,
    /// The caller knows that only one machine uses it.
    Allow,
}

/// Their numbers, as `statfs` tells them.
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

pub(super) fn refuse_network(dir: &Path) -> Result<(), StoreError> {
    let Ok(found) = statfs(dir) else { return Ok(()) };
    match network(found.f_type as u64) {
        Some(kind) => Err(StoreError::Network { path: dir.to_owned(), kind }),
        None => Ok(()),
    }
}

/// Writable for all users, and what protects their files from each other there.
const FOR_ALL: u32 = 0o0002;
const STICKY: u32 = 0o1000;

/// Refuses a directory in which another user could replace the files of the store. A directory that a
/// group shares on purpose is none of these, and root may use the store of any user.
pub(super) fn refuse_unsafe(dir: &Path) -> Result<(), StoreError> {
    let Ok(found) = fs::metadata(dir) else { return Ok(()) };
    let (this, uid) = (geteuid(), found.uid());
    if found.mode() & (FOR_ALL | STICKY) == FOR_ALL {
        return Err(StoreError::WorldWritable { dir: dir.to_owned() });
    }
    let shared = Access::of(dir).is_ok_and(Access::is_shared);
    let trusted = this.is_root() || uid == this.as_raw() || uid == 0 || shared;
    // One that this process cannot write to can still be looked at.
    if !trusted && access(dir, Permissions::WRITE_OK).is_ok() {
        return Err(StoreError::ForeignDir { dir: dir.to_owned(), uid });
    }
    Ok(())
}

/// What kind of network file system has this number. Some systems tell it with a sign.
fn network(number: u64) -> Option<&'static str> {
    let same = |(known, _): &&(u64, &str)| *known == number & 0xffff_ffff;
    NETWORKS.iter().find(same).map(|(_, kind)| *kind)
}

/// A store was made here once: nothing at all in its place is a loss, not a beginning, and so is a
/// file that is shorter than it says. While there is a log, what is missing may be in that.
pub(super) fn refuse_truncated(path: &Path) -> Result<(), StoreError> {
    let lost = || StoreError::lost(path);
    let length = fs::metadata(path).map_err(|_| lost())?.len();
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let logged = fs::metadata(log).is_ok_and(|log| log.len() > 0);
    let said = stated_length(path).unwrap_or_default();
    if length == 0 || (!logged && length < said) { Err(lost()) } else { Ok(()) }
}

/// How long the file says that it is, in the header that every SQLite file begins with.
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

/// How many connections this process has to each file.
static CONNECTIONS: Mutex<BTreeMap<Inode, usize>> = Mutex::new(BTreeMap::new());

/// Held by a thread of this process from its look at a file until the file is in use.
static BEGINNING: Mutex<()> = Mutex::new(());

/// No other thread of this process begins to use a file meanwhile.
pub(super) fn alone() -> MutexGuard<'static, ()> {
    // There is nothing in it that could be half done.
    BEGINNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file is in use by a connection of this process.
pub(super) struct InUse(Inode);

impl InUse {
    /// Whether this process has a connection to the file.
    pub(super) fn already(path: &Path) -> bool {
        inode(path).is_ok_and(|inode| connections().contains_key(&inode))
    }

    /// Counts one more connection to the file.
    pub(super) fn from_now(inode: Inode) -> Self {
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
    // A count is changed as a whole.
    CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        assert_eq!(network(0x6969), Some("nfs"));
        assert_eq!(network(0xff53_4d42), Some("cifs"));
        assert_eq!(network(0xffff_ffff_ff53_4d42), Some("cifs"), "with a sign");
        assert_eq!(network(0xef53), None, "ext4");
        assert_eq!(network(0x0102_1994), None, "tmpfs");
    }
}

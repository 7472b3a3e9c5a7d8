//! A password that a process lends to those that it starts, so that they can open the same store.
//!
//! It is in a file in memory, which processes of the same user open through `/proc` while the lender runs.
//! The environment has only the path of that file. So the password is in no environment, no argument and no
//! file on a disk, and nothing is left of it after the lender was killed.

use std::env;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::LazyLock;

use rustix::fs::{MemfdFlags, OFlags, SealFlags, fcntl_add_seals, memfd_create};

/// The variable with the path of the file.
pub const PASSFILE_VARIABLE: &str = "WINDLASS_PASSFILE";
/// The most bytes of such a file. A process of another lender may have got the number of one that has ended.
const LARGEST: u64 = 64 << 10;

/// A password that this process lends, until this value is dropped.
pub struct LentPassword {
    file: File,
    password: Vec<u8>,
}

impl LentPassword {
    /// Lends the password with which the database of `url` is opened, which names no password itself.
    pub(super) fn new(url: &str, password: &[u8]) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        // Newer kernels may insist that such a file is not for programs, and older ones do not know that.
        let made = memfd_create("windlass", flags | MemfdFlags::NOEXEC_SEAL);
        let mut file = File::from(made.or_else(|_| memfd_create("windlass", flags))?);
        file.set_permissions(Permissions::from_mode(0o400))?;
        file.write_all(&[url.as_bytes(), b"\n", password].concat())?;
        // A process that writes there by mistake must not take it from others.
        fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK)?;
        Ok(Self { file, password: password.to_owned() })
    }

    /// Returns where processes of this user find it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", process::id(), self.file.as_raw_fd()).into()
    }

    /// Returns whether a text is the password.
    #[must_use]
    pub fn is(&self, text: &OsStr) -> bool {
        text.as_encoded_bytes() == self.password
    }
}

/// What was lent to this process when it asked for the first time.
static BORROWED: LazyLock<Option<Borrowed>> =
    LazyLock::new(|| Borrowed::read(Path::new(&env::var_os(PASSFILE_VARIABLE)?)));

/// A password, and the database for which it is.
struct Borrowed {
    url: String,
    password: String,
}

impl Borrowed {
    fn read(path: &Path) -> Option<Self> {
        // The lender may have ended, and its number may be that of a process with other files.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = i32::try_from(flags.bits()).ok()?;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut text = String::new();
        file.take(LARGEST).read_to_string(&mut text).ok()?;
        let (url, password) = text.split_once('\n')?;
        Some(Self { url: url.to_owned(), password: password.to_owned() })
    }
}

/// Takes what was lent to this process, so that it has the password also when its lender has ended.
pub fn borrow_password() {
    LazyLock::force(&BORROWED);
}

/// Returns the password that was lent to this process for the database of `url`.
pub(super) fn borrowed(url: &str) -> Option<String> {
    BORROWED.as_ref().filter(|lent| lent.url == url).map(|lent| lent.password.clone())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const URL: &str = "postgres://me@db/x";

    #[test]
    fn what_is_lent_can_be_read_until_it_is_taken_back_and_never_be_changed() {
        let lent = LentPassword::new(URL, b"se\ncret").expect("files in memory");
        let path = lent.path();
        let read = Borrowed::read(&path).expect("it is there");
        assert_eq!((read.url.as_str(), read.password.as_str()), (URL, "se\ncret"));
        assert!(lent.is(OsStr::new("se\ncret")) && !lent.is(OsStr::new("se")));
        assert_eq!(fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o400);
        assert!(fs::write(&path, "lost").is_err());
        assert!(Borrowed::read(&path).is_some());
        drop(lent);
        assert!(Borrowed::read(&path).is_none_or(|other| other.url != URL));
    }

    #[test]
    fn a_path_that_has_become_something_else_is_no_password() {
        let dir = tempfile::tempdir().expect("a directory");
        let huge = dir.path().join("huge");
        fs::write(&huge, [b"x".repeat(1 << 20), b"\nsecret".to_vec()].concat()).expect("room");
        let (reader, _writer) = io::pipe().expect("a pipe");
        let pipe = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        for path in [&huge, &pipe, &dir.path().to_owned(), &dir.path().join("none")] {
            assert!(Borrowed::read(path).is_none(), "{}", path.display());
        }
    }
}

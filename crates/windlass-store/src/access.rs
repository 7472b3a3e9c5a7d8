//! Which users may use the files of a store: its owner alone, or all members of a group.
//!
//! The directory decides. If it is setgid and writable for its group, the store belongs to that group,
//! else to its owner. New files get the matching mode, independent of the umask; files that root creates
//! belong to the owner of the directory. Existing files are not changed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use crate::layout;

/// Setgid, and writable for the group.
const SHARED: u32 = 0o2020;

/// Which users may use the files of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    shared: bool,
    uid: u32,
    gid: u32,
}

impl Access {
    /// Returns the access for new files in `dir`.
    pub fn of(dir: &Path) -> io::Result<Self> {
        let found = fs::metadata(dir)?;
        let shared = found.mode() & SHARED == SHARED;
        Ok(Self { shared, uid: found.uid(), gid: found.gid() })
    }

    /// Returns the access for files of this process alone.
    pub(crate) fn own() -> Self {
        Self { shared: false, uid: geteuid().as_raw(), gid: getegid().as_raw() }
    }

    /// Returns whether all members of the directory's group may use the files.
    #[must_use]
    pub fn is_shared(self) -> bool {
        self.shared
    }

    /// Returns the group of the directory.
    #[must_use]
    pub fn gid(self) -> u32 {
        self.gid
    }

    /// Returns the owner of the files that this process creates: its own user, except that files of
    /// root in another user's directory belong to that user.
    #[must_use]
    pub fn creator(self) -> u32 {
        let this = geteuid().as_raw();
        if this == 0 && !self.shared { self.uid } else { this }
    }

    /// Returns whether this process runs as root or as the owner of the directory.
    #[must_use]
    pub fn is_owner_or_root(self) -> bool {
        let this = geteuid().as_raw();
        this == 0 || this == self.uid
    }

    /// Opens a file for writing with `options`, and creates it if it is missing. Fails on a symbolic
    /// link, which another user may have made, and on anything else that is not a regular file.
    pub fn open(path: &Path, options: &OpenOptions) -> io::Result<File> {
        match Self::open_existing(path, options) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match Self::of_parent(path)?.create(path, options) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Self::open_existing(path, options)
            }
            created => created,
        }
    }

    /// Opens an existing file with `options`, as [`open`](Self::open) does.
    pub(crate) fn open_existing(path: &Path, options: &OpenOptions) -> io::Result<File> {
        // A fifo that no process reads must not block the caller.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = match options.clone().custom_flags(flags).open(path) {
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => None,
            opened => Some(opened?),
        };
        let regular = file.filter(|file| file.metadata().is_ok_and(|found| found.is_file()));
        regular.ok_or_else(|| io::Error::other("not a regular file"))
    }

    /// Creates an empty file, unless it exists. An existing file is not opened.
    pub(crate) fn create_missing(path: &Path) -> io::Result<()> {
        match Self::of_parent(path)?.create(path, File::options().write(true)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Creates a directory and its missing parents.
    pub fn create_dir(path: &Path) -> io::Result<()> {
        create_dirs(path, &|parent| Self::of(parent))
    }

    /// Creates the directory of a store for its owner alone, and its missing parents.
    pub(crate) fn create_private_dir(path: &Path) -> io::Result<()> {
        create_dirs(path, &|parent| Ok(Self { shared: false, ..Self::of(parent)? }))
    }

    /// Sets the mode and the owner of a file that this process has just created.
    pub fn apply(self, file: impl AsFd) -> io::Result<()> {
        let file = file.as_fd();
        fchmod(file, Mode::from_raw_mode(if self.shared { 0o660 } else { 0o600 }))?;
        self.give(file)
    }

    /// Closes a file of an older version to other users. A file of another user is not changed.
    pub(crate) fn restrict(self, path: &Path) -> io::Result<()> {
        let found = fs::metadata(path)?;
        let own = found.uid() == geteuid().as_raw();
        if self.shared || !own || found.mode() & 0o077 == 0 {
            return Ok(());
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o600))
    }

    fn of_parent(path: &Path) -> io::Result<Self> {
        Self::of(parent(path))
    }

    /// Creates a new file, without following a link.
    fn create(self, path: &Path, options: &OpenOptions) -> io::Result<File> {
        let file = options.clone().create_new(true).mode(0o600).open(path)?;
        self.apply(&file)?;
        Ok(file)
    }

    fn apply_to_dir(self, path: &Path) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let no_link = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
        options.read(true).custom_flags(no_link);
        let dir = match options.open(path) {
            // The umask removed the owner's permissions. Root, for which following a link would be
            // dangerous, does not get here.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
                options.open(path)?
            }
            dir => dir?,
        };
        fchmod(&dir, Mode::from_raw_mode(if self.shared { 0o2770 } else { 0o700 }))?;
        self.give(&dir)
    }

    /// Gives a file that root has created in another user's directory to that user.
    fn give(self, file: impl AsFd) -> io::Result<()> {
        if self.creator() == geteuid().as_raw() {
            return Ok(());
        }
        Ok(fchown(file, Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)))?)
    }
}

/// Returns whether `dir` contains a file that is no part of a store.
pub(crate) fn holds_other_files(dir: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    for entry in entries {
        if !layout::is_part(entry?.file_name().as_encoded_bytes()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Shares the directory of a store, with all files in it, with the members of a group.
pub(crate) fn share(dir: &Path, gid: u32) -> io::Result<()> {
    let mut open = vec![dir.to_owned()];
    while let Some(path) = open.pop() {
        let found = fs::symlink_metadata(&path)?;
        if found.is_symlink() {
            continue;
        }
        if found.gid() != gid {
            std::os::unix::fs::lchown(&path, None, Some(gid))?;
        }
        let mode = if found.is_dir() { 0o2770 } else { 0o660 };
        // A change of the group clears the setgid bit, so the mode comes last.
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        if found.is_dir() {
            let entries = fs::read_dir(&path)?;
            open.extend(entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?);
        }
    }
    Ok(())
}

fn create_dirs(path: &Path, access: &dyn Fn(&Path) -> io::Result<Access>) -> io::Result<()> {
    let create = || DirBuilder::new().mode(0o700).create(path);
    let created = match create() {
        Err(error) if error.kind() == io::ErrorKind::NotFound && parent(path) != path => {
            create_dirs(parent(path), access)?;
            create()
        }
        created => created,
    };
    match created {
        Ok(()) => access(parent(path))?.apply_to_dir(path),
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the directory of `path`.
fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o7777
    }

    fn make(dir: &Path) -> (u32, u32, u32) {
        let (inner, file) = (dir.join("runs/one"), dir.join("runs/one/log"));
        Access::create_dir(&inner).expect("a directory");
        Access::open(&file, File::options().append(true)).expect("a file");
        (mode(&dir.join("runs")), mode(&inner), mode(&file))
    }

    #[test]
    fn new_files_are_for_the_users_of_their_directory() {
        for (dir_mode, made) in [
            (0o755, (0o700, 0o700, 0o600)),
            (0o777, (0o700, 0o700, 0o600)),
            (0o2755, (0o700, 0o700, 0o600)),
            (0o2770, (0o2770, 0o2770, 0o660)),
            (0o2775, (0o2770, 0o2770, 0o660)),
        ] {
            let dir = tempfile::tempdir().expect("a directory");
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(dir_mode)).expect("a mode");
            assert_eq!(make(dir.path()), made, "{dir_mode:o}");
        }
    }

    #[test]
    fn a_dangling_link_is_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (link, target) = (dir.path().join("link"), dir.path().join("target"));
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        assert!(Access::open(&link, File::options().append(true)).is_err());
        assert!(!target.exists());
    }

    #[test]
    fn sharing_an_existing_store_shares_all_its_files() {
        let dir = tempfile::tempdir().expect("a directory");
        let gid = fs::metadata(dir.path()).expect("it is there").gid();
        let outside = tempfile::NamedTempFile::new().expect("a file");
        make(dir.path());
        std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).expect("a link");
        share(dir.path(), gid).expect("it is ours");
        assert_eq!(mode(dir.path()), 0o2770);
        assert_eq!(make(dir.path()), (0o2770, 0o2770, 0o660));
        assert_eq!(mode(outside.path()), 0o600, "a link may lead out of the store");
    }
}

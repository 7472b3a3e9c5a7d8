//! A program as the kernel takes it: its file, arguments, variables and directory as C strings.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A program with its arguments, its variables and its directory.
pub(crate) struct Program {
    /// The path of the file, relative to the directory of the process.
    pub(super) file: CString,
    /// They begin with the name of the program.
    pub(super) arguments: Vec<CString>,
    /// The variables that replace or extend those of this process, with the lengths of their names.
    pub(super) env: Vec<(usize, CString)>,
    pub(super) dir: CString,
}

impl Program {
    /// Describes the program in `file`. `words` begin with its name. Of two variables of one name, the
    /// latter counts.
    pub(crate) fn new<'a>(
        file: &Path,
        words: impl Iterator<Item = &'a str>,
        env: &[(&str, &[u8])],
        dir: &Path,
    ) -> io::Result<Self> {
        let mut last = Vec::with_capacity(env.len());
        for (place, (name, value)) in env.iter().enumerate() {
            if env[place + 1..].iter().all(|(later, _)| later != name) {
                last.push((name.len(), text([name.as_bytes(), b"=", value].concat())?));
            }
        }
        Ok(Self {
            file: text(file.as_os_str().as_bytes())?,
            arguments: words.map(text).collect::<io::Result<_>>()?,
            env: last,
            dir: text(dir.as_os_str().as_bytes())?,
        })
    }
}

/// Converts a text; the error is that of the standard library.
fn text(text: impl Into<Vec<u8>>) -> io::Result<CString> {
    let nul = |_| io::Error::new(io::ErrorKind::InvalidInput, "nul byte found in provided data");
    CString::new(text).map_err(nul)
}

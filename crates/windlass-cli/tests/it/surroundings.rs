//! Makes tests independent of how they were started, and has nothing outlive them.
//!
//! A process inherits which signals are ignored, as under `nohup` or in the background of a script. A
//! signal that is caught instead is not ignored by children. And every process that a test starts carries
//! a mark, so that a janitor can kill what is left once the tests have ended or were killed.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock};

use rustix::fs::{Access, access};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// The variable that carries the mark.
pub(crate) const VARIABLE: &str = "WINDLASS_TEST";

/// Waits until the tests have ended, which closes its input, and kills whatever carries the mark.
const JANITOR: &str = r#"trap '' HUP INT QUIT TERM
cat > /dev/null
for round in 1 2 3 4 5 6 7 8 9 10; do
    left=$(grep -lzxF "$1" /proc/[0-9]*/environ 2> /dev/null | cut -d/ -f3)
    test -n "$left" || exit 0
    kill -9 $left 2> /dev/null
done"#;

/// The mark of this process, and the janitor that searches for it.
static PREPARED: LazyLock<(String, Child)> = LazyLock::new(|| {
    heed_signals();
    let mark = format!("{}-{:?}", std::process::id(), std::time::SystemTime::now());
    let mark = mark.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let mut janitor = Command::new("sh");
    janitor.args(["-c", JANITOR, "janitor", &format!("{VARIABLE}={mark}")]);
    janitor.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // A group of its own, so that a signal to the group of the tests does not end it as well.
    let janitor = janitor.env_clear().env("PATH", "/usr/bin:/bin").process_group(0).spawn();
    (mark, janitor.expect("a shell runs"))
});

/// Returns the mark that every process started by a test carries in [`VARIABLE`].
pub(crate) fn mark() -> &'static str {
    &PREPARED.0
}

/// Returns the directories for programs, without those that this user must not search: in those, a
/// program that is missing looks like one that must not be executed.
pub(crate) fn path() -> OsString {
    let all = env::var_os("PATH").unwrap_or_default();
    let searched = env::split_paths(&all).filter(|dir| access(dir, Access::EXEC_OK).is_ok());
    env::join_paths(searched).expect("they were joined before")
}

/// Catches the signals that this process ignores, so that its children do not.
fn heed_signals() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0);
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        if ignored & (1 << (signal - 1)) != 0 {
            signal_hook::flag::register(signal, Arc::default()).expect("it can be caught");
        }
    }
}

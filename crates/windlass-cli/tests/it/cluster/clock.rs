//! The wall clock of one machine, which a test may set: a library between its programs and the system.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::bench::Bench;

const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long ahead(void) {
    char text[32] = {0};
    const char *path = getenv("CLOCK_AHEAD");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return 0;
    long count = read(file, text, sizeof text - 1);
    close(file);
    return count > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t id, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(id, now);
    if (done == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
    return done;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int done = real(now, zone);
    now->tv_sec += ahead();
    return done;
}
"#;

/// The wall clock of a machine.
pub(super) struct Clock {
    library: PathBuf,
    ahead: PathBuf,
}

impl Clock {
    /// Returns none, and says so, if there is no C compiler.
    pub(super) fn new(bench: &Bench, name: &str) -> Option<Self> {
        // Where the account of a server can read it.
        let dir =
            std::env::temp_dir().join(format!("windlass-clock-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).expect("a directory");
        let source = bench.path("clock.c");
        fs::write(&source, LIBRARY).expect("a file");
        let clock = Self { library: dir.join("clock.so"), ahead: dir.join("ahead") };
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-o"]).arg(&clock.library).arg(&source).arg("-ldl");
        if !compiler.status().is_ok_and(|status| status.success()) {
            super::skipped("there is no C compiler");
            return None;
        }
        clock.set(0);
        Some(clock)
    }

    /// Sets the clock ahead of the right time by so many seconds.
    pub(super) fn set(&self, seconds: i64) {
        let new = self.ahead.with_extension("new");
        fs::write(&new, seconds.to_string()).expect("a file");
        fs::rename(&new, &self.ahead).expect("it replaces the old one");
    }

    /// Returns the variables of programs that have this clock.
    pub(super) fn variables(&self) -> [(&'static str, PathBuf); 2] {
        [("LD_PRELOAD", self.library.clone()), ("CLOCK_AHEAD", self.ahead.clone())]
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        let dir = self.library.parent().expect("it is in a directory");
        let _ = fs::remove_dir_all(dir);
    }
}

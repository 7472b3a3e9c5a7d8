//! A terminal in memory, and the binary on it.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::bench;

/// How long to wait for something: a minute means never.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal with a command on it.
pub(crate) struct Terminal {
    /// None once the terminal was hung up.
    child: Option<Child>,
    controller: File,
    parser: vt100::Parser,
    output: Receiver<Vec<u8>>,
    /// Returns everything that was written to it.
    bytes: Vec<u8>,
}

impl Terminal {
    /// Starts a command on a terminal of its own, with all three streams.
    pub(crate) fn start(mut command: Command, (rows, columns): (u16, u16)) -> Self {
        let (controller, user) = pair();
        tcsetwinsize(&controller, size(rows, columns)).expect("it has a size");
        command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8");
        let copy = || Stdio::from(user.try_clone().expect("it can be shared"));
        command.stdin(copy()).stdout(copy()).stderr(copy());
        let child = Some(command.spawn().expect("the binary runs"));
        // Otherwise the copies of this process would keep the terminal open when the command has ended.
        drop((command, user));
        let controller = File::from(controller);
        let reader = controller.try_clone().expect("it can be shared");
        let output = read(reader);
        // What scrolls out is kept.
        let parser = vt100::Parser::new(rows, columns, 1000);
        Self { child, controller, parser, output, bytes: Vec::new() }
    }

    /// Waits until the screen is as it should be.
    pub(crate) fn until(&mut self, what: &str, holds: impl Fn(&str) -> bool) {
        let began = Instant::now();
        while !holds(&self.screen()) {
            assert!(began.elapsed() < PATIENCE, "never: {what}\n{}", self.screen());
            assert!(self.take(), "it ended before: {what}\n{}", self.screen());
        }
    }

    /// Waits for the end of the command; how it ended.
    pub(crate) fn end(&mut self) -> ExitStatus {
        while self.take() {}
        let child = self.child.as_mut().expect("it was not hung up");
        child.wait().expect("it has ended")
    }

    /// Returns the contents of the screen, without trailing blanks.
    pub(crate) fn screen(&self) -> String {
        let contents = self.parser.screen().contents();
        contents.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    /// Returns the screen with its colours.
    pub(crate) fn cells(&self) -> &vt100::Screen {
        self.parser.screen()
    }

    /// Returns everything that was written to it.
    pub(crate) fn bytes(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn resize(&mut self, rows: u16, columns: u16) {
        self.parser.screen_mut().set_size(rows, columns);
        tcsetwinsize(&self.controller, size(rows, columns)).expect("it has a size");
    }

    /// Sends a signal to the command.
    pub(crate) fn signal(&self, signal: Signal) {
        bench::signal(self.child.as_ref().expect("it was not hung up"), signal);
    }

    /// Hangs up, as when a window is closed.
    pub(crate) fn hang_up(mut self) -> Child {
        self.child.take().expect("it was not hung up before")
    }

    /// Takes what comes next; false at the end.
    fn take(&mut self) -> bool {
        match self.output.recv_timeout(PATIENCE) {
            Ok(bytes) => {
                self.parser.process(&bytes);
                self.bytes.extend(bytes);
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => panic!("nothing comes any more\n{}", self.screen()),
        }
    }
}

impl Drop for Terminal {
    /// Kills the command of a failed test.
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have ended as it should.
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Returns the two ends of a new terminal.
fn pair() -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let controller = openpt(flags).expect("a terminal");
    grantpt(&controller).and_then(|()| unlockpt(&controller)).expect("it is ours");
    let name = ptsname(&controller, Vec::new()).expect("it has a name");
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let user = open(name.as_c_str(), flags, Mode::empty()).expect("it can be opened");
    (controller, user)
}

/// Reads until the other end is closed, which Linux reports as an error.
fn read(mut reader: File) -> Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = reader.read(&mut buffer) {
            if send.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receive
}

/// Returns a text with everything masked that differs from run to run: times, spinners, the run's id, and
/// blanks.
pub(crate) fn masked(text: &str, run: &str) -> String {
    text.lines().map(|line| masked_line(line).replace(run, "RUN") + "\n").collect()
}

/// Returns a line with `TIME` in place of each duration, and `*` for a spinner.
pub(crate) fn masked_line(line: &str) -> String {
    let spins = |c: char| if ('\u{2800}'..'\u{2900}').contains(&c) { '*' } else { c };
    let line: String = line.chars().map(spins).collect();
    let words: Vec<_> = line.split_whitespace().collect();
    let mut out: Vec<&str> = Vec::new();
    for word in words {
        let unit = word.trim_end_matches([',', ':', ';']);
        let after_number = out.last().is_some_and(|last| last.parse::<f64>().is_ok());
        if after_number && matches!(unit, "ms" | "s" | "min") {
            out.pop();
            out.push(
                ["TIME", "TIME,", "TIME:", "TIME;"][match &word[unit.len()..] {
                    "" => 0,
                    "," => 1,
                    ":" => 2,
                    _ => 3,
                }],
            );
        } else {
            out.push(word);
        }
    }
    out.join(" ")
}

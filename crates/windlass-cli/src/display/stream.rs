//! Standard output and standard error of a run, which continues when their reader is gone.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::thread;
use std::time::Duration;

use crate::output;

/// How long to wait before the next write to a stream that is full.
const PAUSE: Duration = Duration::from_millis(5);

/// A stream whose reader may close it at any time.
pub(crate) struct Stream {
    inner: Box<dyn Write + Send>,
    open: bool,
    on_failure: OnFailure,
}

/// What follows an error other than a closed stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnFailure {
    /// Nothing: the stream carries no data that a caller relies on.
    Ignore,
    /// The command ends with an error.
    Report,
}

impl Stream {
    pub(crate) fn stdout() -> Self {
        let on_failure = match io::stdout().is_terminal() {
            // Writes to a closed terminal fail like those to a bad disk.
            true => OnFailure::Ignore,
            false => OnFailure::Report,
        };
        Self { on_failure, ..Self::new(io::stdout()) }
    }

    pub(crate) fn stderr() -> Self {
        Self::new(io::stderr())
    }

    pub(crate) fn new(inner: impl Write + Send + 'static) -> Self {
        Self { inner: Box::new(inner), open: true, on_failure: OnFailure::Ignore }
    }

    /// Returns whether the stream may still have a reader.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Writes, unless the reader is gone. That does not end the run.
    pub(crate) fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let mut rest = bytes.as_ref();
        while self.open && !rest.is_empty() {
            match self.inner.write(rest) {
                Ok(0) => self.open = false,
                Ok(written) => rest = &rest[written..],
                Err(error) => self.on_error(error),
            }
        }
    }

    pub(crate) fn line(&mut self, line: &str) {
        self.write(format!("{line}\n"));
    }

    pub(crate) fn flush(&mut self) {
        while self.open {
            match self.inner.flush() {
                Ok(()) => return,
                Err(error) => self.on_error(error),
            }
        }
    }

    fn on_error(&mut self, error: io::Error) {
        match error.kind() {
            ErrorKind::Interrupted => {}
            // Another process has made the shared stream non-blocking.
            ErrorKind::WouldBlock => thread::sleep(PAUSE),
            _ => {
                self.open = false;
                if self.on_failure == OnFailure::Report {
                    output::note(Err(error));
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Keeps what is written.
    #[derive(Clone, Default)]
    pub(crate) struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Sink {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("text")
        }
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Answers each call with the next of these, and keeps what it takes.
    struct Moody(Vec<Result<usize, ErrorKind>>, Sink);

    impl Write for Moody {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = self.0.pop().expect("no more calls than answers")?;
            self.1.write(&bytes[..taken])
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn everything_arrives_in_pieces_and_after_waits() {
        let sink = Sink::default();
        let answers = vec![Ok(2), Err(ErrorKind::WouldBlock), Err(ErrorKind::Interrupted), Ok(3)];
        let mut stream = Stream::new(Moody(answers, sink.clone()));
        stream.write("hello");
        assert_eq!((sink.text().as_str(), stream.is_open()), ("hello", true));
    }

    #[test]
    fn nothing_is_written_after_the_reader_is_gone() {
        let mut stream = Stream::new(Moody(vec![Err(ErrorKind::BrokenPipe)], Sink::default()));
        stream.write("hello");
        stream.line("again");
        stream.flush();
        assert!(!stream.is_open());
    }
}

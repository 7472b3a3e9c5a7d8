//! Sends what orders print to a store that keeps logs, for readers on other machines.
//!
//! A thread reads the logs of this machine, so nothing that prints waits for it, and what cannot be sent now is
//! still there later. Of each order it sends the beginning and the end of what was printed, each up to half of
//! what the store keeps. It sends at most a few times a second, and at once when an order has ended: the end is
//! reported a moment later, with the log, unless that takes long.
//!
//! Knows nothing of what orders are.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use windlass_store::{LOG_CHUNK_BYTES, LogBatch, LogChunk, LogStore, LogStream, Store, StoreError};

use super::log_sweep::Sweep;
use crate::log_file::{Growth, LogSource};

/// The shortest time between two batches of what is still printed.
const INTERVAL: Duration = Duration::from_millis(200);
/// How long to wait before a batch is sent again that the store has not taken.
const AGAIN: Duration = Duration::from_millis(500);
/// How many bytes are sent at once.
const BATCH_BYTES: u64 = 1 << 20;
/// Up to which length the last chunk of a stream is sent again with what was printed since, so that an
/// order that prints line by line does not have a chunk for each line.
const SMALL_BYTES: u64 = 8 << 10;
/// How long the report of an end may wait for its log.
const PATIENCE: Duration = Duration::from_millis(250);

/// Sends logs until it is dropped.
pub(super) struct LogSender {
    shared: Arc<Shared>,
    /// How many bytes of each stream the store keeps.
    kept: u64,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The streams that are not complete, except those that are being sent.
    streams: BTreeMap<u64, Stream>,
    /// Those of which something may have to be sent.
    grown: BTreeSet<u64>,
    /// Those whose orders have ended, and that are not complete in the store.
    ended: BTreeSet<u64>,
    /// Whether the store takes nothing now, or too slowly.
    is_behind: bool,
    stop: bool,
}

/// What one order prints, and how much of it the store has.
struct Stream {
    stream: LogStream,
    source: LogSource,
    kept: u64,
    position: Option<SentPosition>,
    /// Whether the order had ended when this was taken to be sent.
    has_ended: bool,
    /// The number of the batch in which some of it was sent last.
    turn: u64,
}

/// How much of a stream the store has.
#[derive(Clone, Copy, Default)]
struct SentPosition {
    /// Up to where it was sent.
    sent: u64,
    /// Where the last chunk begins.
    chunk: u64,
    /// Up to where the chunks between the beginning and the end were deleted.
    left_out: u64,
}

impl LogSender {
    /// Starts to send logs through a connection to a store that keeps logs: of each order, `kept` bytes.
    pub(super) fn start(store: Store, kept: u64) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new().name("logs".to_owned());
        let thread = thread.spawn(move || of_thread.send_all(store))?;
        Ok(Self { shared, kept, thread: Some(thread) })
    }

    /// Sends what an order prints from now on to the log at `path`, up to `limit`. Returns what the log has
    /// to tell.
    pub(super) fn begin(
        &self,
        stream: LogStream,
        path: &Path,
        limit: u64,
        call: Option<u32>,
    ) -> Growth {
        let (token, growth) = (stream.token, self.growth(stream.token));
        let source = LogSource::new(path, limit, call, growth.clone());
        let begun = Some(SentPosition::default());
        let stream = Stream { position: begun, ..Stream::new(stream, source, self.kept) };
        self.shared.state().streams.insert(token, stream);
        growth
    }

    /// Sends what the store does not have of an order of an earlier life.
    pub(super) fn go_on(&self, stream: LogStream, path: &Path, limit: u64, call: Option<u32>) {
        let (token, growth) = (stream.token, self.growth(stream.token));
        let source = LogSource::new(path, limit, call, growth).alone();
        let stream = Stream::new(stream, source, self.kept);
        self.shared.state().streams.insert(token, stream);
        self.shared.end(token);
    }

    /// Sends the rest of what an order has printed, which has ended.
    pub(super) fn end(&self, token: u64) {
        let mut state = self.shared.state();
        let is_silent = !state.grown.contains(&token)
            && state.streams.get(&token).is_some_and(Stream::is_silent);
        if is_silent {
            state.streams.remove(&token);
            return;
        }
        drop(state);
        self.shared.end(token);
    }

    /// Waits for a moment until the store has what ended orders have printed. Does not wait for a store that
    /// takes nothing.
    pub(super) fn wait_for_ends(&self) {
        self.wait_for_ends_within(PATIENCE);
    }

    /// Waits until the store has what ended orders have printed, at most for a time.
    pub(super) fn wait_for_ends_within(&self, patience: Duration) {
        let waits = |state: &mut State| !state.ended.is_empty() && !state.is_behind;
        let state = self.shared.state();
        let waited = self.shared.changed.wait_timeout_while(state, patience, waits);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() && !state.ended.is_empty() {
            state.is_behind = true;
        }
    }

    fn growth(&self, token: u64) -> Growth {
        let shared = Arc::downgrade(&self.shared);
        Growth::new(move || {
            let Some(shared) = shared.upgrade() else { return };
            let mut state = shared.state();
            let is_first = state.grown.is_empty();
            state.grown.insert(token);
            drop(state);
            if is_first {
                shared.changed.notify_all();
            }
        })
    }
}

impl Drop for LogSender {
    fn drop(&mut self) {
        self.shared.state().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It can only panic by a bug, which has been reported then.
            let _ = thread.join();
        }
    }
}

impl State {
    /// Takes the streams of which something may have to be sent.
    fn take_grown(&mut self) -> Vec<Stream> {
        let mut streams = Vec::new();
        for token in std::mem::take(&mut self.grown) {
            let has_ended = self.ended.contains(&token);
            match self.streams.remove(&token) {
                Some(stream) => streams.push(Stream { has_ended, ..stream }),
                // It was complete already.
                None => drop(self.ended.remove(&token)),
            }
        }
        streams
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic leaves streams that are not sent any more.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, token: u64) {
        let mut state = self.state();
        state.ended.insert(token);
        state.grown.insert(token);
        drop(state);
        self.changed.notify_all();
    }

    fn send_all(&self, mut store: Store) {
        let (mut last, mut turn, mut sweep) = (Instant::now(), 0, Sweep::default());
        while let Some(streams) = self.next(last + INTERVAL, sweep.due()) {
            if streams.is_empty() {
                sweep.clean(&mut store);
                continue;
            }
            turn += 1;
            let logs = store.logs().expect("the store keeps logs");
            let (streams, failed) = send(logs, streams, turn);
            last = Instant::now();
            self.put_back(streams, failed);
            if failed {
                if self.stops_within(AGAIN) {
                    return;
                }
                // If that fails, the next batch does.
                let _ = store.reconnect();
            }
        }
    }

    /// Waits until something has to be sent, which is not due before `due` unless an order has ended. Returns
    /// the streams: none when `sweep` is due, or this object ends.
    fn next(&self, due: Instant, sweep: Instant) -> Option<Vec<Stream>> {
        let mut state = self.state();
        loop {
            if state.stop {
                return None;
            }
            let now = Instant::now();
            let has_ended = state.grown.iter().any(|token| state.ended.contains(token));
            if has_ended || !state.grown.is_empty() && now >= due {
                let streams = state.take_grown();
                if !streams.is_empty() {
                    return Some(streams);
                }
                // All of them were complete, for which a thread may wait.
                self.changed.notify_all();
                continue;
            }
            if now >= sweep {
                return Some(Vec::new());
            }
            let until = if state.grown.is_empty() { sweep } else { due.min(sweep) };
            let waited = self.changed.wait_timeout(state, until.saturating_duration_since(now));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Takes back streams after an attempt to send them.
    fn put_back(&self, streams: Vec<(Stream, Left)>, is_behind: bool) {
        let mut state = self.state();
        state.is_behind = is_behind;
        for (stream, left) in streams {
            let token = stream.stream.token;
            match left {
                Left::Nothing if stream.has_ended => {
                    state.ended.remove(&token);
                    continue;
                }
                Left::Nothing => {}
                Left::Some => drop(state.grown.insert(token)),
            }
            state.streams.insert(token, stream);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits. Returns whether this object ends meanwhile.
    fn stops_within(&self, pause: Duration) -> bool {
        let state = self.state();
        let waited = self.changed.wait_timeout_while(state, pause, |state| !state.stop);
        waited.unwrap_or_else(PoisonError::into_inner).0.stop
    }
}

/// Whether a stream has something that was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    Some,
}

/// Sends some of what the streams have, those first that have waited longest. Returns them with what they have
/// left, and whether the store has failed to answer or to take it.
fn send(
    logs: &mut dyn LogStore,
    mut streams: Vec<Stream>,
    turn: u64,
) -> (Vec<(Stream, Left)>, bool) {
    streams.sort_by_key(|stream| stream.turn);
    let before: Vec<_> = streams.iter().map(|stream| stream.position).collect();
    match send_batch(logs, &mut streams, turn) {
        Ok(lefts) => (streams.into_iter().zip(lefts).collect(), false),
        Err(_) => {
            for (stream, before) in streams.iter_mut().zip(before) {
                stream.position = before;
            }
            (streams.into_iter().map(|stream| (stream, Left::Some)).collect(), true)
        }
    }
}

/// Sends as much of the streams as one batch takes. Returns what each has left.
fn send_batch(
    logs: &mut dyn LogStore,
    streams: &mut [Stream],
    turn: u64,
) -> Result<Vec<Left>, StoreError> {
    let mut batch = LogBatch::default();
    let (mut lefts, mut bytes) = (Vec::new(), 0);
    for stream in streams {
        if bytes >= BATCH_BYTES {
            lefts.push(Left::Some);
            continue;
        }
        let chunks = batch.chunks.len();
        stream.turn = turn;
        lefts.push(stream.add_to(&mut batch, logs)?);
        let added = batch.chunks[chunks..].iter();
        bytes += added.map(|chunk| chunk.bytes.len() as u64).sum::<u64>();
    }
    if !batch.chunks.is_empty() {
        logs.put(&batch)?;
    }
    Ok(lefts)
}

impl Stream {
    fn new(stream: LogStream, source: LogSource, kept: u64) -> Self {
        Self { stream, source, kept, position: None, has_ended: false, turn: 0 }
    }

    /// Returns whether nothing was printed, and nothing sent.
    fn is_silent(&self) -> bool {
        self.position.is_some_and(|position| position.sent == 0) && self.source.is_empty()
    }

    /// Adds to a batch what was printed since the last one. Returns what is left.
    fn add_to(
        &mut self,
        batch: &mut LogBatch,
        logs: &mut dyn LogStore,
    ) -> Result<Left, StoreError> {
        let token = self.stream.token;
        let mut position = match self.position {
            Some(position) => position,
            None => {
                let sent = logs.stored_of(token)?;
                SentPosition { sent, chunk: sent, left_out: 0 }
            }
        };
        let (half, end) = (self.kept / 2, self.source.end());
        // What is neither in the beginning nor in the end is not sent.
        if position.sent >= half && end.saturating_sub(position.sent) > half {
            (position.sent, position.chunk) = (end - half, end - half);
        }
        let is_small = position.sent - position.chunk < SMALL_BYTES;
        let from = if is_small { position.chunk } else { position.sent };
        let mut bytes = Vec::new();
        let read = self.source.read(from, LOG_CHUNK_BYTES, &mut bytes);
        // A log that cannot be read is reported by what writes it.
        let Ok(at) = read else { return Ok(Left::Nothing) };
        let sent = at + bytes.len() as u64;
        if sent <= position.sent {
            self.position = Some(position);
            return Ok(Left::Nothing);
        }
        (position.sent, position.chunk) = (sent, at);
        let kept_from = sent.saturating_sub(half + LOG_CHUNK_BYTES);
        let cut = position.left_out.max(half);
        if kept_from > cut + half / 8 {
            batch.left_out.push((token, cut, kept_from));
            position.left_out = kept_from;
        }
        self.position = Some(position);
        let is_full = bytes.len() as u64 == LOG_CHUNK_BYTES;
        batch.streams.push(self.stream.clone());
        batch.chunks.push(LogChunk { token, at, bytes });
        Ok(if is_full || sent < end { Left::Some } else { Left::Nothing })
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::WorkId;
    use windlass_store::{LogPosition, StoredLog};

    use super::*;

    /// Keeps what is sent, and can be away.
    #[derive(Default)]
    struct Kept {
        is_away: bool,
        sent: Vec<u8>,
    }

    impl Kept {
        fn answer(&self) -> Result<(), StoreError> {
            if self.is_away { Err(StoreError::Interrupted) } else { Ok(()) }
        }
    }

    impl LogStore for Kept {
        fn put(&mut self, batch: &LogBatch) -> Result<(), StoreError> {
            self.answer()?;
            for chunk in &batch.chunks {
                self.sent.truncate(chunk.at as usize);
                self.sent.extend(&chunk.bytes);
            }
            Ok(())
        }

        fn stored_of(&mut self, _token: u64) -> Result<u64, StoreError> {
            self.answer().map(|()| self.sent.len() as u64)
        }

        fn of_run(&mut self, _run: &str) -> Result<Vec<StoredLog>, StoreError> {
            unreachable!("nothing is read")
        }

        fn ends(
            &mut self,
            _run: &str,
            _files: &[&str],
        ) -> Result<Vec<(String, LogPosition)>, StoreError> {
            unreachable!("nothing is read")
        }

        fn tail(
            &mut self,
            _run: &str,
            _file: &str,
            _most: u64,
        ) -> Result<Option<LogChunk>, StoreError> {
            unreachable!("nothing is read")
        }

        fn after(
            &mut self,
            _run: &str,
            _file: &str,
            _position: LogPosition,
            _most: u64,
        ) -> Result<Vec<(LogChunk, String)>, StoreError> {
            unreachable!("nothing is read")
        }

        fn works(&mut self, _run: &str) -> Result<Vec<WorkId>, StoreError> {
            unreachable!("nothing is swept")
        }

        fn delete_some(&mut self, _run: &str, _work: Option<WorkId>) -> Result<bool, StoreError> {
            unreachable!("nothing is swept")
        }

        fn of_no_run(&mut self) -> Result<Vec<(String, u64)>, StoreError> {
            unreachable!("nothing is swept")
        }
    }

    #[test]
    fn a_stream_of_an_earlier_life_waits_for_a_store_that_is_away_and_goes_on_behind_what_that_has()
    {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("1-a.1.log");
        std::fs::write(&path, "printed before and after").expect("it can be written");
        let source = LogSource::new(&path, 1 << 20, None, Growth::new(|| {})).alone();
        let (run, file) = ("3fa9c2d1".to_owned(), "1-a.1.log".to_owned());
        let stream = LogStream { token: 7, run, work: None, file, worker: "one".to_owned() };
        let mut streams = vec![Stream::new(stream, source, 1 << 20)];
        let mut store = Kept { is_away: true, sent: b"printed before".to_vec() };
        for turn in 1..3 {
            let (tried, failed) = send(&mut store, streams, turn);
            assert!(failed, "it is tried again after a pause");
            assert_eq!(tried.iter().map(|(_, left)| *left).collect::<Vec<_>>(), [Left::Some]);
            streams = tried.into_iter().map(|(stream, _)| stream).collect();
        }
        store.is_away = false;
        let (sent, failed) = send(&mut store, streams, 3);
        assert!(!failed);
        assert_eq!(sent.iter().map(|(_, left)| *left).collect::<Vec<_>>(), [Left::Nothing]);
        assert_eq!(store.sent, b"printed before and after");
    }
}

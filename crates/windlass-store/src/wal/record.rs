//! One record of a write-ahead log: its length, its checksum, and JSON.
//!
//! A record counts as a whole or not at all. What follows a damaged one is not read.

use serde::{Deserialize, Serialize};
use windlass_core::{Fact, WorkId};

use super::{JournalPosition, WalTail};
use crate::encoding::StoredFact;
use crate::step::{AttemptEnd, AttemptRecord};

/// The bytes before the JSON: its length and its checksum, four bytes each.
const HEADER: usize = 8;

#[derive(Serialize, Deserialize)]
pub(super) struct WalRecord {
    /// The position of the journal that the facts follow.
    pub(super) after: JournalPosition,
    facts: Vec<StoredFact>,
    attempts: Vec<StoredAttempt>,
}

impl WalRecord {
    pub(super) fn new<'a>(
        after: JournalPosition,
        facts: &[Fact],
        attempts: impl Iterator<Item = &'a AttemptRecord>,
    ) -> Self {
        let facts = facts.iter().map(StoredFact::from).collect();
        Self { after, facts, attempts: attempts.map(StoredAttempt::from).collect() }
    }

    /// Returns the bytes of the record.
    pub(super) fn framed(&self) -> Vec<u8> {
        let mut framed = vec![0; HEADER];
        serde_json::to_writer(&mut framed, self).expect("numbers and texts are always JSON");
        let (header, body) = framed.split_at_mut(HEADER);
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        header[..4].copy_from_slice(&length.to_le_bytes());
        header[4..].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
        framed
    }

    /// Returns the first record in `bytes`, and the bytes behind it; none if it is not intact.
    pub(super) fn first_of(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (length, bytes) = bytes.split_first_chunk()?;
        let (checksum, bytes) = bytes.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (body, behind) = bytes.split_at_checked(length)?;
        let intact = crc32fast::hash(body) == u32::from_le_bytes(*checksum);
        let record = intact.then(|| serde_json::from_slice(body).ok())??;
        Some((record, behind))
    }

    pub(super) fn append_to(self, tail: &mut WalTail) {
        tail.facts.extend(self.facts.into_iter().map_while(StoredFact::fact));
        tail.attempts.extend(self.attempts.into_iter().filter_map(StoredAttempt::record));
    }
}

/// An attempt in the stored form.
#[derive(Serialize, Deserialize)]
struct StoredAttempt {
    work: u64,
    attempt: u32,
    step: String,
    started_ms: i64,
    ended_ms: i64,
    end: String,
    code: Option<i32>,
    signal: Option<i32>,
    why: Option<String>,
    peak_kib: Option<u64>,
    cpu_ms: Option<u64>,
}

impl From<&AttemptRecord> for StoredAttempt {
    fn from(record: &AttemptRecord) -> Self {
        Self {
            work: record.work.get(),
            attempt: record.attempt,
            step: record.step.clone(),
            started_ms: record.started_ms,
            ended_ms: record.ended_ms,
            end: record.end.word().to_owned(),
            code: record.code,
            signal: record.signal,
            why: record.why.clone(),
            peak_kib: record.peak_kib,
            cpu_ms: record.cpu_ms,
        }
    }
}

impl StoredAttempt {
    /// Returns the record, unless it has a work id or an end that does not exist.
    fn record(self) -> Option<AttemptRecord> {
        Some(AttemptRecord {
            work: WorkId::new(self.work)?,
            attempt: self.attempt,
            step: self.step,
            started_ms: self.started_ms,
            ended_ms: self.ended_ms,
            end: AttemptEnd::from_word(&self.end)?,
            code: self.code,
            signal: self.signal,
            why: self.why,
            peak_kib: self.peak_kib,
            cpu_ms: self.cpu_ms,
        })
    }
}

//! The logs of orders, in the SQL of PostgreSQL. Takes no writer's turn.

use windlass_core::WorkId;

use super::session::{Columns, Session, Values, int};
use super::{Failure, Postgres};
use crate::error::StoreError;
use crate::log::{LOG_CHUNK_BYTES, LogBatch, LogChunk, LogPosition, LogStore, StoredLog};

/// How many chunks are deleted at once.
const DELETED_AT_ONCE: i64 = 500;
/// How long a log is and where it ends, for [`stored`].
const LENGTH_AND_END: &str = "sum(octet_length(bytes))::bigint, max(token),
    (array_agg(at + octet_length(bytes) ORDER BY token DESC, at DESC))[1]";

impl LogStore for Postgres {
    fn put(&mut self, batch: &LogBatch) -> Result<(), StoreError> {
        self.beside(|session| put(session, batch))
    }

    fn stored_of(&mut self, token: u64) -> Result<u64, StoreError> {
        let query = "SELECT coalesce((SELECT at + octet_length(bytes) FROM log_chunk
            WHERE token = $1 ORDER BY at DESC LIMIT 1), 0)";
        let stored = self.beside(|session| session.one(query, &[&int(token)], |row| row.int(0)))?;
        Ok(stored.unwrap_or_default())
    }

    fn of_run(&mut self, run: &str) -> Result<Vec<StoredLog>, StoreError> {
        let query = format!(
            "SELECT file, {LENGTH_AND_END} FROM log_stream JOIN log_chunk USING (token)
             WHERE run = $1 GROUP BY file ORDER BY file"
        );
        self.beside(|session| session.all(&query, &[&run], stored))
    }

    fn ends(
        &mut self,
        run: &str,
        files: &[&str],
    ) -> Result<Vec<(String, LogPosition)>, StoreError> {
        // It takes one row of an index for each log, however long they are.
        let query = "SELECT file, token, at + octet_length(bytes) FROM (
                SELECT DISTINCT ON (file) file, token FROM log_stream
                WHERE run = $1 AND file = ANY($2) ORDER BY file, token DESC
            ) AS last CROSS JOIN LATERAL (
                SELECT at, bytes FROM log_chunk WHERE log_chunk.token = last.token
                ORDER BY at DESC LIMIT 1
            ) AS chunk";
        self.beside(|session| {
            session.all(query, &[&run, &files], |row| {
                Ok((row.value(0)?, LogPosition { token: row.int(1)?, at: row.int(2)? }))
            })
        })
    }

    fn tail(&mut self, run: &str, file: &str, most: u64) -> Result<Option<LogChunk>, StoreError> {
        // All chunks but the last one have some KiB.
        let query = "SELECT token, at + octet_length(bytes) - length, octet_length(bytes) = length,
                substring(bytes FROM octet_length(bytes) - length + 1)
            FROM (
                SELECT token, at, bytes, least(octet_length(bytes), $3::bigint)::int AS length
                FROM log_chunk WHERE token = (
                    SELECT max(token) FROM log_stream WHERE run = $1 AND file = $2
                ) ORDER BY at DESC LIMIT 8
            ) AS last ORDER BY at DESC";
        let values: Values<'_> = &[&run, &file, &int(most)];
        let chunks = self.beside(|session| {
            session.all(query, values, |row| {
                let chunk = LogChunk { token: row.int(0)?, at: row.int(1)?, bytes: row.value(3)? };
                Ok((chunk, row.value(2)?))
            })
        })?;
        Ok(joined(chunks, usize::try_from(most).unwrap_or(usize::MAX)))
    }

    fn after(
        &mut self,
        run: &str,
        file: &str,
        position: LogPosition,
        most: u64,
    ) -> Result<Vec<(LogChunk, String)>, StoreError> {
        // Each read is short, however long the chunks are: a row that is not returned is not read.
        let query = "SELECT token, at, bytes, worker FROM (
                SELECT token, at, bytes, worker,
                    sum(octet_length(bytes)) OVER (ORDER BY token, at) - octet_length(bytes) AS before
                FROM (
                    SELECT token, at, bytes, worker FROM log_stream JOIN log_chunk USING (token)
                    WHERE run = $1 AND file = $2
                    AND (token > $3 OR token = $3 AND at >= $6 AND at + octet_length(bytes) > $4)
                    ORDER BY token, at LIMIT 256
                ) AS next
            ) AS found WHERE before < $5 ORDER BY token, at";
        let LogPosition { token, at } = position;
        let from = at.saturating_sub(LOG_CHUNK_BYTES);
        let values: Values<'_> = &[&run, &file, &int(token), &int(at), &int(most), &int(from)];
        let chunks = self.beside(|session| {
            session.all(query, values, |row| {
                let chunk = LogChunk { token: row.int(0)?, at: row.int(1)?, bytes: row.value(2)? };
                Ok((chunk, row.value(3)?))
            })
        })?;
        Ok(chunks.into_iter().map(|chunk| rest_of(chunk, position)).collect())
    }

    fn works(&mut self, run: &str) -> Result<Vec<WorkId>, StoreError> {
        let query = "SELECT DISTINCT work FROM log_stream WHERE run = $1 AND work IS NOT NULL
            ORDER BY work";
        self.beside(|session| {
            session.all(query, &[&run], |row| row.known(0, WorkId::new(row.int(0)?)))
        })
    }

    fn delete_some(&mut self, run: &str, work: Option<WorkId>) -> Result<bool, StoreError> {
        let work = work.map(|work| int(work.get()));
        let chunks = "DELETE FROM log_chunk USING (
                SELECT token, at FROM log_stream JOIN log_chunk USING (token)
                WHERE run = $1 AND ($2::bigint IS NULL OR work = $2) LIMIT $3
            ) AS found WHERE log_chunk.token = found.token AND log_chunk.at = found.at";
        let streams = "DELETE FROM log_stream WHERE run = $1 AND ($2::bigint IS NULL OR work = $2)";
        self.beside(|session| {
            let deleted = session.change(chunks, &[&run, &work, &DELETED_AT_ONCE])?;
            if deleted < DELETED_AT_ONCE.unsigned_abs() {
                session.change(streams, &[&run, &work])?;
                return Ok(false);
            }
            Ok(true)
        })
    }

    fn of_no_run(&mut self) -> Result<Vec<(String, u64)>, StoreError> {
        let query = "SELECT run, coalesce(sum(octet_length(bytes)), 0)::bigint
            FROM log_stream LEFT JOIN log_chunk USING (token)
            WHERE NOT EXISTS (SELECT FROM run WHERE run.id = log_stream.run)
            GROUP BY run ORDER BY run";
        self.beside(|session| session.all(query, &[], |row| Ok((row.value(0)?, row.int(1)?))))
    }
}

impl Postgres {
    /// Runs statements that do not take the writers' turn. None of them is repeated.
    pub(super) fn beside<T>(
        &mut self,
        act: impl FnOnce(&Session) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let session = self.take_session().map_err(|failure| match failure {
            Failure::Repeatable(error) | Failure::Final(error) => error,
        })?;
        let done = act(&session);
        self.session = Some(session);
        done
    }
}

fn put(session: &Session, batch: &LogBatch) -> Result<(), StoreError> {
    let LogBatch { streams, chunks, left_out } = batch;
    let tokens: Vec<_> = streams.iter().map(|stream| int(stream.token)).collect();
    let runs: Vec<_> = streams.iter().map(|stream| &stream.run).collect();
    let works: Vec<_> =
        streams.iter().map(|stream| stream.work.map(|work| int(work.get()))).collect();
    let files: Vec<_> = streams.iter().map(|stream| &stream.file).collect();
    let workers: Vec<_> = streams.iter().map(|stream| &stream.worker).collect();
    let insert_streams = "INSERT INTO log_stream (token, run, work, file, worker)
        SELECT new.* FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[])
        AS new (token, run, work, file, worker) JOIN run ON run.id = new.run ON CONFLICT DO NOTHING";
    let of: Vec<_> = chunks.iter().map(|chunk| int(chunk.token)).collect();
    let at: Vec<_> = chunks.iter().map(|chunk| int(chunk.at)).collect();
    let bytes: Vec<_> = chunks.iter().map(|chunk| &chunk.bytes[..]).collect();
    let insert_chunks = "INSERT INTO log_chunk (token, at, bytes)
        SELECT new.* FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) AS new (token, at, bytes)
        JOIN log_stream USING (token) ON CONFLICT (token, at) DO UPDATE SET bytes = excluded.bytes";
    let delete = "DELETE FROM log_chunk WHERE token = $1 AND at >= $2 AND at < $3";
    session.batch_later("BEGIN");
    let put = session
        .execute(insert_streams, &[&tokens, &runs, &works, &files, &workers])
        .and_then(|_| session.execute(insert_chunks, &[&of, &at, &bytes]))
        .and_then(|_| {
            left_out.iter().try_for_each(|(token, from, to)| {
                session.execute(delete, &[&int(*token), &int(*from), &int(*to)])
            })
        })
        .and_then(|()| session.batch("COMMIT"));
    if put.is_err() {
        // A lost connection has ended it already.
        let _ = session.batch("ROLLBACK");
    }
    put
}

/// Joins the ends of chunks, the last one first, up to the first that lacks its beginning or is not followed by
/// the next one.
fn joined(chunks: Vec<(LogChunk, bool)>, most: usize) -> Option<LogChunk> {
    let mut chunks = chunks.into_iter();
    let (mut tail, mut is_whole) = chunks.next()?;
    for (before, whole) in chunks {
        if !is_whole || before.at + before.bytes.len() as u64 != tail.at {
            break;
        }
        let bytes = [before.bytes, tail.bytes].concat();
        (tail, is_whole) = (LogChunk { bytes, ..before }, whole);
    }
    let surplus = tail.bytes.len().saturating_sub(most);
    tail.bytes.drain(..surplus);
    tail.at += surplus as u64;
    Some(tail)
}

/// Returns what of a chunk is behind a position: the chunk may have grown since it was read.
fn rest_of((mut chunk, worker): (LogChunk, String), position: LogPosition) -> (LogChunk, String) {
    if chunk.token == position.token && chunk.at < position.at {
        let known = usize::try_from(position.at - chunk.at).unwrap_or(usize::MAX);
        chunk.bytes.drain(..known.min(chunk.bytes.len()));
        chunk.at = position.at;
    }
    (chunk, worker)
}

fn stored(row: &Columns<'_>) -> Result<StoredLog, StoreError> {
    let end = LogPosition { token: row.int(2)?, at: row.int(3)? };
    Ok(StoredLog { file: row.value(0)?, length: row.int(1)?, end })
}

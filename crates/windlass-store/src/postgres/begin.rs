//! How a transaction that writes begins: it takes the writers' turn, and reads the clock of the server.
//!
//! The time that a store goes by never goes back, though the clock of a server may be set: what it has gone
//! back is added from then on. So a lease never lasts longer because of that.

use std::cell::RefCell;

use windlass_core::Timestamp;

use super::schema;
use super::session::{Session, int};
use super::target::Target;
use crate::clock::{Frame, ServerTime, since_boot};
use crate::error::StoreError;
use crate::tables::Meta;

/// How far the stored time may be behind, in microseconds: a dead holder may keep its names for as much longer.
const STEP_US: i64 = 1_000_000;
/// How long a waiter keeps its place that was told of its turn and does not claim, in microseconds. One that
/// lives claims within a minute.
const ANSWERED_US: i64 = 300_000_000;
/// The clock of the server in microseconds, and the history of the database.
const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    left(pg_walfile_name(pg_current_wal_lsn()), 8)";

/// What a transaction has learned when it began.
pub(super) struct Begun {
    /// The number by which the server knows the transaction.
    pub(super) number: String,
    /// Whether writers were kept out for so long that holders may have missed heartbeats.
    pub(super) has_stalled: bool,
    pub(super) time: ServerTime,
    pub(super) meta: RefCell<Meta>,
}

/// Begins a transaction and takes the writers' turn.
pub(super) fn begin(session: &Session, target: &Target) -> Result<Begun, StoreError> {
    session.batch_later("BEGIN; SET LOCAL lock_timeout = '250ms'");
    let asked = since_boot();
    // The clock is read once the row is locked, so that times grow in the order of commits.
    let query = format!(
        "WITH one AS MATERIALIZED (SELECT * FROM meta FOR UPDATE)
         SELECT pg_current_xact_id()::text, server IS DISTINCT FROM pg_postmaster_start_time(),
         server IS NOT NULL, era, eras, clock_us, ahead_us, {CLOCK}, version FROM one"
    );
    let found = session.one(&query, &[], |row| {
        let has_started: bool = row.value(1)?;
        let number = row.value(0)?;
        let meta = Meta { era: row.value(3)?, eras: row.int(4)? };
        let reading =
            Reading { latest_us: row.value(5)?, ahead_us: row.value(6)?, clock_us: row.value(7)? };
        let (was_served, timeline) = (row.value::<bool>(2)?, row.value::<String>(8)?);
        Ok((number, has_started && was_served, has_started, meta, reading, timeline, row.value(9)?))
    })?;
    let (number, has_stalled, has_started, meta, reading, timeline, version) =
        found.expect("a store has one row of counters");
    // A newer version may have migrated the tables while this process used them.
    if version != schema::VERSION {
        return Err(schema::newer(target, version));
    }
    if has_started {
        session.execute("UPDATE meta SET server = pg_postmaster_start_time()", &[])?;
    }
    let (now_us, ahead_us) = reading.now();
    if now_us - reading.latest_us >= STEP_US || ahead_us != reading.ahead_us {
        // Only processes of the same machine see that a waiter has ended; the others wait for its answer.
        let update = "WITH silent AS (DELETE FROM waiter WHERE notified_ns < $3)
            UPDATE meta SET clock_us = $1, ahead_us = $2";
        let answered_ns = now_us.saturating_sub(ANSWERED_US).saturating_mul(1000);
        session.execute(update, &[&now_us, &ahead_us, &answered_ns])?;
    }
    let time = time(session, now_us, reading.clock_us, &timeline, asked);
    Ok(Begun { number, has_stalled, time, meta: RefCell::new(meta) })
}

/// Reads the clock outside a transaction.
pub(super) fn first_time(session: &Session) -> Result<ServerTime, StoreError> {
    let asked = since_boot();
    let query = format!("SELECT ahead_us, {CLOCK} FROM meta");
    let found = session.one(&query, &[], |row| {
        Ok((row.value::<i64>(0)?, row.value::<i64>(1)?, row.value::<String>(2)?))
    })?;
    let (ahead_us, clock_us, timeline) = found.expect("a store has one row of counters");
    Ok(time(session, clock_us.saturating_add(ahead_us), clock_us, &timeline, asked))
}

/// The clock of the server, and what the store knows of it.
struct Reading {
    clock_us: i64,
    /// The latest time that a writer has stored.
    latest_us: i64,
    ahead_us: i64,
}

impl Reading {
    /// Returns the time by which the store goes, and how much is added to the clock for it.
    fn now(&self) -> (i64, i64) {
        let now_us = self.clock_us.saturating_add(self.ahead_us);
        let back_us = (self.latest_us - now_us).max(0);
        (now_us + back_us, self.ahead_us + back_us)
    }
}

fn time(
    session: &Session,
    now_us: i64,
    clock_us: i64,
    timeline: &str,
    asked: Timestamp,
) -> ServerTime {
    let nanos = u64::try_from(now_us).unwrap_or_default().saturating_mul(1000);
    ServerTime {
        at: Timestamp::from_nanos(nanos),
        wall_ms: int(clock_us / 1000),
        asked,
        frame: Frame::of_database(session.system(), timeline),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_goes_back_does_not_take_the_time_back() {
        for (clock_us, latest_us, ahead_us, expected) in [
            (1_000, 0, 0, (1_000, 0)),
            (1_000, 1_000, 0, (1_000, 0)),
            (400, 1_000, 0, (1_000, 600)),
            (500, 1_000, 600, (1_100, 600)),
            (900, 1_000, 600, (1_500, 600)),
        ] {
            let reading = Reading { clock_us, latest_us, ahead_us };
            assert_eq!(reading.now(), expected, "{clock_us} {latest_us} {ahead_us}");
        }
    }
}

//! Everything that can be written, within one commit.

use rusqlite::{OptionalExtension, Row, params};
use windlass_core::{Fact, HolderId, Lease, Lock, Timestamp, Token};

use crate::encoding::encode;
use crate::process::Process;
use crate::store::{RunRecord, StoreError, wall_ms};

/// A name that processes on this machine share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// A lock that users name.
    Lock(String),
    /// The right to lead a run; its token is the run's epoch.
    Run(String),
}

/// A request for several names, together or not at all.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Who asks; unique for one life of one holder.
    pub holder: &'a HolderId,
    /// The process that stands for it: when it is gone, so is the hold.
    pub process: &'a Process,
    /// What it asks for.
    pub names: &'a [Name],
}

/// The answer to a [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// All names are held, each with its token.
    Held(Vec<Token>),
    /// None is held; the holder has a place in line.
    Refused(Refused),
}

/// Who stood in the way of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The name that could not be had.
    pub name: Name,
    /// Who has it, or stands in line before us.
    pub by: HolderId,
}

/// One commit in the making.
pub struct Transaction<'a> {
    sqlite: rusqlite::Transaction<'a>,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(sqlite: rusqlite::Transaction<'a>) -> Self {
        Self { sqlite }
    }

    pub(crate) fn commit(self) -> Result<(), StoreError> {
        Ok(self.sqlite.commit()?)
    }

    /// An id that no run has.
    pub fn new_run_id(&self) -> Result<String, StoreError> {
        Ok(self.sqlite.query_row("SELECT lower(hex(randomblob(4)))", [], |row| row.get(0))?)
    }

    /// Stores a new run.
    pub fn insert_run(&self, run: &RunRecord) -> Result<(), StoreError> {
        let insert =
            "INSERT INTO run (id, file, text, dir, created_ms) VALUES (?1, ?2, ?3, ?4, ?5)";
        let dir = run.dir.to_string_lossy();
        self.sqlite.execute(insert, params![run.id, run.file, run.text, dir, wall_ms()])?;
        Ok(())
    }

    /// Adds to the journal of a run. Refused unless `epoch` is the token under which the run is led
    /// now.
    pub fn append(&self, run: &str, epoch: Token, facts: &[Fact]) -> Result<(), StoreError> {
        let name = Name::Run(run.to_owned());
        let lock = self.lock(&name)?;
        if lock.token() != epoch || lock.lease().is_none() {
            return Err(StoreError::StaleEpoch { run: run.to_owned() });
        }
        let last = "SELECT coalesce(max(seq), 0) FROM fact WHERE run = ?1";
        let last: i64 = self.sqlite.prepare_cached(last)?.query_row([run], |row| row.get(0))?;
        let insert = "INSERT INTO fact (run, seq, epoch, fact) VALUES (?1, ?2, ?3, ?4)";
        let mut insert = self.sqlite.prepare_cached(insert)?;
        for (seq, fact) in (last + 1..).zip(facts) {
            insert.execute(params![run, seq, epoch.0, encode(fact)])?;
        }
        Ok(())
    }

    /// Takes all names, or leaves the holder a place in line. A name is refused while someone else
    /// has it, or while it refused someone who stands before us.
    pub fn claim(&self, claim: &Claim<'_>) -> Result<Claimed, StoreError> {
        self.forget_the_dead()?;
        let mut locks = Vec::new();
        let mut refused = Vec::new();
        for name in claim.names {
            let mut lock = self.lock(name)?;
            let earlier = self.earlier_ticket(name, claim.holder)?;
            let acquired = lock.acquire(claim.holder, Timestamp::from_millis(wall_ms() as u64));
            match (acquired, earlier) {
                (Ok(acquired), None) => locks.push((name, lock, acquired.token())),
                (Err(busy), _) => refused.push((name, busy.holder)),
                (Ok(_), Some(by)) => refused.push((name, by)),
            }
        }
        if let Some((name, by)) = refused.first() {
            let refusal = Refused { name: (*name).clone(), by: by.clone() };
            self.stand_in_line(claim, refused.iter().map(|(name, _)| *name))?;
            return Ok(Claimed::Refused(refusal));
        }
        self.leave_line(claim.holder)?;
        let process = self.process_id(claim.process)?;
        for (name, lock, _) in &locks {
            self.put(name, lock, Some(process))?;
        }
        Ok(Claimed::Held(locks.iter().map(|(_, _, token)| *token).collect()))
    }

    /// Gives one name back. False if the holder does not have it under that token.
    pub fn release(
        &self,
        name: &Name,
        holder: &HolderId,
        token: Token,
    ) -> Result<bool, StoreError> {
        let mut lock = self.lock(name)?;
        if lock.release(holder, token).is_err() {
            return Ok(false);
        }
        self.put(name, &lock, None)?;
        Ok(true)
    }

    /// Gives up a place in line, if there is one.
    pub fn leave_line(&self, holder: &HolderId) -> Result<(), StoreError> {
        let delete = "DELETE FROM ticket WHERE holder = ?1";
        self.sqlite.prepare_cached(delete)?.execute([holder.as_str()])?;
        Ok(())
    }

    /// The holder of the first live ticket before ours that this name refused.
    fn earlier_ticket(
        &self,
        name: &Name,
        holder: &HolderId,
    ) -> Result<Option<HolderId>, StoreError> {
        let query = "SELECT holder FROM ticket JOIN ticket_name ON ticket = id
            WHERE kind = ?1 AND name = ?2 AND holder <> ?3
              AND id < coalesce((SELECT id FROM ticket WHERE holder = ?3), 9223372036854775807)
            ORDER BY id LIMIT 1";
        let (kind, name) = name.parts();
        let mut statement = self.sqlite.prepare_cached(query)?;
        let found = statement.query_row([kind, name, holder.as_str()], |row| row.get(0));
        Ok(found.optional()?.map(|holder: String| HolderId::new(holder)))
    }

    /// Adds the names that refused us to our ticket; the first time, a ticket at the end of the line.
    fn stand_in_line<'n>(
        &self,
        claim: &Claim<'_>,
        refused: impl Iterator<Item = &'n Name>,
    ) -> Result<(), StoreError> {
        let process = self.process_id(claim.process)?;
        let insert = "INSERT OR IGNORE INTO ticket (holder, process) VALUES (?1, ?2)";
        self.sqlite.execute(insert, params![claim.holder.as_str(), process])?;
        let insert = "INSERT OR IGNORE INTO ticket_name (ticket, kind, name)
            SELECT id, ?2, ?3 FROM ticket WHERE holder = ?1";
        for name in refused {
            let (kind, name) = name.parts();
            self.sqlite.execute(insert, [claim.holder.as_str(), kind, name])?;
        }
        Ok(())
    }

    /// Frees what processes hold that are certainly gone, and drops their tickets.
    fn forget_the_dead(&self) -> Result<(), StoreError> {
        let query = "SELECT id, pid, started, boot, namespace FROM process";
        let mut statement = self.sqlite.prepare_cached(query)?;
        let processes =
            statement.query_map([], |row| Ok((row.get::<_, i64>(0)?, process(row)?)))?;
        for entry in processes.collect::<Result<Vec<_>, _>>()? {
            if entry.1.is_gone() {
                self.forget(entry.0)?;
            }
        }
        Ok(())
    }

    fn forget(&self, process: i64) -> Result<(), StoreError> {
        let query = "SELECT kind, name, holder FROM name WHERE process = ?1";
        let mut statement = self.sqlite.prepare_cached(query)?;
        let held = statement.query_map([process], |row| {
            Ok((row.get::<_, String>(0)?, row.get(1)?, row.get::<_, String>(2)?))
        })?;
        for (kind, name, holder) in held.collect::<Result<Vec<_>, _>>()? {
            let name = Name::from_parts(&kind, name);
            let mut lock = self.lock(&name)?;
            lock.free_from(&HolderId::new(holder));
            self.put(&name, &lock, None)?;
        }
        self.sqlite.execute("DELETE FROM ticket WHERE process = ?1", [process])?;
        self.sqlite.execute("DELETE FROM process WHERE id = ?1", [process])?;
        Ok(())
    }

    fn lock(&self, name: &Name) -> Result<Lock, StoreError> {
        let query = "SELECT token, holder, since_ms FROM name WHERE kind = ?1 AND name = ?2";
        let (kind, name) = name.parts();
        let mut statement = self.sqlite.prepare_cached(query)?;
        let stored = statement.query_row([kind, name], |row| {
            let holder: Option<String> = row.get(1)?;
            let since: Option<u64> = row.get(2)?;
            let since = Timestamp::from_millis(since.unwrap_or_default());
            let lease = holder.map(|holder| Lease { holder: HolderId::new(holder), since });
            Ok(Lock::restore(Token(row.get(0)?), lease))
        });
        Ok(stored.optional()?.unwrap_or_default())
    }

    fn put(&self, name: &Name, lock: &Lock, process: Option<i64>) -> Result<(), StoreError> {
        let upsert = "INSERT INTO name (kind, name, token, holder, since_ms, process)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)
            ON CONFLICT DO UPDATE SET token = ?3, holder = ?4, since_ms = ?5, process = ?6";
        let (kind, name) = name.parts();
        let holder = lock.lease().map(|lease| lease.holder.as_str());
        let since = lock.lease().map(|lease| lease.since.as_nanos() / 1_000_000);
        let mut statement = self.sqlite.prepare_cached(upsert)?;
        statement.execute(params![kind, name, lock.token().0, holder, since, process])?;
        Ok(())
    }

    fn process_id(&self, process: &Process) -> Result<i64, StoreError> {
        let Process { pid, started, boot, namespace } = process;
        let insert = "INSERT OR IGNORE INTO process (pid, started, boot, namespace)
            VALUES (?1, ?2, ?3, ?4)";
        let find = "SELECT id FROM process
            WHERE pid = ?1 AND started = ?2 AND boot = ?3 AND namespace = ?4";
        self.sqlite.execute(insert, params![pid, started, boot, namespace])?;
        let found = params![pid, started, boot, namespace];
        Ok(self.sqlite.query_row(find, found, |row| row.get(0))?)
    }
}

impl Name {
    fn parts(&self) -> (&'static str, &str) {
        match self {
            Name::Lock(name) => ("lock", name),
            Name::Run(name) => ("run", name),
        }
    }

    fn from_parts(kind: &str, name: String) -> Self {
        match kind {
            "run" => Name::Run(name),
            _ => Name::Lock(name),
        }
    }
}

fn process(row: &Row<'_>) -> rusqlite::Result<Process> {
    Ok(Process {
        pid: row.get(1)?,
        started: row.get(2)?,
        boot: row.get(3)?,
        namespace: row.get(4)?,
    })
}

//! What accounts of the database may do with the store.
//!
//! An account has no more rights than it needs: to look, to use the verbs, or to be a scheduler or a worker.
//! None of them may change the tables.

use std::fmt;

use super::schema;
use super::session::Session;
use super::target::Target;
use crate::error::StoreError;

/// What an account may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rights {
    /// Look at everything.
    Read,
    /// Use all verbs.
    Operate,
    /// Be a scheduler or a worker, too.
    Work,
}

impl Rights {
    /// All rights, from the least to the most.
    pub const ALL: [Self; 3] = [Self::Read, Self::Operate, Self::Work];

    /// Returns the privileges that these rights need on a table.
    fn on(self, table: &str) -> &'static [&'static str] {
        let is_of_workers = OF_WORKERS.contains(&table);
        match self {
            Rights::Read => &["SELECT"],
            Rights::Operate if is_of_workers => &["SELECT", "DELETE"],
            Rights::Operate | Rights::Work => &["SELECT", "INSERT", "UPDATE", "DELETE"],
        }
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rights::Read => "read",
            Rights::Operate => "operate",
            Rights::Work => "work",
        })
    }
}

/// The tables that only schedulers and workers add to. Whoever deletes a run deletes what they have of it.
const OF_WORKERS: [&str; 6] =
    ["work_order", "report", "worker", "step_output", "log_stream", "log_chunk"];

/// What an account may do, and what it lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedRights {
    /// The account.
    pub account: String,
    /// The most that it may do; none if it may not even look.
    pub rights: Option<Rights>,
    /// What it lacks for each that it may not do: privileges, with their tables.
    pub lacks: Vec<(Rights, Vec<String>)>,
}

/// Gives an account of the database at `url` exactly these rights.
pub fn grant(url: &str, role: &str, rights: Rights) -> Result<(), StoreError> {
    let target = Target::parse(url)?;
    let session = Session::open(&target, super::READ_PATIENCE, None)?;
    let (schema, role) = (target.schema().to_owned(), quoted(role));
    schema::check(&session, &target)?;
    let mut statements = format!(
        "BEGIN; REVOKE ALL ON ALL TABLES IN SCHEMA \"{schema}\" FROM {role};
         GRANT USAGE ON SCHEMA \"{schema}\" TO {role};"
    );
    for table in tables(&session, &schema)? {
        let privileges = rights.on(&table).join(", ");
        statements += &format!("GRANT {privileges} ON \"{schema}\".{} TO {role};", quoted(&table));
    }
    let granted = session.batch(&statements).and_then(|()| session.batch("COMMIT"));
    if granted.is_err() {
        let _ = session.batch("ROLLBACK");
    }
    granted
}

/// Returns what the account of `url` may do with the store there.
pub fn check_rights(url: &str) -> Result<CheckedRights, StoreError> {
    let target = Target::parse(url)?;
    let session = Session::open(&target, super::READ_PATIENCE, None)?;
    let schema = target.schema();
    let account = session.one("SELECT current_user::text", &[], |row| row.value(0))?;
    let account: String = account.unwrap_or_default();
    let has_schema =
        "SELECT coalesce(has_schema_privilege(to_regnamespace($1)::oid, 'USAGE'), false)";
    let has_schema =
        session.one(has_schema, &[&format!("\"{schema}\"")], |row| row.value::<bool>(0))?;
    if has_schema != Some(true) {
        let lacks = Rights::ALL.map(|rights| (rights, vec![format!("USAGE on schema {schema}")]));
        return Ok(CheckedRights { account, rights: None, lacks: lacks.to_vec() });
    }
    let has = "SELECT has_table_privilege(format('%I.%I', $1::text, $2::text), $3)";
    let tables = tables(&session, schema)?;
    let mut checked = CheckedRights { account, rights: None, lacks: Vec::new() };
    for rights in Rights::ALL {
        let mut lacks = Vec::new();
        for table in &tables {
            for privilege in rights.on(table) {
                let has = session.one(has, &[&schema, table, privilege], |row| row.value(0))?;
                if has != Some(true) {
                    lacks.push(format!("{privilege} on {table}"));
                }
            }
        }
        match lacks.is_empty() {
            true => checked.rights = Some(rights),
            false => checked.lacks.push((rights, lacks)),
        }
    }
    Ok(checked)
}

fn tables(session: &Session, schema: &str) -> Result<Vec<String>, StoreError> {
    let query = "SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace($1)
        AND relkind = 'r' ORDER BY relname";
    session.all(query, &[&format!("\"{schema}\"")], |row| row.value(0))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

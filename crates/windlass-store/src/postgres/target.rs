//! Which database a store is in, how to reach it, and what may be shown of that.

use std::env;
use std::error::Error as _;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::lent::{LentPassword, borrowed};
use super::tls;
use crate::error::StoreError;

/// How long to wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// After how long without an answer a connection is tested.
const SILENCE: Duration = Duration::from_secs(10);
/// The value of `sslrootcert` for the certificates that this system trusts.
const SYSTEM_CERTIFICATES: &str = "system";
/// How the client says that the server has asked for a password.
const NO_PASSWORD: &str = "password missing";
/// The schema with the tables of a store, unless the URL names another.
const SCHEMA: &str = "windlass";

/// A database, as a URL names it: `postgres://USER@HOST:PORT/DATABASE?schema=NAME`.
pub(super) struct Target {
    config: Config,
    schema: String,
    /// The URL without a password.
    shown: String,
    root_certificate: Option<PathBuf>,
}

impl Target {
    /// Reads a URL. A password that it leaves out was lent to this process, or it comes from the environment, as
    /// for other programs that use PostgreSQL: `PGPASSWORD`, or the file that `PGPASSFILE` names (`~/.pgpass` by
    /// default); or from `WINDLASS_STATE`, if that names the same database.
    pub(super) fn parse(url: &str) -> Result<Self, StoreError> {
        let shown = without_password(url);
        let invalid = |why: String| StoreError::DatabaseUrl { url: shown.clone(), why };
        let account = url.split_once("://").and_then(|(_, rest)| account_in(rest));
        if account.is_some_and(|account| account.contains(['?', '@'])) {
            let why = "write %3F for each ? and %40 for each @ of a password, a name or an option";
            return Err(invalid(why.to_owned()));
        }
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut schema, mut rest) = (SCHEMA.to_owned(), Vec::new());
        let (mut root_certificate, mut ssl_mode) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=').unwrap_or((pair, "")) {
                ("schema", name) if is_plain(name) => schema = name.to_owned(),
                ("schema", name) => {
                    let why = "a schema has a name of at most 48 lower-case letters, digits and underscores";
                    return Err(invalid(format!("invalid schema {name:?}: {why}")));
                }
                ("sslrootcert", path) => root_certificate = Some(path.to_owned()),
                ("sslmode", value) => ssl_mode = Some(value.to_owned()),
                ("password", _) => {
                    return Err(invalid(
                        "a password goes before the @, or better into a password file".to_owned(),
                    ));
                }
                _ => rest.push(pair),
            }
        }
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let ssl_mode = ssl_mode.or_else(|| variable("PGSSLMODE"));
        let ssl_mode = ssl_mode.map(|value| tls::mode(&value)).transpose().map_err(invalid)?;
        let ssl_mode = ssl_mode.map(|mode| format!("sslmode={mode}"));
        rest.extend(ssl_mode.as_deref());
        let root_certificate = root_certificate.or_else(|| variable("PGSSLROOTCERT"));
        let root_certificate =
            root_certificate.filter(|path| path != SYSTEM_CERTIFICATES).map(PathBuf::from);
        if root_certificate.as_ref().is_some_and(|path| path.is_relative()) {
            let why = "the path of sslrootcert has to begin with a slash, because steps run in other directories";
            return Err(invalid(why.to_owned()));
        }
        let cleaned = match rest.is_empty() {
            true => place.to_owned(),
            false => format!("{place}?{}", rest.join("&")),
        };
        let mut config = Config::from_str(&cleaned).map_err(|error| invalid(reason(&error)))?;
        if config.get_user().is_none() {
            let user = env::var("PGUSER").or_else(|_| env::var("USER"));
            config.user(user.unwrap_or_default());
        }
        if config.get_hosts().is_empty() {
            config.host(env::var("PGHOST").unwrap_or_else(|_| "localhost".to_owned()));
        }
        if config.get_password().is_none()
            && let Some(password) = password_of(&config, &shown)
        {
            config.password(password);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        // A server or a network that is gone without a word is noticed within half a minute.
        config.keepalives_idle(SILENCE).keepalives_interval(SILENCE / 2).keepalives_retries(3);
        config.tcp_user_timeout(SILENCE * 2);
        config.application_name("windlass");
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        Ok(Self { config, schema, shown, root_certificate })
    }

    /// Lends the password to processes of the same user; none if there is none.
    pub(super) fn lend_password(&self) -> Result<Option<LentPassword>, StoreError> {
        let password = self.config.get_password();
        let lent = password.map(|password| LentPassword::new(&self.shown, password)).transpose();
        lent.map_err(|source| StoreError::Io { path: "a file in memory".into(), source })
    }

    pub(super) fn schema(&self) -> &str {
        &self.schema
    }

    /// Returns how to connect within `limit`, so that each host gets its turn.
    pub(super) fn config(&self, limit: Duration) -> Config {
        let mut config = self.config.clone();
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX);
        let turn = limit / hosts.saturating_add(1);
        let own = config.get_connect_timeout().copied();
        config.connect_timeout(own.map_or(turn, |own| own.min(turn)));
        if self.is_local() {
            config.ssl_mode(SslMode::Disable);
        }
        config
    }

    pub(super) fn error(&self, error: &tokio_postgres::Error) -> StoreError {
        self::error(&self.shown, error)
    }

    /// Returns whether connections do not leave this machine.
    pub(super) fn is_local(&self) -> bool {
        self.config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)))
    }

    /// Returns what checks the certificate of the server: against the file of the URL, else against the
    /// certificates that this system trusts. None for a connection without TLS.
    pub(super) fn tls(&self) -> Result<Option<MakeRustlsConnect>, StoreError> {
        if self.is_local() || self.config.get_ssl_mode() == SslMode::Disable {
            return Ok(None);
        }
        let connector = tls::connector(self.root_certificate.as_deref());
        let unusable = |why| StoreError::Database { database: self.shown.clone(), why };
        connector.map(Some).map_err(unusable)
    }
}

/// The URL without a password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

/// Returns whether a URL names a database of PostgreSQL.
#[must_use]
pub fn is_database(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// Returns a URL without the password that it may contain.
#[must_use]
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (user, place) = match account_in(rest) {
        Some(account) => {
            let user = account.split_once(':').map_or(account, |(user, _)| user);
            (format!("{user}@"), &rest[account.len() + 1..])
        }
        None => (String::new(), rest),
    };
    let (place, query) = place.split_once('?').unwrap_or((place, ""));
    let is_secret = |pair: &&str| {
        pair.split('=').next().is_some_and(|key| key.to_ascii_lowercase().contains("password"))
    };
    let query: Vec<_> = query.split('&').filter(|pair| !is_secret(pair)).collect();
    let query = query.join("&");
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{scheme}://{user}{place}{mark}{query}")
}

/// Returns the user and the password of a URL without its scheme. They end at the last `@` before the query,
/// because a password may contain a slash that was not encoded, or else at the last of all, because it may
/// contain a question mark.
fn account_in(rest: &str) -> Option<&str> {
    let place = rest.split('?').next().unwrap_or_default();
    let end = place.rfind('@').or_else(|| rest.rfind('@'))?;
    Some(&rest[..end])
}

/// Converts an error of the client, and tells why a connection failed.
pub(super) fn error(database: &str, error: &tokio_postgres::Error) -> StoreError {
    let (database, why) = (database.to_owned(), reason(error));
    if why.ends_with(NO_PASSWORD) {
        return StoreError::NoPassword { database };
    }
    let Some(code) = error.code().map(SqlState::code).filter(|_| !error.is_closed()) else {
        return StoreError::DatabaseAway { database, why };
    };
    match code {
        // The server ends, starts, or has no room for another connection.
        "57P01" | "57P02" | "57P03" | "53300" => StoreError::DatabaseAway { database, why },
        // A prepared statement is there that this session has not prepared, or one is not that it has.
        "42P05" | "26000" => StoreError::Pooled { database },
        // It lacks disk, memory or another resource.
        code if code.starts_with("53") => StoreError::DatabaseFull { database, why },
        _ => StoreError::Database { database, why },
    }
}

/// Returns an error with all its causes.
fn reason(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return error.message().to_owned();
    }
    if let Some(advice) = tls::advice(error) {
        return advice;
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

fn is_plain(name: &str) -> bool {
    let plain = |letter: char| matches!(letter, 'a'..='z' | '0'..='9' | '_');
    (1..=48).contains(&name.len()) && name.chars().all(plain)
}

/// Returns the password that was lent for a connection, or that the environment or the password file has.
fn password_of(config: &Config, shown: &str) -> Option<String> {
    // First, because a step may use another database, too.
    if let Some(password) = borrowed(shown) {
        return Some(password);
    }
    if let Ok(password) = env::var("PGPASSWORD") {
        return Some(password);
    }
    if let Some(password) =
        env::var("WINDLASS_STATE").ok().and_then(|url| password_for(&url, shown))
    {
        return Some(password);
    }
    let file = env::var_os("PGPASSFILE").map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".pgpass"));
    let text = fs::read_to_string(file.or_else(home)?).ok()?;
    let host = match config.get_hosts().first()? {
        Host::Tcp(name) => name.clone(),
        Host::Unix(_) => "localhost".to_owned(),
    };
    let port = config.get_ports().first().unwrap_or(&5432).to_string();
    let user = config.get_user()?.to_owned();
    let database = config.get_dbname().unwrap_or(&user).to_owned();
    text.lines().find_map(|line| password_in(line, [&host, &port, &database, &user]))
}

/// Returns the password in a URL that otherwise equals `shown`.
fn password_for(url: &str, shown: &str) -> Option<String> {
    if !is_database(url) || without_password(url) != shown {
        return None;
    }
    let config = Config::from_str(url.split_once('?').map_or(url, |(place, _)| place)).ok()?;
    Some(String::from_utf8_lossy(config.get_password()?).into_owned())
}

/// Returns the password of a line `HOST:PORT:DATABASE:USER:PASSWORD`, if it is for this connection. A
/// backslash keeps the next character as it is, and a star stands for anything.
fn password_in(line: &str, wanted: [&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let (mut fields, mut letters) = (vec![String::new()], line.chars());
    while let Some(letter) = letters.next() {
        let (count, field) = (fields.len(), fields.last_mut().expect("it begins with one"));
        match letter {
            '\\' => field.extend(letters.next()),
            // The password is the last field, whatever it contains.
            ':' if count < 5 => fields.push(String::new()),
            letter => field.push(letter),
        }
    }
    let password = (fields.len() == 5).then(|| fields.pop())??;
    let fits = |(field, wanted): (&String, &str)| field == "*" || field == wanted;
    fields.iter().zip(wanted).all(fits).then_some(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_shown() {
        for (url, shown) in [
            ("postgres://me:secret@db/x", "postgres://me@db/x"),
            ("postgres://me:se%40cr:et@db:5433/x?schema=a", "postgres://me@db:5433/x?schema=a"),
            ("postgres://me@db/x", "postgres://me@db/x"),
            ("postgresql://me:secret@db", "postgresql://me@db"),
            ("postgres://me:sec/ret@db/x?schema=a", "postgres://me@db/x?schema=a"),
            (
                "postgres://db/x?schema=a&connect_timeout=3",
                "postgres://db/x?schema=a&connect_timeout=3",
            ),
            (
                "postgres://me:secret@db/x?application_name=a@b",
                "postgres://me@db/x?application_name=a@b",
            ),
        ] {
            assert_eq!(without_password(url), shown);
            let parsed = Target::parse(url).expect(url);
            assert_eq!(parsed.to_string(), shown);
        }
        for url in [
            "postgres://me:secret?secret@db/x",
            "postgres://me:secret@secret@db/x",
            "postgres://me:secret/?a=secret@db/x",
            "postgres://me@db/x?password=secret",
            "postgres://me@db/x?schema=a&sslpassword=secret&connect_timeout=3",
            "postgres://me:secret@db:port/x",
        ] {
            assert!(!without_password(url).contains("secret"), "{url}");
            let refused = Target::parse(url).err().expect(url).to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn a_url_names_a_schema() {
        let schema = |url: &str| Target::parse(url).map(|target| target.schema().to_owned());
        assert_eq!(schema("postgres://db/x").expect("valid"), "windlass");
        assert_eq!(schema("postgres://db/x?schema=team_2").expect("valid"), "team_2");
        for url in
            ["postgres://db/x?schema=a%22b", "postgres://db/x?schema=A", "postgres://db/x?schema="]
        {
            let refused = schema(url).expect_err(url).to_string();
            assert!(refused.contains("invalid schema"), "{refused}");
        }
    }

    #[test]
    fn a_password_file_is_read_as_other_programs_read_it() {
        let wanted = ["db", "5432", "x", "me"];
        for (line, password) in [
            ("db:5432:x:me:secret", Some("secret")),
            ("*:*:*:me:a:b", Some("a:b")),
            (r"*:*:*:*:a\\b\:c", Some(r"a\b:c")),
            ("db:5432:x:you:secret", None),
            ("# db:5432:x:me:secret", None),
            ("db:5432:x:me", None),
            ("", None),
        ] {
            assert_eq!(password_in(line, wanted).as_deref(), password, "{line}");
        }
    }
}

//! `windlass store init`: creates a store, also one that several users share.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Gid, getegid, geteuid, getgroups};
use serde::Serialize;
use thiserror::Error;
use windlass_server::{
    Access, CheckedRights, Rights, check_rights, grant, is_database, user_name, without_password,
};

use crate::arguments::{Form, StoreArguments, StoreVerb};
use crate::exit::Exit;
use crate::output::{json, print};
use crate::state;

/// Why a group cannot share a store.
#[derive(Debug, Error)]
pub(crate) enum GroupError {
    #[error("there is no group {group:?} on this machine")]
    Unknown { group: String },
    #[error(
        "you are not a member of group {group:?}, so you cannot give it a store; have an \
         administrator run: usermod -aG {group} {user}, then log in again"
    )]
    NotMember { group: String, user: String },
    #[error(
        "you are a member of group {group:?}, but this session began before you were added; log in \
         again, or run: newgrp {group}"
    )]
    NotInSession { group: String },
}

/// Why a user cannot use a store that a group shares.
#[derive(Debug, Error)]
pub(crate) enum OutsiderError {
    #[error(
        "the store {dir} is shared by the members of group {group:?}, and you are not one; have an \
         administrator run: usermod -aG {group} {user}, then log in again",
        dir = dir.display()
    )]
    NotMember { dir: PathBuf, group: String, user: String },
    #[error(
        "the store {dir} is shared by the members of group {group:?}, and this session began before \
         you were added to it; log in again, or run: newgrp {group}",
        dir = dir.display()
    )]
    NotInSession { dir: PathBuf, group: String },
}

impl OutsiderError {
    /// Returns none if no group shares `dir`, or if this process belongs to the group.
    pub(crate) fn of(dir: &Path) -> Option<Self> {
        let access = Access::of(dir).ok().filter(|access| access.is_shared())?;
        let NonMember { group, user, is_listed } = NonMember::of(access.gid())?;
        let dir = dir.to_owned();
        Some(match is_listed {
            true => OutsiderError::NotInSession { dir, group },
            false => OutsiderError::NotMember { dir, group, user },
        })
    }
}

pub(crate) fn store(
    state: Option<&Path>,
    system: bool,
    arguments: &StoreArguments,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    let group = match &arguments.verb {
        StoreVerb::Init { group } => group,
        StoreVerb::Grant { role, rights } => {
            return grant_rights(state, role, rights.rights(), form);
        }
        StoreVerb::Check => return check(state, form),
    };
    let gid = match group {
        Some(group) => Some(usable_gid(group)?),
        None => system.then(|| getegid().as_raw()),
    };
    let store = state::init(state, gid)?;
    let made = Made {
        dir: store.dir().display().to_string(),
        database: state.and_then(Path::to_str).filter(|url| is_database(url)).map(without_password),
        group: gid.map(|gid| Group::find(&gid.to_string()).map_or(gid.to_string(), |g| g.name)),
    };
    print(&match form {
        Form::Json => json("store", &made),
        Form::Text => made.text(),
    });
    Ok(Exit::Success)
}

/// Gives an account of a database rights to the store there.
fn grant_rights(
    state: Option<&Path>,
    role: &str,
    rights: Rights,
    form: Form,
) -> Result<Exit, Box<dyn Error>> {
    grant(state::database(state)?.ok_or(NotInDatabase)?, role, rights)?;
    match form {
        Form::Json => print(&json("granted", &Granted { role, rights: rights.to_string() })),
        Form::Text => eprintln!("{role} may {rights}"),
    }
    Ok(Exit::Success)
}

/// Shows what this account may do with the store in a database, and what it lacks.
fn check(state: Option<&Path>, form: Form) -> Result<Exit, Box<dyn Error>> {
    let checked = check_rights(state::database(state)?.ok_or(NotInDatabase)?)?;
    let CheckedRights { account, rights, lacks } = &checked;
    let rights = rights.map(|rights| rights.to_string());
    match form {
        Form::Json => {
            let lacks = lacks.iter().map(|(rights, lacks)| (rights.to_string(), lacks)).collect();
            print(&json("rights", &RightsJson { account, rights, lacks }));
        }
        Form::Text => {
            print(&match &rights {
                Some(rights) => format!("{account} may {rights}\n"),
                None => format!("{account} may not even look\n"),
            });
            for (rights, lacks) in lacks {
                print(&format!("to {rights}, it lacks {}\n", lacks.join(", ")));
            }
        }
    }
    Ok(if checked.rights.is_some() { Exit::Success } else { Exit::Failed })
}

/// A store in a directory has no accounts.
#[derive(Debug, Error)]
#[error(
    "this is for stores in databases; who may use a store in a directory is decided by its group: windlass store init --group NAME"
)]
pub(crate) struct NotInDatabase;

#[derive(Serialize)]
struct Granted<'a> {
    role: &'a str,
    rights: String,
}

#[derive(Serialize)]
struct RightsJson<'a> {
    account: &'a str,
    /// The most that the account may do.
    rights: Option<String>,
    /// What it lacks for each that it may not do.
    lacks: BTreeMap<String, &'a Vec<String>>,
}

/// The created store, for programs.
#[derive(Serialize)]
struct Made {
    dir: String,
    /// The URL of the database that has the store, if one has it.
    database: Option<String>,
    /// The group whose members share it.
    group: Option<String>,
}

impl Made {
    fn text(&self) -> String {
        let dir = &self.dir;
        match (&self.database, &self.group) {
            (Some(database), _) => format!("{database}: logs of this machine are in {dir}\n"),
            (None, Some(group)) => format!("{dir}: shared by the members of group {group}\n"),
            (None, None) => format!("{dir}: used by its owner only\n"),
        }
    }
}

/// Returns the number of a group to which this process can give files.
fn usable_gid(group: &str) -> Result<u32, GroupError> {
    let known = Group::find(group);
    let gid = group.parse().ok().or(known.as_ref().map(|known| known.gid));
    let gid = gid.ok_or_else(|| GroupError::Unknown { group: group.to_owned() })?;
    match NonMember::of(gid) {
        None => Ok(gid),
        Some(NonMember { group, is_listed: true, .. }) => Err(GroupError::NotInSession { group }),
        Some(NonMember { group, user, .. }) => Err(GroupError::NotMember { group, user }),
    }
}

/// A process without the permissions of a group.
struct NonMember {
    group: String,
    /// The user of this process.
    user: String,
    /// Whether the user is listed as a member; then the session of this process is older.
    is_listed: bool,
}

impl NonMember {
    /// Returns none if this process has the permissions of the group.
    fn of(gid: u32) -> Option<Self> {
        let in_session = || getgroups().is_ok_and(|groups| groups.contains(&Gid::from_raw(gid)));
        if geteuid().is_root() || getegid().as_raw() == gid || in_session() {
            return None;
        }
        let (known, user) = (Group::find(&gid.to_string()), user_name(geteuid().as_raw()));
        let is_listed = known.as_ref().is_some_and(|known| known.members.contains(&user));
        let group = known.map_or(gid.to_string(), |known| known.name);
        Some(Self { group, user, is_listed })
    }
}

/// A group of the machine.
struct Group {
    name: String,
    gid: u32,
    /// The users who are listed as its members.
    members: Vec<String>,
}

impl Group {
    /// Finds a group by name or number. `getent` also knows groups that are not in the file.
    fn find(group: &str) -> Option<Self> {
        let asked = Command::new("getent").args(["group", "--", group]).output();
        let asked = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let listed = || fs::read_to_string("/etc/group").unwrap_or_default();
        let text = asked.ok().filter(|text| !text.is_empty()).unwrap_or_else(listed);
        text.lines().filter_map(Self::read).find(|known| known.is_called(group))
    }

    /// Parses a line `name:password:gid:member,member`.
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.split(':');
        let (name, gid) = (fields.next()?.to_owned(), fields.nth(1)?.parse().ok()?);
        let members = fields.next().unwrap_or_default().split(',').map(str::to_owned).collect();
        Some(Self { name, gid, members })
    }

    fn is_called(&self, group: &str) -> bool {
        self.name == group || self.gid.to_string() == group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_a_name_a_number_and_members() {
        let group = Group::read("ops:x:1200:alice,bob").expect("a whole line");
        assert!(group.is_called("ops") && group.is_called("1200") && !group.is_called("op"));
        assert_eq!(group.members, ["alice", "bob"]);
        assert!(Group::read("").is_none() && Group::read("ops:x:many:").is_none());
    }
}

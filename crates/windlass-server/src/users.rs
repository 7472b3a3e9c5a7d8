//! The users of a shared store: their names, and which runs belong to them.
//!
//! Every member of a group can write to the database that the group shares. That a run is its owner's is
//! a convention that the verbs keep, and no barrier against a member who means harm.

use std::fs;

use rustix::process::geteuid;

use crate::coordinator::RunError;

/// Returns the name of a user: `alice`, or `user 1001` where the machine knows no name.
#[must_use]
pub fn user_name(uid: u32) -> String {
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    named(&users, uid).map_or_else(|| format!("user {uid}"), str::to_owned)
}

fn named(users: &str, uid: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next().filter(|name| !name.is_empty())?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    })
}

/// Refuses a run of another user. A run that an older version stored belongs to every user, and root may
/// change all runs.
pub(crate) fn expect_owner(run: &str, uid: Option<u32>) -> Result<(), RunError> {
    match uid {
        Some(uid) if !is_ours(uid) => Err(RunError::NotOwner { run: run.to_owned(), uid }),
        _ => Ok(()),
    }
}

/// Returns whether this process may change what belongs to a user.
pub(crate) fn is_ours(uid: u32) -> bool {
    let this = geteuid();
    this.is_root() || this.as_raw() == uid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_called_as_the_machine_calls_them() {
        let users = "root:x:0:0:root:/root:/bin/sh\n\n:x:7:\nalice:x:1001:1001::/home/alice:\n";
        assert_eq!(named(users, 1001), Some("alice"));
        assert_eq!(named(users, 0), Some("root"));
        assert_eq!(named(users, 7), None, "a line without a name");
        assert_eq!(named(users, 1002), None);
        assert_eq!(user_name(u32::MAX - 7), "user 4294967288");
    }
}
